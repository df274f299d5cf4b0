//! The result of a job: payloads, how much margin they had, and which sectors are lost.

use fulgurite_codec::checksum::crc64;
use fulgurite_codec::{DecodedSector, SectorCode, SectorLoss};
use fulgurite_glass::decoder::ImageLoss;

use super::{Fields, JobName, Owner, VERSION};

const MAGIC: &[u8; 8] = b"FULGDRES";
const DECODED: u32 = 0;
const REFUSED: u32 = 1;
/// Most bytes of the reason of a refusal.
const REASON_BYTES_MAX: usize = 1_000;

/// What became of a sector.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SectorResult {
    /// It was read.
    Decoded(DecodedSector),
    /// Codewords could not be corrected.
    Noise { codewords: u32 },
    /// The checksum was wrong.
    Checksum,
    /// The images contained nothing to decode.
    Blank,
}

impl SectorResult {
    pub(super) fn of(decoded: Result<DecodedSector, ImageLoss>) -> Self {
        match decoded {
            Ok(decoded) => Self::Decoded(decoded),
            Err(ImageLoss::Sector(SectorLoss::Noise { codewords })) => Self::Noise { codewords: codewords as u32 },
            Err(ImageLoss::Sector(SectorLoss::Checksum)) => Self::Checksum,
            Err(ImageLoss::Frames(_)) => Self::Blank,
        }
    }
}

/// A worker's answer to a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// The sectors, in the order of the job.
    Decoded(Vec<SectorResult>),
    /// Why it can't decode the job.
    Refused(String),
}

/// A result.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResultFile {
    pub(super) worker: Owner,
    /// The checksum of the job.
    pub(super) job_crc64: u64,
    pub(super) outcome: Outcome,
}

impl ResultFile {
    /// Encodes the result of a job with these addresses.
    pub(super) fn to_bytes(&self, name: JobName, addresses: &[[u8; 20]]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        let kind = if matches!(self.outcome, Outcome::Decoded(_)) { DECODED } else { REFUSED };
        bytes.extend(kind.to_le_bytes());
        for value in [name.owner.0, name.number, self.worker.0, self.job_crc64] {
            bytes.extend(value.to_le_bytes());
        }
        match &self.outcome {
            Outcome::Refused(reason) => {
                let reason = &reason.as_bytes()[..reason.len().min(REASON_BYTES_MAX)];
                bytes.extend((reason.len() as u64).to_le_bytes());
                bytes.extend(reason);
            }
            Outcome::Decoded(sectors) => {
                bytes.extend((sectors.len() as u64).to_le_bytes());
                for (sector, address) in sectors.iter().zip(addresses) {
                    put_sector(&mut bytes, sector, address);
                }
            }
        }
        bytes.extend(crc64(&bytes).to_le_bytes());
        bytes
    }

    /// Parses the result of the job with this name, this checksum and these addresses; payloads
    /// have `payload_bytes`. `None` if it is damaged, or of something else.
    pub(super) fn parse(bytes: &[u8], name: JobName, job_crc64: u64, addresses: &[[u8; 20]], payload_bytes: usize) -> Option<Self> {
        let (covered, crc) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        if crc64(covered).to_le_bytes() != crc {
            return None;
        }
        let mut fields = Fields(covered.strip_prefix(MAGIC)?);
        let (version, kind) = (fields.u32()?, fields.u32()?);
        let (owner, number) = (fields.u64()?, fields.u64()?);
        let (worker, found_crc64) = (Owner(fields.u64()?), fields.u64()?);
        if (version, owner, number, found_crc64) != (VERSION, name.owner.0, name.number, job_crc64) {
            return None;
        }
        let count = usize::try_from(fields.u64()?).ok()?;
        let outcome = match kind {
            DECODED if count == addresses.len() => {
                let sectors: Option<Vec<SectorResult>> =
                    addresses.iter().map(|address| parse_sector(&mut fields, address, payload_bytes)).collect();
                Outcome::Decoded(sectors?)
            }
            REFUSED if count <= REASON_BYTES_MAX => Outcome::Refused(String::from_utf8_lossy(fields.bytes(count)?).into_owned()),
            _ => return None,
        };
        fields.0.is_empty().then_some(Self { worker, job_crc64, outcome })
    }
}

fn put_sector(bytes: &mut Vec<u8>, sector: &SectorResult, address: &[u8; 20]) {
    let (status, iterations, count) = match sector {
        SectorResult::Decoded(decoded) => (0, decoded.most_iterations, decoded.corrected_bits),
        SectorResult::Noise { codewords } => (1, 0, *codewords),
        SectorResult::Checksum => (2, 0, 0),
        SectorResult::Blank => (3, 0, 0),
    };
    let (payload, information, checksum) = match sector {
        SectorResult::Decoded(decoded) => (&decoded.payload[..], decoded.information, SectorCode::checksum(address, &decoded.payload)),
        _ => (&[][..], 0.0, 0),
    };
    for value in [status, iterations, count, payload.len() as u32] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(information.to_le_bytes());
    bytes.extend(checksum.to_le_bytes());
    bytes.extend(payload);
}

fn parse_sector(fields: &mut Fields<'_>, address: &[u8; 20], payload_bytes: usize) -> Option<SectorResult> {
    let (status, most_iterations, count) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let length = fields.u32()? as usize;
    let (information, checksum) = (fields.f64()?, fields.u64()?);
    match (status, length) {
        (0, length) if length == payload_bytes => {
            let payload = fields.bytes(length)?.to_vec();
            let decoded = DecodedSector { payload, most_iterations, corrected_bits: count, information };
            (SectorCode::checksum(address, &decoded.payload) == checksum).then_some(SectorResult::Decoded(decoded))
        }
        (1, 0) => Some(SectorResult::Noise { codewords: count }),
        (2, 0) => Some(SectorResult::Checksum),
        (3, 0) => Some(SectorResult::Blank),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_decode::Class;

    use super::*;

    const NAME: JobName = JobName { class: Class::Read, owner: Owner(7), number: 9 };
    const ADDRESSES: [[u8; 20]; 4] = [[1; 20], [2; 20], [3; 20], [4; 20]];

    fn result() -> ResultFile {
        let decoded = DecodedSector { payload: vec![5; 100], most_iterations: 4, corrected_bits: 70, information: 0.97 };
        let sectors =
            vec![SectorResult::Noise { codewords: 2 }, SectorResult::Decoded(decoded), SectorResult::Checksum, SectorResult::Blank];
        ResultFile { worker: Owner(3), job_crc64: 11, outcome: Outcome::Decoded(sectors) }
    }

    fn parse(bytes: &[u8]) -> Option<ResultFile> {
        ResultFile::parse(bytes, NAME, 11, &ADDRESSES, 100)
    }

    #[test]
    fn results_come_back_to_their_job_alone() {
        let bytes = result().to_bytes(NAME, &ADDRESSES);
        assert_eq!(bytes.len(), 56 + 4 * 32 + 100 + 8, "as docs/medium.md says");
        assert_eq!(parse(&bytes), Some(result()));
        assert_eq!(ResultFile::parse(&bytes, JobName { number: 8, ..NAME }, 11, &ADDRESSES, 100), None);
        assert_eq!(ResultFile::parse(&bytes, NAME, 12, &ADDRESSES, 100), None);
        assert_eq!(ResultFile::parse(&bytes, NAME, 11, &ADDRESSES[..3], 100), None);
        assert_eq!(ResultFile::parse(&bytes, NAME, 11, &ADDRESSES, 101), None);
        let refused = ResultFile { outcome: Outcome::Refused("no such decoder".to_owned()), ..result() };
        assert_eq!(parse(&refused.to_bytes(NAME, &ADDRESSES)), Some(refused));
    }

    #[test]
    fn any_changed_byte_and_any_length_but_the_right_one_is_refused() {
        let good = result().to_bytes(NAME, &ADDRESSES);
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes), None, "byte {at}");
            assert_eq!(parse(&good[..at]), None, "{at} bytes");
        }
        assert_eq!(parse(&[good.clone(), vec![0]].concat()), None);
    }

    #[test]
    fn a_payload_with_another_checksum_is_refused_even_if_that_of_the_file_is_right() {
        let good = result().to_bytes(NAME, &ADDRESSES);
        let payload = good.windows(100).position(|window| window == [5; 100]).expect("the payload");
        for at in payload - 32..payload + 100 {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let end = bytes.len() - 8;
            let crc = crc64(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&crc);
            // Iterations, corrected bits and information are what the worker says.
            let is_margin = (payload - 28..payload - 20).contains(&at) || (payload - 16..payload - 8).contains(&at);
            assert_eq!(parse(&bytes).is_some(), is_margin, "byte {at}, payload at {payload}");
        }
    }
}
