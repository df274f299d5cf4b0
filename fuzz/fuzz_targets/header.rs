//! A CBOR item in an otherwise right block, and the bytes as a file to be searched.
#![no_main]

use std::io;

use fulgurite_codec::checksum::crc64;
use fulgurite_format::{HEADER_BYTES, Header, find_header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let item = &data[..data.len().min(HEADER_BYTES - 24)];
    let mut block = b"FULGPLAT\x01\0\0\0".to_vec();
    block.extend((item.len() as u32).to_le_bytes());
    block.extend(item);
    block.resize(HEADER_BYTES - 8, 0);
    block.extend(crc64(&block).to_le_bytes());
    if let Ok(header) = Header::from_block(&block) {
        let again = header.to_block().expect("what was read can be written");
        assert_eq!(Header::from_block(&again), Ok(header));
    }
    let _ = find_header(data.len() as u64, |at, buffer| {
        let bytes = data.get(at as usize..at as usize + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    });
});
