//! Parses blocks as heads of glass platters, with and without a valid checksum, and reads a platter
//! that has such a head.
#![no_main]

use std::io;
use std::sync::Arc;

use fulgurite_codec::checksum::crc64;
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Effects;
use fulgurite_glass::{GlassHead, GlassReader, PlatterSource, VoxelPlatter};
use libfuzzer_sys::fuzz_target;

/// Where a block has its checksum.
const CHECKSUM_AT: usize = GlassHead::BYTES - 8;
/// Decoding is slow, and doesn't depend on the head beyond the shape of a sector.
const VOXELS_MAX: usize = 1 << 14;

struct File(Vec<u8>);

impl PlatterSource for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = GlassHead::from_block(data);
    let Some((&[blocks], fields)) = data.split_first_chunk() else { return };
    let mut block = fields[..fields.len().min(CHECKSUM_AT)].to_vec();
    block.resize(CHECKSUM_AT, 0);
    block.extend(crc64(&block).to_le_bytes());
    let Ok(head) = GlassHead::from_block(&block) else { return };
    assert_eq!(GlassHead::from_block(&head.to_block()).as_ref(), Ok(&head));

    // A platter that is mostly cut off, with symbols that were never written.
    let voxels = head.medium.voxels();
    block.resize(GlassHead::BYTES * (1 + usize::from(blocks % 16)), blocks);
    let file_bytes = block.len() as u64;
    let reader = Arc::new(GlassReader::new(Effects::NONE.read, DecoderKind::Nearest));
    let platter = VoxelPlatter::open(Arc::new(File(block)), file_bytes, &reader);
    let platter = platter.expect("the file can be read").expect("it has a head");
    assert!(platter.bytes() <= head.content_bytes() || file_bytes > head.file_bytes());
    if voxels <= VOXELS_MAX {
        let mut bytes = vec![0; 100];
        let _ = platter.read_at(u64::from(blocks), &mut bytes);
    }
});
