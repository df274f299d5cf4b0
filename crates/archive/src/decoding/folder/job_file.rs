//! A job: images of some sectors, and all that it takes to decode them.

use fulgurite_codec::checksum::crc64;
use fulgurite_glass::GlassMedium;
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Frames;
use fulgurite_glass::polarization::{FRAMES, Microscope};
use fulgurite_glass::voxel::Alphabet;

use super::{Fields, JobName, Owner, VERSION};

const MAGIC: &[u8; 8] = b"FULGDJOB";
/// Most sectors of a job.
const SECTORS_MAX: u32 = 64;
/// The largest sector, in voxels.
const VOXELS_MAX: u64 = 1 << 19;
const ADDRESS_BYTES: usize = 20;
const CRC_BYTES: usize = 8;

/// Why a file is no job for this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoJob {
    #[error("it doesn't begin like a job")]
    Magic,
    #[error("it has version {0}, this program knows {VERSION}: use the same version of fulgurite on all machines")]
    Version(u32),
    #[error("it is truncated or damaged: its checksum is wrong")]
    Checksum,
    #[error("it is another job than its name says")]
    Name,
    #[error("its {0} is invalid")]
    Field(&'static str),
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobFile {
    pub(super) owner: Owner,
    pub(super) number: u64,
    pub(super) decoder: DecoderKind,
    pub(super) medium: GlassMedium,
    /// Address and images of each sector.
    pub(super) sectors: Vec<([u8; ADDRESS_BYTES], Frames)>,
}

impl JobFile {
    /// Encodes the job.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let GlassMedium { rows, columns, alphabet, microscope, pixel_bits, parity_columns } = &self.medium;
        let mut bytes = MAGIC.to_vec();
        let mut put = |value: u32| bytes.extend(value.to_le_bytes());
        put(VERSION);
        put(self.sectors.len() as u32);
        bytes.extend(self.owner.0.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        let decoder = DecoderKind::ALL.iter().position(|kind| *kind == self.decoder).unwrap_or(0);
        let numbers =
            [*rows as u32, *columns as u32, *pixel_bits, *parity_columns as u32, decoder as u32, u32::from(alphabet.retardance_levels())];
        bytes.extend(numbers.iter().flat_map(|value| value.to_le_bytes()));
        let retardances = (0..4).map(|level| alphabet.retardance(level).unwrap_or(0.0));
        let reals = [microscope.swing, microscope.bright, microscope.dark].into_iter().chain(retardances);
        bytes.extend(reals.flat_map(f64::to_le_bytes));
        for (address, frames) in &self.sectors {
            bytes.extend(address);
            match frames.bits {
                ..=8 => bytes.extend(frames.pixels.iter().map(|&pixel| pixel as u8)),
                _ => bytes.extend(frames.pixels.iter().flat_map(|pixel| pixel.to_le_bytes())),
            }
        }
        bytes.extend(crc64(&bytes).to_le_bytes());
        bytes
    }

    /// The version that a file names, from its first bytes; `None` if it isn't a job.
    pub(super) fn version(start: &[u8]) -> Option<u32> {
        let mut fields = Fields(start.strip_prefix(MAGIC)?);
        fields.u32()
    }

    /// The checksum at the end of a job, which its result repeats.
    pub(super) fn checksum(bytes: &[u8]) -> u64 {
        bytes.last_chunk().map_or(0, |last| u64::from_le_bytes(*last))
    }

    /// Parses the job with this name.
    pub(super) fn parse(bytes: &[u8], name: JobName) -> Result<Self, NoJob> {
        match Self::version(bytes) {
            None => return Err(NoJob::Magic),
            Some(VERSION) => {}
            Some(version) => return Err(NoJob::Version(version)),
        }
        let (covered, crc) = bytes.split_at(bytes.len().saturating_sub(CRC_BYTES));
        if crc64(covered).to_le_bytes() != crc {
            return Err(NoJob::Checksum);
        }
        let job = parse_fields(&mut Fields(&covered[12..]))?;
        if (job.owner, job.number) == (name.owner, name.number) { Ok(job) } else { Err(NoJob::Name) }
    }
}

/// Parses what follows the version. A right checksum doesn't mean that the fields make sense: any
/// process can compute it.
fn parse_fields(fields: &mut Fields<'_>) -> Result<JobFile, NoJob> {
    let short = NoJob::Field("length");
    let sectors = fields.u32().ok_or(short)?;
    let (owner, number) = (Owner(fields.u64().ok_or(short)?), fields.u64().ok_or(short)?);
    let mut numbers = [0; 6];
    for number in &mut numbers {
        *number = fields.u32().ok_or(short)?;
    }
    let [rows, columns, pixel_bits, parity_columns, decoder, levels] = numbers;
    let mut reals = [0.0; 7];
    for real in &mut reals {
        *real = fields.f64().ok_or(short)?;
    }
    let [swing, bright, dark, retardances @ ..] = reals;
    if ![swing, bright, dark].iter().all(|real| real.is_finite()) {
        return Err(NoJob::Field("microscope"));
    }
    let voxels = u64::from(rows) * u64::from(columns);
    if voxels == 0 || voxels > VOXELS_MAX {
        return Err(NoJob::Field("number of voxels"));
    }
    if sectors == 0 || sectors > SECTORS_MAX {
        return Err(NoJob::Field("number of sectors"));
    }
    if !(1..=16).contains(&pixel_bits) {
        return Err(NoJob::Field("number of bits of a pixel"));
    }
    let alphabet = retardances.get(..levels as usize).and_then(|levels| Alphabet::new(levels.to_vec()));
    let medium = GlassMedium {
        rows: rows as usize,
        columns: columns as usize,
        alphabet: alphabet.ok_or(NoJob::Field("alphabet"))?,
        microscope: Microscope { swing, bright, dark },
        pixel_bits,
        parity_columns: parity_columns as usize,
    };
    if medium.payload_bytes().is_none() {
        return Err(NoJob::Field("code"));
    }
    let decoder = *DecoderKind::ALL.get(decoder as usize).ok_or(NoJob::Field("decoder"))?;
    let pixels = FRAMES * voxels as usize;
    let mut parsed = Vec::new();
    for _ in 0..sectors {
        let address = fields.array().ok_or(short)?;
        let pixels: Vec<u16> = match pixel_bits {
            ..=8 => fields.bytes(pixels).ok_or(short)?.iter().map(|&pixel| pixel.into()).collect(),
            _ => fields.bytes(2 * pixels).ok_or(short)?.chunks_exact(2).map(|pixel| u16::from_le_bytes([pixel[0], pixel[1]])).collect(),
        };
        parsed.push((address, Frames { rows: medium.rows, columns: medium.columns, bits: pixel_bits, pixels }));
    }
    if !fields.0.is_empty() {
        return Err(short);
    }
    Ok(JobFile { owner, number, decoder, medium, sectors: parsed })
}

#[cfg(test)]
mod tests {
    use fulgurite_chance::Xorshift;
    use fulgurite_decode::Class;

    use super::*;

    pub(super) fn job(pixel_bits: u32) -> JobFile {
        let medium = GlassMedium { pixel_bits, ..GlassMedium::tiny() };
        let frames = |seed: u16| Frames {
            rows: medium.rows,
            columns: medium.columns,
            bits: pixel_bits,
            pixels: (0..FRAMES * medium.voxels()).map(|i| (i as u16).wrapping_mul(seed) % (1 << (pixel_bits - 1))).collect(),
        };
        let sectors = (1..3).map(|seed| ([seed as u8; ADDRESS_BYTES], frames(seed))).collect();
        JobFile { owner: Owner(7), number: 9, decoder: DecoderKind::UNet, medium, sectors }
    }

    const NAME: JobName = JobName { class: Class::Read, owner: Owner(7), number: 9 };

    #[test]
    fn jobs_come_back() {
        for pixel_bits in [8, 12] {
            let job = job(pixel_bits);
            let bytes = job.to_bytes();
            let pixel_bytes = if pixel_bits == 8 { 1 } else { 2 };
            assert_eq!(bytes.len(), 112 + 2 * (20 + FRAMES * 10_240 * pixel_bytes) + 8, "as docs/medium.md says");
            assert_eq!(JobFile::parse(&bytes, NAME), Ok(job));
            assert_eq!(JobFile::parse(&bytes, JobName { number: 8, ..NAME }), Err(NoJob::Name));
        }
    }

    #[test]
    fn damage_is_noticed_and_never_panics() {
        let good = job(8).to_bytes();
        assert_eq!(JobFile::parse(b"", NAME), Err(NoJob::Magic));
        assert_eq!(JobFile::parse(&good[..100], NAME), Err(NoJob::Checksum));
        let mut newer = good.clone();
        newer[8] = 2;
        assert_eq!(JobFile::parse(&newer, NAME), Err(NoJob::Version(2)));
        let mut random = Xorshift::new(5);
        for round in 0..2_000 {
            let mut bytes = good.clone();
            // Mostly the head, whose fields decide about lengths; every other time with a right
            // checksum.
            let at = (random.bits() >> 11) as usize % if round % 4 == 0 { bytes.len() } else { 112 };
            bytes[at] ^= (random.bits() as u8).max(1);
            if round % 2 == 0 {
                assert!(JobFile::parse(&bytes, NAME).is_err());
                continue;
            }
            let end = bytes.len() - CRC_BYTES;
            let crc = crc64(&bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&crc);
            if let Ok(job) = JobFile::parse(&bytes, NAME) {
                assert_eq!(JobFile::parse(&job.to_bytes(), NAME).expect("an accepted job can be written").sectors.len(), 2);
            }
        }
    }
}
