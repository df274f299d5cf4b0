//! The block writer: cuts a stream into blocks, with error correction for each section.

use std::io::{self, Write};

use fulgurite_codec::CauchyCode;

use super::blocks::{BlockPlace, HEAD_BYTES, PAYLOAD_BYTES, SECTION_INFORMATION_MAX, Shape, block};

/// Divides the bytes written to it into blocks and adds redundancy. Holds one section in memory: up
/// to 10 MB, plus 4 MB of redundancy while writing it.
pub(crate) struct BlockWriter<W> {
    writer: W,
    head: [u8; HEAD_BYTES],
    section: u32,
    content: Vec<u8>,
}

const SECTION_BYTES_MAX: usize = SECTION_INFORMATION_MAX as usize * PAYLOAD_BYTES;

impl<W: Write> BlockWriter<W> {
    pub(crate) fn new(writer: W, head: [u8; HEAD_BYTES]) -> Self {
        Self { writer, head, section: 0, content: Vec::new() }
    }

    /// Writes the last section and returns the writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.write_section()?;
        Ok(self.writer)
    }

    fn write_section(&mut self) -> io::Result<()> {
        if self.content.is_empty() {
            return Ok(());
        }
        let bytes = self.content.len() as u32;
        let shape = Shape::new(bytes.div_ceil(PAYLOAD_BYTES as u32));
        self.content.resize(shape.information as usize * PAYLOAD_BYTES, 0);
        let code = CauchyCode::new(shape.group_information as usize, shape.group_redundancy as usize).expect("within GF(2^8)");
        let zeros = [0; PAYLOAD_BYTES];
        let payload = |number: u32| &self.content[number as usize * PAYLOAD_BYTES..][..PAYLOAD_BYTES];
        let mut redundancy = vec![0; (shape.blocks() - shape.information) as usize * PAYLOAD_BYTES];
        for group in 0..shape.groups {
            let at = |position| shape.block(group, position);
            let information: Vec<&[u8]> = (0..shape.group_information).map(|position| at(position).map_or(&zeros[..], payload)).collect();
            let mut of_group = vec![0; shape.group_redundancy as usize * PAYLOAD_BYTES];
            code.encode(&information, &mut of_group.chunks_mut(PAYLOAD_BYTES).collect::<Vec<_>>());
            for (position, symbol) in (shape.group_information..).zip(of_group.chunks(PAYLOAD_BYTES)) {
                let number = at(position).expect("redundancy is in a block") - shape.information;
                redundancy[number as usize * PAYLOAD_BYTES..][..PAYLOAD_BYTES].copy_from_slice(symbol);
            }
        }
        for (number, payload) in (0..).zip(self.content.chunks(PAYLOAD_BYTES).chain(redundancy.chunks(PAYLOAD_BYTES))) {
            let place = BlockPlace { section: self.section, number, information: shape.information, bytes };
            self.writer.write_all(&block(&self.head, place, payload))?;
        }
        self.content.clear();
        self.section += 1;
        Ok(())
    }
}

impl<W: Write> Write for BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.content.len() == SECTION_BYTES_MAX {
            self.write_section()?;
        }
        let taken = bytes.len().min(SECTION_BYTES_MAX - self.content.len());
        self.content.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Doesn't write the current section: its code needs all of it.
    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
