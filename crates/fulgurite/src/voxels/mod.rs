//! `inspect --images` and `inspect --health`: pictures of what the read drive sees of a glass
//! platter.
//!
//! ```text
//! platter file --> [VoxelPlatter] --one sector--> images: eight pictures
//!                        '----------all sectors-> health: a map of margins
//! ```

mod colors;
mod health;
mod images;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_archive::inspect::InspectError;
use fulgurite_archive::settings::{GlassSettings, Limits};
use fulgurite_format::find_header;
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Preset;
use fulgurite_glass::{GlassHead, GlassMedium, GlassReader, PlatterSource, VoxelPlatter};
use serde_json::{Value, json};

use crate::args::Inspect;
use crate::{Outcome, Session};

pub(crate) use health::draw_health;
pub(crate) use images::{Look, describe, look};

pub(crate) fn inspect(session: &Session, options: &Inspect) -> Result<Outcome> {
    // Before anything is read, since that may take minutes.
    if let Some(file) = &options.health {
        check_is_new(file)?;
    }
    let glass = Glass::open(&options.file, options.noise, options.decoder)?;
    match (&options.images, &options.health) {
        (Some(folder), _) => images::images(session, &glass, folder, options.track, options.sector),
        (None, Some(file)) => health::health(session, &glass, file),
        (None, None) => unreachable!("without pictures, `platters::inspect` runs"),
    }
}

/// A glass platter in its read drive.
pub(crate) struct Glass {
    platter: VoxelPlatter,
    noise: Preset,
    decoder: DecoderKind,
    threads: usize,
}

struct PlatterBytes(File);

impl PlatterSource for PlatterBytes {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

impl Glass {
    /// Loads a platter file. Without `noise`, it is read with the preset that it was written with,
    /// or with the default one if its effects match no preset.
    pub(crate) fn open(path: &Path, noise: Option<Preset>, decoder: DecoderKind) -> Result<Self> {
        let io_error = |source| InspectError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io_error)?;
        let metadata = file.metadata().map_err(io_error)?;
        if !metadata.is_file() {
            return Err(io_error(io::Error::new(io::ErrorKind::InvalidInput, "not a file")).into());
        }
        let length = metadata.len();
        let noise = noise.or_else(|| noise_of_writing(&file, length)).unwrap_or(GlassSettings::default().noise);
        let threads = Limits::default().threads;
        let reader = Arc::new(GlassReader::new(noise.effects().read, decoder));
        let source = Arc::new(PlatterBytes(file));
        if let Some(platter) = VoxelPlatter::open(source.clone(), length, &reader).map_err(io_error)? {
            return Ok(Self { platter, noise, decoder, threads });
        }
        match find_header(length, |offset, buffer| source.0.read_exact_at(buffer, offset)) {
            Ok(_) => bail!(
                "{} is a platter of the disk medium, and only platters of glass have voxels to show: \
                 inspect it without --images and --health",
                path.display()
            ),
            Err(source) => Err(InspectError::Header { path: path.to_owned(), source }.into()),
        }
    }

    /// Bytes that the platter holds for the archive.
    pub(crate) fn bytes(&self) -> u64 {
        self.platter.bytes()
    }

    /// Reads these bytes.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut read = 0;
        while read < buffer.len() {
            match self.platter.read_at(offset + read as u64, &mut buffer[read..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => read += bytes,
            }
        }
        Ok(())
    }

    pub(crate) fn medium(&self) -> &GlassMedium {
        &self.platter.head().medium
    }

    /// The platter and how it is read, for people.
    fn say(&self, session: &Session) {
        let GlassMedium { rows, columns, alphabet, parity_columns, .. } = self.medium();
        let (bits, rate) = (alphabet.bits_per_voxel(), 80 - parity_columns);
        session.say(&format!("platter   {}", self.platter.head().platter));
        session.say(&format!("medium    glass, sectors of {rows} x {columns} voxels of {bits} bits, code of rate {rate}/80"));
        session.say(&format!("reading   noise {}, decoder {}", self.noise.name(), self.decoder.name()));
    }

    fn to_json(&self) -> Value {
        let GlassMedium { rows, columns, alphabet, parity_columns, .. } = self.medium();
        json!({
            "platter": self.platter.head().platter.to_string(), "noise": self.noise.name(), "decoder": self.decoder.name(),
            "voxels": {
                "rows": rows, "columns": columns, "bits": alphabet.bits_per_voxel(), "parity_columns": parity_columns,
            },
        })
    }
}

/// The preset with which a platter was written, if it is one of today's.
fn noise_of_writing(file: &File, length: u64) -> Option<Preset> {
    let last = length.checked_sub(GlassHead::BYTES as u64)?;
    let head = [0, last].into_iter().find_map(|offset| {
        let mut block = vec![0; GlassHead::BYTES];
        file.read_exact_at(&mut block, offset).ok()?;
        GlassHead::from_block(&block).ok()
    })?;
    Preset::ALL.into_iter().find(|preset| preset.effects().write == head.effects)
}

/// Checks that a file doesn't exist and can be created, by creating and removing it.
fn check_is_new(path: &Path) -> Result<()> {
    write_new(path, b"")?;
    std::fs::remove_file(path).with_context(|| format!("can't write {}", path.display()))
}

/// Writes a file that doesn't exist yet.
fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} already exists, and is not replaced: remove it, or write to another place", path.display())
        }
        created => created.with_context(|| format!("can't write {}", path.display()))?,
    };
    let written = file.write_all(bytes);
    if written.is_err() {
        // Leaves no partial picture.
        let _ = std::fs::remove_file(path);
    }
    written.with_context(|| format!("can't write {}", path.display()))
}
