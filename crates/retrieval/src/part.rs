//! A part: one bulk get, into a file.
//!
//! The response is a tar archive whose last entry gives the result for each object; without it the
//! response is incomplete. A part gets its name when its file is complete and on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use fulgurite_client::{BulkGetError, BulkGetReport, Requested, read_bulk_get};
use serde::{Deserialize, Serialize};

use crate::cut_off::{Ended, Received, bulk_get};
use crate::exchange::{Exchange, ExchangeError, Response};
use crate::files::{at, sync_folder, write_whole};
use crate::job::Format;
use crate::order::write_line;
use crate::rows::RowWriter;
use crate::tar_part;

/// An object that the server could not send, and why.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    #[serde(flatten)]
    object: &'a Requested,
    code: &'a str,
    message: &'a str,
}

/// Totals of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fetched {
    pub(crate) retrieved: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
}

/// The paths of a part's file, while and after it is written, and of what is recorded about it.
pub(crate) struct PartFiles<'a> {
    pub(crate) partial: &'a Path,
    pub(crate) complete: &'a Path,
    pub(crate) failed: &'a Path,
    /// Gets the [`Record`] of the complete part.
    pub(crate) record: &'a Path,
}

/// What is recorded of a complete part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "AnyRecord")]
pub(crate) struct Record {
    /// The length of its file.
    pub(crate) length: u64,
    /// Objects that the server could not send. `None` in a record of an earlier release.
    pub(crate) failed: Option<u64>,
}

/// A record. Earlier releases recorded only the length.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyRecord {
    Length(u64),
    Whole { length: u64, failed: u64 },
}

impl From<AnyRecord> for Record {
    fn from(record: AnyRecord) -> Self {
        match record {
            AnyRecord::Length(length) => Self { length, failed: None },
            AnyRecord::Whole { length, failed } => Self { length, failed: Some(failed) },
        }
    }
}

/// Retrieves a part. `on_progress` gets what the current attempt has so far.
pub(crate) fn fetch(
    exchange: &Exchange<'_>,
    objects: &[Requested],
    format: Format,
    files: &PartFiles<'_>,
    on_progress: &mut dyn FnMut(Fetched),
) -> Result<Fetched, ExchangeError> {
    let (report, ()) = bulk_get(exchange, objects, |response| {
        let (mut so_far, mut entries) = (Fetched::default(), BTreeMap::new());
        let mut on_object = |name: String, bytes: u64| {
            so_far.retrieved += 1;
            so_far.bytes += bytes;
            on_progress(so_far);
            match entries.insert(name.clone(), bytes) {
                None => Ok(()),
                Some(_) => Err(came_twice(&name)),
            }
        };
        let report = match format {
            Format::Tar => to_tar(response, files.partial, &mut on_object),
            Format::Parquet => to_parquet(response, files.partial, &mut on_object),
        }?;
        Ok(Received { report, entries, content: () })
    })?;
    finish(files, objects, &report)
}

/// The error if the server sends two entries of one name.
pub(crate) fn came_twice(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the entry {name:?} came twice"))
}

/// Notes an entry that arrived: its name and the bytes of its content. Fails if it arrived before.
type OnObject<'a> = dyn FnMut(String, u64) -> io::Result<()> + 'a;

fn to_tar(response: &mut Response<'_>, path: &Path, on_object: &mut OnObject<'_>) -> Result<BulkGetReport, Ended> {
    let out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(at(path))?);
    let mut copied = Copied { response, out, error: None };
    let mut arriving = None;
    let result = read_bulk_get(&mut copied, |entry, name| {
        arriving = Some(name.clone());
        let size = io::copy(entry, &mut io::sink())?;
        if size != entry.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        arriving = None;
        on_object(name, size)
    });
    // Reads to the end, so that the file includes the blocks that end an archive.
    let result = result.and_then(|report| io::copy(&mut copied, &mut io::sink()).map(|_| report).map_err(BulkGetError::from));
    let Copied { response, out, error } = copied;
    if let Some(error) = error {
        return Err(at(path)(error).into());
    }
    let report = result.map_err(|error| Ended { error: response.failed(|| error.into()), entry: arriving })?;
    let file = out.into_inner().map_err(|error| at(path)(error.into_error()))?;
    file.sync_all().map_err(at(path))?;
    Ok(report)
}

fn to_parquet(response: &mut Response<'_>, path: &Path, on_object: &mut OnObject<'_>) -> Result<BulkGetReport, Ended> {
    let file = File::create(path).map_err(at(path))?;
    let mut rows = RowWriter::new(file).map_err(at(path))?;
    let (mut failed_to_write, mut arriving) = (None, None);
    let result = read_bulk_get(&mut *response, |entry, name| {
        arriving = Some(name.clone());
        let row = tar_part::row(entry, name.clone())?;
        arriving = None;
        on_object(name, row.content.len() as u64)?;
        rows.push(row).map_err(|error| {
            let text = error.to_string();
            failed_to_write = Some(error);
            io::Error::other(text)
        })
    });
    if let Some(error) = failed_to_write {
        return Err(at(path)(error).into());
    }
    let report = result.map_err(|error| Ended { error: response.failed(|| error.into()), entry: arriving })?;
    rows.finish().map_err(at(path))?;
    Ok(report)
}

impl From<BulkGetError> for ExchangeError {
    fn from(error: BulkGetError) -> Self {
        match error {
            BulkGetError::Malformed(why) => Self::Malformed(why),
            ended @ BulkGetError::Ended(_) => Self::Failed(ended.to_string()),
        }
    }
}

/// Writes what failed, and gives the part its name.
fn finish(files: &PartFiles<'_>, objects: &[Requested], report: &BulkGetReport) -> Result<Fetched, ExchangeError> {
    let mut fetched = Fetched::default();
    let mut failed = Vec::new();
    for (object, line) in objects.iter().zip(&report.objects) {
        if let Some(code) = &line.code {
            fetched.failed += 1;
            write_line(&mut failed, &Failed { object, code, message: line.message.as_deref().unwrap_or_default() })
                .map_err(at(files.failed))?;
        } else {
            fetched.retrieved += 1;
            fetched.bytes += line.size.unwrap_or(0);
        }
    }
    // An earlier attempt may have left a list.
    if fetched.failed > 0 {
        let partial = files.failed.with_extension("partial");
        let write = |mut file: File| file.write_all(&failed).and_then(|()| file.sync_all());
        File::create(&partial).and_then(write).map_err(at(&partial))?;
        std::fs::rename(&partial, files.failed).map_err(at(files.failed))?;
    } else if let Err(error) = std::fs::remove_file(files.failed)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(at(files.failed)(error));
    }
    // Recorded before the part gets its name, so that no complete part lacks its record.
    let length = std::fs::metadata(files.partial).map_err(at(files.partial))?.len();
    write_whole(files.record, &Record { length, failed: Some(fetched.failed) })?;
    std::fs::rename(files.partial, files.complete).map_err(at(files.complete))?;
    sync_folder(files.complete)?;
    Ok(fetched)
}

/// Writes to a file what is read from a response.
struct Copied<'r, 'e> {
    response: &'r mut Response<'e>,
    out: BufWriter<File>,
    /// Why writing failed.
    error: Option<io::Error>,
}

impl Read for Copied<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.response.read(buffer)?;
        if let Err(error) = self.out.write_all(&buffer[..count]) {
            let text = error.to_string();
            self.error = Some(error);
            return Err(io::Error::other(text));
        }
        Ok(count)
    }
}
