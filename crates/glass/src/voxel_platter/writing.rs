//! The write drive's last step: from the bytes of a platter to the symbols of its voxels.

use std::io::{self, Write};
use std::sync::Arc;

use fulgurite_codec::SectorCode;

use super::head::GlassHead;
use super::layout::{Layout, UnitKind};
use super::{header_coding, packing};

/// Writes the bytes of a platter, front to back, as a glass platter's file.
pub struct VoxelWriter<W> {
    sink: W,
    head: GlassHead,
    layout: Layout,
    code: Arc<SectorCode>,
    /// The bytes of the current unit that have come so far.
    unit: Vec<u8>,
    /// Where this unit begins in the platter's bytes.
    at: u64,
}

impl<W: Write> VoxelWriter<W> {
    /// Begins a platter with the code of its medium.
    pub(super) fn new(code: Arc<SectorCode>, head: GlassHead, mut sink: W) -> io::Result<Self> {
        sink.write_all(&head.to_block())?;
        Ok(Self { layout: head.layout(), head, code, sink, unit: Vec::new(), at: 0 })
    }

    /// Ends the platter, and returns the sink.
    ///
    /// # Errors
    /// Errors of the sink; [`io::ErrorKind::UnexpectedEof`] if bytes of the platter are missing.
    pub fn finish(mut self) -> io::Result<W> {
        if self.at != self.layout.bytes() {
            let written = self.at + self.unit.len() as u64;
            let text = format!("the platter has {} bytes, but only {written} were written", self.layout.bytes());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        self.sink.write_all(&self.head.to_block())?;
        Ok(self.sink)
    }

    fn write_unit(&mut self, kind: UnitKind) -> io::Result<()> {
        let (alphabet, voxels) = (&self.head.medium.alphabet, self.head.medium.voxels());
        let symbols = match kind {
            UnitKind::Header(_) => header_coding::symbols(&self.unit, alphabet, voxels),
            UnitKind::Sector(sector) => {
                self.unit.resize(self.code.payload_bytes(), 0);
                self.code.encode(&self.head.address(sector), &self.unit)
            }
        };
        for sector in symbols.chunks(voxels) {
            self.sink.write_all(&packing::pack(sector, alphabet.bits_per_voxel()))?;
        }
        Ok(())
    }
}

impl<W: Write> Write for VoxelWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(unit) = self.layout.unit_at(self.at) else {
            return if bytes.is_empty() { Ok(0) } else { Err(io::Error::new(io::ErrorKind::WriteZero, "the platter is full")) };
        };
        let room = unit.bytes as usize - self.unit.len();
        let now = &bytes[..bytes.len().min(room)];
        self.unit.extend_from_slice(now);
        if now.len() == room {
            self.write_unit(unit.kind)?;
            self.unit.clear();
            self.at += unit.bytes;
        }
        Ok(now.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
