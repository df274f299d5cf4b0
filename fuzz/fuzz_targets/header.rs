//! Parses a CBOR item as the header in an otherwise valid block, and searches a file with such
//! blocks that is cut short and partly unreadable.
#![no_main]

use std::io;

use fulgurite_codec::checksum::crc64;
use fulgurite_format::{HEADER_BYTES, Header, find_header};
use libfuzzer_sys::fuzz_target;

/// Maximum size of the file. The smallest file of a geometry is shorter.
const FILE_BYTES_MAX: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    // Which of the three copies exist, where a stray copy is, how much is cut off, and which pages
    // are unreadable.
    let Some((&[present, stray, cut, bad_page, bad_pages], item)) = data.split_first_chunk() else { return };
    let item = &item[..item.len().min(HEADER_BYTES - 24)];
    let mut block = b"FULGPLAT\x01\0\0\0".to_vec();
    block.extend((item.len() as u32).to_le_bytes());
    block.extend(item);
    block.resize(HEADER_BYTES - 8, 0);
    block.extend(crc64(&block).to_le_bytes());
    let header = Header::from_block(&block);
    if let Ok(header) = &header {
        let again = header.to_block().expect("what was read can be written");
        assert_eq!(Header::from_block(&again).as_ref(), Ok(header));
    }

    let geometry = header.as_ref().ok().map(|header| header.geometry).filter(|geometry| geometry.file_bytes() <= FILE_BYTES_MAX);
    let mut file = vec![0x11; geometry.map_or(4 * HEADER_BYTES, |geometry| geometry.file_bytes() as usize)];
    let mut put = |at: usize| file[at..at + HEADER_BYTES].copy_from_slice(&block);
    if present & 8 != 0 {
        put(usize::from(stray) * 64);
    }
    let places = geometry.map_or([0, 16_448, 49_152], |geometry| geometry.header_offsets());
    let places = (0..3).filter(|copy| present >> copy & 1 != 0).map(|copy| places[copy]);
    places.clone().for_each(|at| put(at as usize));
    file.truncate(file.len() - usize::from(cut) * 100);
    let bad = u64::from(bad_page) * 4_096..(u64::from(bad_page) + u64::from(bad_pages % 8)) * 4_096;
    let read = |at: u64, buffer: &mut [u8]| {
        let end = at + buffer.len() as u64;
        if at < bad.end && bad.start < end {
            return Err(io::Error::other("an unreadable page"));
        }
        buffer.copy_from_slice(file.get(at as usize..end as usize).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let found = find_header(file.len() as u64, read);
    if geometry.is_some() {
        let mut block = vec![0; HEADER_BYTES];
        if places.clone().any(|at| read(at, &mut block).is_ok()) {
            assert_eq!(found.expect("one good copy is enough").header, header.expect("it has a geometry"));
        }
    } else if header.is_err() {
        found.expect_err("there is no good copy");
    }
});
