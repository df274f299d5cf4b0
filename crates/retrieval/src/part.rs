//! A part: one bulk get, into a file.
//!
//! The response is a tar archive whose last entry gives the result for each object; without it the
//! response is incomplete. A part gets its name when its file is complete and on disk.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::exchange::{Exchange, ExchangeError, Response};
use crate::job::Format;
use crate::list::Requested;
use crate::order::{body, write_line};
use crate::rows::RowWriter;
use crate::tar_part;

/// The server's result for one object.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    key: String,
    pub(crate) version_id: Option<String>,
    /// Name of its entry, if it was sent.
    pub(crate) entry: Option<String>,
    pub(crate) size: Option<u64>,
    /// The error; `None` if the object was sent.
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

/// An object that the server could not send, and why.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    #[serde(flatten)]
    object: &'a Requested,
    code: &'a str,
    message: &'a str,
}

/// The last entry of a response.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) objects: Vec<Line>,
}

/// Totals of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fetched {
    pub(crate) retrieved: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
}

/// The path of a part's file, while and after it is written, and of the list of its failed objects.
pub(crate) struct PartFiles<'a> {
    pub(crate) partial: &'a Path,
    pub(crate) complete: &'a Path,
    pub(crate) failed: &'a Path,
}

/// Retrieves a part. `on_progress` gets what the current attempt has so far.
pub(crate) fn fetch(
    exchange: &Exchange<'_>,
    objects: &[Requested],
    format: Format,
    files: &PartFiles<'_>,
    on_progress: &mut dyn FnMut(Fetched),
) -> Result<Fetched, ExchangeError> {
    let report = exchange.post("retrieve=", &body(objects), |response| {
        let mut so_far = Fetched::default();
        let report = {
            let mut on_object = |bytes: u64| {
                so_far.retrieved += 1;
                so_far.bytes += bytes;
                on_progress(so_far);
            };
            match format {
                Format::Tar => to_tar(response, files.partial, &mut on_object),
                Format::Parquet => to_parquet(response, files.partial, &mut on_object),
            }?
        };
        check(objects, &report, so_far.retrieved)?;
        Ok(report)
    })?;
    finish(files, objects, &report).map_err(ExchangeError::File)
}

fn to_tar(response: &mut Response<'_>, path: &Path, on_object: &mut dyn FnMut(u64)) -> Result<Report, ExchangeError> {
    let out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(ExchangeError::File)?);
    let mut copied = Copied { response, out, error: None };
    let result = read_entries(&mut copied, |entry, _| {
        let size = io::copy(entry, &mut io::sink())?;
        on_object(size);
        Ok(())
    });
    // Reads to the end, so that the file includes the blocks that end an archive.
    let result = result.and_then(|report| io::copy(&mut copied, &mut io::sink()).map(|_| report).map_err(Unreadable::Io));
    let Copied { response, out, error } = copied;
    if let Some(error) = error {
        return Err(ExchangeError::File(error));
    }
    let report = result.map_err(|error| response.failed(|| error.into()))?;
    let file = out.into_inner().map_err(|error| ExchangeError::File(error.into_error()))?;
    file.sync_all().map_err(ExchangeError::File)?;
    Ok(report)
}

fn to_parquet(response: &mut Response<'_>, path: &Path, on_object: &mut dyn FnMut(u64)) -> Result<Report, ExchangeError> {
    let file = File::create(path).map_err(ExchangeError::File)?;
    let mut rows = RowWriter::new(file).map_err(ExchangeError::File)?;
    let mut failed_to_write = None;
    let result = read_entries(&mut *response, |entry, name| {
        let row = tar_part::row(entry, name)?;
        on_object(row.content.len() as u64);
        rows.push(row).map_err(|error| {
            let text = error.to_string();
            failed_to_write = Some(error);
            io::Error::other(text)
        })
    });
    if let Some(error) = failed_to_write {
        return Err(ExchangeError::File(error));
    }
    let report = result.map_err(|error| response.failed(|| error.into()))?;
    rows.finish().map_err(ExchangeError::File)?;
    Ok(report)
}

/// Why a response can't be read.
pub(crate) enum Unreadable {
    Io(io::Error),
    Report(serde_json::Error),
    NoReport,
}

impl From<Unreadable> for ExchangeError {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Io(error) if error.kind() == io::ErrorKind::InvalidData => Self::Malformed(error.to_string()),
            Unreadable::Io(error) => Self::Failed(format!("the response ended early: {error}")),
            Unreadable::Report(error) => Self::Malformed(error.to_string()),
            // The server aborts a response when it can't read the rest of a large object.
            Unreadable::NoReport => Self::Failed("the response ended early".to_owned()),
        }
    }
}

/// Passes each entry and its name to `each`, and returns the report at the end.
pub(crate) fn read_entries<R: Read>(
    reader: R,
    mut each: impl FnMut(&mut tar::Entry<'_, R>, String) -> io::Result<()>,
) -> Result<Report, Unreadable> {
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries().map_err(Unreadable::Io)? {
        let mut entry = entry.map_err(Unreadable::Io)?;
        let name = tar_part::name_of(&mut entry).map_err(Unreadable::Io)?;
        if name == tar_part::REPORT {
            let mut text = Vec::new();
            entry.read_to_end(&mut text).map_err(Unreadable::Io)?;
            return serde_json::from_slice(&text).map_err(Unreadable::Report);
        }
        each(&mut entry, name).map_err(Unreadable::Io)?;
    }
    Err(Unreadable::NoReport)
}

/// Checks that a report has a line for each object, and that as many entries came as it says.
pub(crate) fn check(objects: &[Requested], report: &Report, entries: u64) -> Result<(), ExchangeError> {
    let sent = objects.iter().zip(&report.objects).filter(|(_, line)| line.code.is_none());
    // An object that is listed twice is sent once.
    let distinct = sent.map(|(object, _)| object).collect::<BTreeSet<_>>().len() as u64;
    if distinct != entries {
        return Err(ExchangeError::Malformed(format!("{entries} entries, but the report has {distinct}")));
    }
    let is_same = |(object, line): (&Requested, &Line)| object.key == line.key && (line.code.is_some() || line.size.is_some());
    if report.objects.len() == objects.len() && objects.iter().zip(&report.objects).all(is_same) {
        return Ok(());
    }
    Err(ExchangeError::Malformed("the report doesn't have a line for each object".to_owned()))
}

/// Writes what failed, and gives the part its name.
fn finish(files: &PartFiles<'_>, objects: &[Requested], report: &Report) -> io::Result<Fetched> {
    let mut fetched = Fetched::default();
    let mut failed = Vec::new();
    for (object, line) in objects.iter().zip(&report.objects) {
        if let Some(code) = &line.code {
            fetched.failed += 1;
            write_line(&mut failed, &Failed { object, code, message: line.message.as_deref().unwrap_or_default() })?;
        } else {
            fetched.retrieved += 1;
            fetched.bytes += line.size.unwrap_or(0);
        }
    }
    // An earlier attempt may have left a list.
    if fetched.failed > 0 {
        let partial = files.failed.with_extension("partial");
        let mut file = File::create(&partial)?;
        file.write_all(&failed)?;
        file.sync_all()?;
        std::fs::rename(&partial, files.failed)?;
    } else if let Err(error) = std::fs::remove_file(files.failed)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    std::fs::rename(files.partial, files.complete)?;
    files.complete.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())?;
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
