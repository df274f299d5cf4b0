//! The header: identifies a platter and describes the set it belongs to.
//!
//! A block of 16,384 bytes, stored three times on each platter. It lists every member of the set
//! with the position of that member's file table, so one good copy anywhere in the set replaces all
//! lost headers.
//!
//! ```text
//! FULGPLAT | version | length | CBOR map ... | zeros ... | crc64
//! 0          8         12       16                         16,376
//! ```

use fulgurite_domain::{ArchiveId, Geometry, GeometryError, Medium, PlatterId, SetId, SetShape};

use crate::cbor::{Decoder, Encoder, Malformed};
use crate::v1::table::TABLE_HEAD_BYTES;
use crate::v1::{VERSION, u32_at, u64_at};
use fulgurite_codec::checksum::crc64;

/// Bytes of a header block.
pub const HEADER_BYTES: usize = Geometry::HEADER_BYTES as usize;

pub(crate) const MAGIC: &[u8; 8] = b"FULGPLAT";
const CBOR_AT: usize = 16;
const CRC_AT: usize = HEADER_BYTES - 8;

/// The content of a platter's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The archive it belongs to.
    pub archive: ArchiveId,
    /// The platter itself.
    pub platter: PlatterId,
    /// The platter-set it belongs to.
    pub set: SetId,
    /// What the platters of the set are made of.
    pub medium: Medium,
    /// Geometry of the platter, the same for the whole set.
    pub geometry: Geometry,
    /// Its index in `members`.
    pub position: u16,
    /// Information and redundancy platters of the set.
    pub shape: SetShape,
    /// All platters of the set, information platters first.
    pub members: Vec<Member>,
    /// When writing the set began, in seconds since 1970.
    pub written: u64,
    /// Program and version that wrote it, for humans.
    pub writer: String,
}

/// One platter of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its identifier.
    pub platter: PlatterId,
    /// Where the file table starts in its content; 0 on a redundancy platter.
    pub table_offset: u64,
    /// Length of the file table; 0 on a redundancy platter.
    pub table_bytes: u64,
    /// Checksum of the file table; 0 on a redundancy platter.
    pub table_crc64: u64,
}

/// Why a block is not a header that this program can read, or why a header can't be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The block has the wrong length.
    #[error("a header has {HEADER_BYTES} bytes, but this block has {0}")]
    Length(usize),
    /// The block does not start with the header magic.
    #[error("this is not the header of a Fulgurite platter")]
    NotAPlatter,
    /// Written by a later version of the format.
    #[error("the platter has format version {0}, this program reads up to {VERSION}: use a newer program")]
    Newer(u32),
    /// The block has changed since it was written.
    #[error("this copy of the header is damaged (its checksum is wrong): use another copy")]
    Checksum,
    /// The checksum is right, but the content violates the format.
    #[error("the header has {0}: it was written by a faulty program")]
    Malformed(&'static str),
    /// The checksum is right, but the geometry is invalid.
    #[error("the header has an impossible geometry")]
    Geometry(#[from] GeometryError),
    /// More members, or a longer `writer`, than fit into a block.
    #[error("the header takes {0} bytes of CBOR, but only {fit} fit: make smaller sets", fit = CRC_AT - CBOR_AT)]
    TooLarge(usize),
}

impl From<Malformed> for HeaderError {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

impl Header {
    /// Encodes the header as a block of [`HEADER_BYTES`].
    ///
    /// # Errors
    /// [`HeaderError::TooLarge`] for a set of too many platters; [`HeaderError::Malformed`] and
    /// [`HeaderError::Geometry`] for a header that could not be read back.
    pub fn to_block(&self) -> Result<Vec<u8>, HeaderError> {
        self.check()?;
        let mut block = Vec::with_capacity(HEADER_BYTES);
        block.extend_from_slice(MAGIC);
        block.extend_from_slice(&VERSION.to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        self.encode(&mut Encoder(&mut block));
        let length = block.len() - CBOR_AT;
        if block.len() > CRC_AT {
            return Err(HeaderError::TooLarge(length));
        }
        block[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        block.resize(CRC_AT, 0);
        let crc = crc64(&block);
        block.extend_from_slice(&crc.to_le_bytes());
        Ok(block)
    }

    /// Decodes a block and checks everything that can be checked without the rest of the platter.
    ///
    /// # Errors
    /// [`HeaderError`] distinguishes foreign blocks, damaged ones, later versions and malformed
    /// content.
    pub fn from_block(block: &[u8]) -> Result<Self, HeaderError> {
        if block.len() != HEADER_BYTES {
            return Err(HeaderError::Length(block.len()));
        }
        if !block.starts_with(MAGIC) {
            return Err(HeaderError::NotAPlatter);
        }
        // The version comes before the checksum: a later version may keep its checksum elsewhere.
        let version = u32_at(block, 8);
        if version > VERSION {
            return Err(HeaderError::Newer(version));
        }
        if crc64(&block[..CRC_AT]) != u64_at(block, CRC_AT) {
            return Err(HeaderError::Checksum);
        }
        if version != VERSION {
            return Err("format version 0".into());
        }
        let length = u32_at(block, 12) as usize;
        let item = block[CBOR_AT..CRC_AT].get(..length).ok_or("a CBOR item that is longer than the block")?;
        let header = Self::decode(item)?;
        header.check()?;
        Ok(header)
    }

    /// The header of the set's platter at another position.
    ///
    /// # Panics
    /// If the set has no such position.
    #[must_use]
    pub fn for_position(&self, position: u16) -> Self {
        let platter = self.members[usize::from(position)].platter;
        Self { platter, position, ..self.clone() }
    }

    /// The entry of this platter in `members`.
    ///
    /// # Panics
    /// If `position` is not in `members`. Headers returned by [`Header::from_block`] never panic.
    #[must_use]
    pub fn member(&self) -> Member {
        self.members[usize::from(self.position)]
    }

    /// Whether this platter carries information, and therefore a file table.
    #[must_use]
    pub fn carries_information(&self) -> bool {
        self.position < self.shape.information
    }

    fn encode(&self, cbor: &mut Encoder<'_>) {
        cbor.map(11);
        cbor.text("set");
        cbor.bytes(&self.set.0);
        cbor.text("medium");
        cbor.text(self.medium.name());
        cbor.text("writer");
        cbor.text(&self.writer);
        cbor.text("archive");
        cbor.bytes(&self.archive.0);
        cbor.text("members");
        cbor.array(self.members.len() as u64);
        for member in &self.members {
            cbor.array(4);
            cbor.bytes(&member.platter.0);
            cbor.uint(member.table_offset);
            cbor.uint(member.table_bytes);
            cbor.uint(member.table_crc64);
        }
        cbor.text("platter");
        cbor.bytes(&self.platter.0);
        cbor.text("written");
        cbor.uint(self.written);
        cbor.text("geometry");
        cbor.map(6);
        for (key, value) in [
            ("sector_bytes", self.geometry.sector_bytes),
            ("group_redundancy", self.geometry.group_redundancy.into()),
            ("track_redundancy", self.geometry.track_redundancy.into()),
            ("group_information", self.geometry.group_information.into()),
            ("track_information", self.geometry.track_information.into()),
            ("information_tracks", self.geometry.information_tracks),
        ] {
            cbor.text(key);
            cbor.uint(value.into());
        }
        cbor.text("position");
        cbor.uint(self.position.into());
        cbor.text("set_redundancy");
        cbor.uint(self.shape.redundancy.into());
        cbor.text("set_information");
        cbor.uint(self.shape.information.into());
    }

    fn decode(item: &[u8]) -> Result<Self, Malformed> {
        let (mut set, mut medium, mut writer, mut archive) = (None, None, None, None);
        let (mut members, mut platter, mut written, mut geometry) = (None, None, None, None);
        let (mut position, mut information, mut redundancy) = (None, None, None);
        let mut cbor = Decoder::new(item);
        cbor.map(|key, value| {
            match key {
                "set" => set = Some(SetId(value.fixed()?)),
                "medium" => medium = Some(value.text()?),
                "writer" => writer = Some(value.text()?.to_owned()),
                "archive" => archive = Some(ArchiveId(value.fixed()?)),
                "members" => members = Some(decode_members(value)?),
                "platter" => platter = Some(PlatterId(value.fixed()?)),
                "written" => written = Some(value.uint()?),
                "geometry" => geometry = Some(decode_geometry(value)?),
                "position" => position = Some(value.number()?),
                "set_information" => information = Some(value.number()?),
                "set_redundancy" => redundancy = Some(value.number()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        cbor.end()?;
        let medium = Medium::named(medium.ok_or("no medium")?);
        Ok(Self {
            medium: medium.ok_or("an unknown medium")?,
            archive: archive.ok_or("no archive")?,
            platter: platter.ok_or("no platter identifier")?,
            set: set.ok_or("no set")?,
            geometry: geometry.ok_or("no geometry")?,
            position: position.ok_or("no position")?,
            shape: SetShape {
                information: information.ok_or("no number of information platters")?,
                redundancy: redundancy.ok_or("no number of redundancy platters")?,
            },
            members: members.ok_or("no members")?,
            written: written.ok_or("no time of writing")?,
            writer: writer.ok_or("no writer")?,
        })
    }

    fn check(&self) -> Result<(), HeaderError> {
        let geometry = self.geometry.check()?;
        if !tracks_can_be_counted(geometry) {
            return Err("more physical tracks than fit into 32 bits".into());
        }
        let (information, redundancy) = (usize::from(self.shape.information), usize::from(self.shape.redundancy));
        if information == 0 {
            return Err("a set without information platters".into());
        }
        if self.members.len() != information + redundancy {
            return Err("a number of members that differs from the set's shape".into());
        }
        let symbols = |platters: usize| platters * usize::from(geometry.track_information);
        if symbols(information) + symbols(redundancy).next_power_of_two() > 65_536 {
            return Err("more platters than the pooled code supports".into());
        }
        match self.members.get(usize::from(self.position)) {
            Some(member) if member.platter == self.platter => {}
            _ => return Err("a platter that is not at its position among the members".into()),
        }
        let mut platters: Vec<PlatterId> = self.members.iter().map(|member| member.platter).collect();
        platters.sort_unstable();
        if platters.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a duplicate member".into());
        }
        for (index, member) in self.members.iter().enumerate() {
            if index < information {
                let end = member.table_offset.checked_add(member.table_bytes);
                if member.table_bytes < TABLE_HEAD_BYTES || end.is_none_or(|end| end > geometry.content_bytes()) {
                    return Err("a file table that is not within the content".into());
                }
            } else if (member.table_offset, member.table_bytes, member.table_crc64) != (0, 0, 0) {
                return Err("a redundancy platter with a file table".into());
            }
        }
        Ok(())
    }
}

/// Always true after the geometry's own check, which keeps physical tracks, too, below 2^31.
fn tracks_can_be_counted(geometry: Geometry) -> bool {
    let group = u64::from(geometry.group_information) + u64::from(geometry.group_redundancy);
    u64::from(geometry.groups()) * group <= u64::from(u32::MAX)
}

fn decode_members(cbor: &mut Decoder<'_>) -> Result<Vec<Member>, Malformed> {
    let mut members = Vec::new();
    for _ in 0..cbor.array()? {
        cbor.array_of(4)?;
        members.push(Member {
            platter: PlatterId(cbor.fixed()?),
            table_offset: cbor.uint()?,
            table_bytes: cbor.uint()?,
            table_crc64: cbor.uint()?,
        });
    }
    Ok(members)
}

fn decode_geometry(cbor: &mut Decoder<'_>) -> Result<Geometry, Malformed> {
    let (mut sector_bytes, mut track_information, mut track_redundancy) = (None, None, None);
    let (mut group_information, mut group_redundancy, mut information_tracks) = (None, None, None);
    cbor.map(|key, value| {
        match key {
            "sector_bytes" => sector_bytes = Some(value.number()?),
            "track_information" => track_information = Some(value.number()?),
            "track_redundancy" => track_redundancy = Some(value.number()?),
            "group_information" => group_information = Some(value.number()?),
            "group_redundancy" => group_redundancy = Some(value.number()?),
            "information_tracks" => information_tracks = Some(value.number()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let missing = "a geometry with a missing number";
    Ok(Geometry {
        sector_bytes: sector_bytes.ok_or(missing)?,
        track_information: track_information.ok_or(missing)?,
        track_redundancy: track_redundancy.ok_or(missing)?,
        group_information: group_information.ok_or(missing)?,
        group_redundancy: group_redundancy.ok_or(missing)?,
        information_tracks: information_tracks.ok_or(missing)?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The header of the second of three platters, 2+1.
    pub(crate) fn sample(information_tracks: u32) -> Header {
        let geometry = Geometry {
            sector_bytes: 4_096,
            track_information: 8,
            track_redundancy: 2,
            group_information: 4,
            group_redundancy: 1,
            information_tracks,
        };
        let member = |index: u8, bytes| Member {
            platter: PlatterId([index; 16]),
            table_offset: bytes * 10,
            table_bytes: bytes,
            table_crc64: bytes.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        Header {
            archive: ArchiveId([0xaa; 16]),
            platter: PlatterId([2; 16]),
            set: SetId([0xbb; 16]),
            medium: Medium::Disk,
            geometry,
            position: 1,
            shape: SetShape { information: 2, redundancy: 1 },
            members: vec![member(1, 24), member(2, 1_000), member(3, 0)],
            written: 1_700_000_000,
            writer: "fulgurite 0.1.0".to_owned(),
        }
    }

    fn reseal(block: &mut [u8]) {
        let crc = crc64(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }

    #[test]
    fn the_block_is_laid_out_as_specified() {
        let block = sample(3).to_block().unwrap();
        assert_eq!(block.len(), HEADER_BYTES);
        assert_eq!(&block[..12], b"FULGPLAT\x01\0\0\0");
        assert_eq!(block[16..].first_chunk(), Some(b"\xab\x63set\x50\xbb\xbb"), "a map of eleven, the shortest key first");
        // The same item as seen by another decoder, keys in the order of the file.
        let length = u32_at(&block, 12) as usize;
        let mut cbor = minicbor::Decoder::new(&block[16..16 + length]);
        let mut keys = Vec::new();
        for _ in 0..cbor.map().unwrap().unwrap() {
            keys.push(cbor.str().unwrap());
            cbor.skip().unwrap();
        }
        assert_eq!(cbor.position(), length);
        let expected = "set medium writer archive members platter written geometry position set_redundancy set_information"
            .split(' ')
            .collect::<Vec<_>>();
        assert_eq!(keys, expected);
        assert!(block[16 + length..CRC_AT].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn the_medium_is_read_back_and_an_unknown_one_is_refused() {
        let glass = Header { medium: Medium::Glass, ..sample(3) };
        let block = glass.to_block().unwrap();
        assert_eq!(Header::from_block(&block), Ok(glass));
        let at = block.windows(6).position(|bytes| bytes == b"\x65glass").unwrap();
        let mut other = block.clone();
        other[at + 1..at + 6].copy_from_slice(b"stone");
        let crc = crc64(&other[..CRC_AT]);
        other[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::from_block(&other), Err(HeaderError::Malformed("an unknown medium")));
    }

    #[test]
    fn the_header_of_any_member_gives_those_of_all_others() {
        let header = sample(3);
        for position in 0..3 {
            let other = header.for_position(position);
            assert_eq!(Header::from_block(&other.to_block().unwrap()), Ok(other.clone()));
            assert_eq!(other.member(), header.members[usize::from(position)]);
            assert_eq!(other.carries_information(), position < 2);
            assert_eq!(other.for_position(1), header);
        }
    }

    #[test]
    fn foreign_newer_and_damaged_blocks_are_told_apart() {
        let block = sample(3).to_block().unwrap();
        assert_eq!(Header::from_block(&block[1..]), Err(HeaderError::Length(HEADER_BYTES - 1)));
        assert_eq!(Header::from_block(&[0; HEADER_BYTES]), Err(HeaderError::NotAPlatter));
        let mut newer = block.clone();
        newer[8] = 2;
        assert_eq!(Header::from_block(&newer), Err(HeaderError::Newer(2)));
        let mut damaged = block;
        damaged[9_000] ^= 1;
        assert_eq!(Header::from_block(&damaged), Err(HeaderError::Checksum));
    }

    #[test]
    fn an_invalid_header_is_neither_written_nor_read() {
        let good = sample(3);
        let change = |change: fn(&mut Header)| {
            let mut header = good.clone();
            change(&mut header);
            header
        };
        for bad in [
            change(|h| h.position = 0),
            change(|h| h.position = 3),
            change(|h| h.platter = PlatterId([7; 16])),
            change(|h| h.shape.redundancy = 2),
            change(|h| h.shape = SetShape { information: 0, redundancy: 3 }),
            change(|h| h.shape = SetShape { information: u16::MAX, redundancy: u16::MAX }),
            change(|h| h.members[0] = h.members[1]),
            change(|h| h.members[1].table_bytes = 23),
            change(|h| h.members[1].table_offset = h.geometry.content_bytes() - 999),
            change(|h| h.members[1].table_offset = u64::MAX),
            change(|h| h.members[2].table_crc64 = 1),
            change(|h| h.geometry.sector_bytes = 4_000),
            change(|h| h.geometry.information_tracks = 0),
            change(|h| {
                h.geometry = Geometry {
                    track_information: 1,
                    group_information: 1,
                    group_redundancy: 30_000,
                    information_tracks: 1 << 30,
                    ..h.geometry
                };
            }),
        ] {
            assert!(bad.to_block().is_err(), "{bad:?}");
            // Another writer might have written what ours refuses.
            let mut block = good.to_block().unwrap();
            block.truncate(CBOR_AT);
            bad.encode(&mut Encoder(&mut block));
            let length = (block.len() - CBOR_AT) as u32;
            block[12..16].copy_from_slice(&length.to_le_bytes());
            block.resize(HEADER_BYTES, 0);
            reseal(&mut block);
            assert!(Header::from_block(&block).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_set_of_three_hundred_platters_fits_and_one_too_large_is_refused() {
        let mut header = sample(3);
        header.geometry.track_information = 1;
        let mut set = |platters: u16| {
            header.shape = SetShape { information: platters, redundancy: 0 };
            header.members = (0..platters)
                .map(|index| Member {
                    platter: PlatterId(u128::from(index).to_le_bytes()),
                    table_offset: 0,
                    table_bytes: 24,
                    table_crc64: u64::MAX,
                })
                .collect();
            header.platter = header.members[1].platter;
            header.to_block()
        };
        assert!(set(300).is_ok());
        assert!(matches!(set(700), Err(HeaderError::TooLarge { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_header_reads_back_and_encodes_to_the_same_bytes(
            ids: [u8; 16], written: u64, writer in ".{0,60}", tracks in 1u32..1 << 30, information in 1u16..40, redundancy in 0u16..20,
            position: prop::sample::Index, numbers in prop::collection::vec((0u64..8_192, 24u64..24_000, any::<u64>()), 60),
        ) {
            let shape = SetShape { information, redundancy };
            let members: Vec<Member> = (0..shape.platters()).map(|index| {
                let (table_offset, table_bytes, table_crc64) = if index < information { numbers[usize::from(index)] } else { (0, 0, 0) };
                let mut platter = ids;
                platter[..2].copy_from_slice(&index.to_le_bytes());
                Member { platter: PlatterId(platter), table_offset, table_bytes, table_crc64 }
            }).collect();
            let position = position.index(members.len()) as u16;
            let header = Header {
                archive: ArchiveId(ids), set: SetId(ids), platter: members[usize::from(position)].platter,
                position, shape, members, written, writer, ..sample(tracks)
            };
            let block = header.to_block().unwrap();
            let again = Header::from_block(&block).unwrap();
            prop_assert_eq!(&again, &header);
            prop_assert_eq!(again.to_block().unwrap(), block);
        }

        #[test]
        fn any_changed_byte_is_detected(at in 0..HEADER_BYTES, change in 1u8..) {
            let mut block = sample(3).to_block().unwrap();
            block[at] ^= change;
            prop_assert!(Header::from_block(&block).is_err());
        }
    }
}
