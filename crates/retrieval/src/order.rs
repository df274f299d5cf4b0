//! Sorts a list by storage location, and cuts it into parts.
//!
//! The list may have more entries than fit into memory: the server is asked for pieces of it, runs
//! of several pieces are sorted and written to files, and the files are merged.
//!
//! ```text
//! list -> pieces of 100,000 -> positions -> runs of 500,000, sorted -> merged -> parts
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use fulgurite_client::{BULK_GET_ORDER_QUERY, Requested, bulk_get_body};
use serde::{Deserialize, Serialize};

use crate::exchange::{Exchange, ExchangeError};
use crate::files::at;
use crate::job::{Format, RetrievalError, Settings};
use crate::list;
use crate::rows::CONTENT_BYTES_MAX;

/// Maximum number of objects of one request.
pub(crate) const OBJECTS_MAX: usize = 100_000;
/// Maximum length of the list in one request, a little less than the server's limit.
pub(crate) const LIST_BYTES_MAX: usize = 15 << 20;
/// Objects per run, which is sorted in memory.
const RUN_OBJECTS: usize = 500_000;

/// A requested object and its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Placed {
    /// Sorts in the archive's read order. Objects whose lookup failed come last.
    position: String,
    object: Requested,
    bytes: u64,
}

/// Objects that are retrieved with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Where its objects begin in the sorted list, in bytes.
    pub(crate) offset: u64,
    /// Number of objects.
    pub(crate) objects: u64,
    /// Bytes of their content, as far as known.
    pub(crate) bytes: u64,
}

/// Length of an object in the body of a request, at most.
pub(crate) fn body_bytes(object: &Requested) -> usize {
    let text = |text: &str| 6 * text.len();
    64 + text(&object.key) + object.version_id.as_deref().map_or(0, text) + object.range.as_deref().map_or(0, text)
}

/// Writes the sorted list to `sorted`, and returns its parts.
pub(crate) fn sort(
    settings: &Settings,
    exchange: &Exchange<'_>,
    sorted: &Path,
    on_placed: &mut dyn FnMut(u64),
) -> Result<Vec<Part>, RetrievalError> {
    let mut runs = Runs { folder: sorted.with_extension("runs"), files: Vec::new(), run: Vec::new() };
    // Left over from an attempt that was killed.
    let _ = std::fs::remove_dir_all(&runs.folder);
    std::fs::create_dir_all(&runs.folder).map_err(at(&runs.folder))?;
    let (mut piece, mut piece_bytes, mut placed) = (Vec::new(), 0, 0);
    let mut place = |piece: &mut Vec<Requested>, runs: &mut Runs| -> Result<(), RetrievalError> {
        placed += piece.len() as u64;
        runs.add(placed_on(exchange, std::mem::take(piece))?)?;
        on_placed(placed);
        Ok(())
    };
    list::read(&settings.list, |object| {
        piece_bytes += body_bytes(&object);
        piece.push(object);
        if piece.len() == OBJECTS_MAX || piece_bytes >= LIST_BYTES_MAX {
            piece_bytes = 0;
            place(&mut piece, &mut runs)?;
        }
        Ok::<_, RetrievalError>(())
    })?;
    if !piece.is_empty() {
        place(&mut piece, &mut runs)?;
    }
    let parts = runs.merge(sorted, settings)?;
    std::fs::remove_dir_all(sorted.with_extension("runs"))?;
    Ok(parts)
}

/// Asks the server where objects are: their positions and sizes, in the order of `objects`.
pub(crate) fn ask(exchange: &Exchange<'_>, objects: &[Requested]) -> Result<Vec<Option<(String, u64)>>, ExchangeError> {
    #[derive(Deserialize)]
    struct Answer {
        order: Vec<Option<(String, u64)>>,
    }
    exchange.post(BULK_GET_ORDER_QUERY, &bulk_get_body(objects), |response| {
        let answer: Result<Answer, _> = serde_json::from_reader(BufReader::new(&mut *response));
        match answer {
            Ok(answer) if answer.order.len() == objects.len() => Ok(answer.order),
            Ok(answer) => Err(ExchangeError::Malformed(format!("{} positions of {} objects", answer.order.len(), objects.len()))),
            Err(error) => Err(response.failed(|| ExchangeError::Malformed(error.to_string()))),
        }
    })
}

fn placed_on(exchange: &Exchange<'_>, objects: Vec<Requested>) -> Result<Vec<Placed>, ExchangeError> {
    let order = ask(exchange, &objects)?;
    let place = |(object, place): (Requested, Option<(String, u64)>)| {
        let (position, bytes) = place.unwrap_or_else(|| ("~".to_owned(), 0));
        Placed { position, object, bytes }
    };
    Ok(objects.into_iter().zip(order).map(place).collect())
}

/// Sorted runs in files.
struct Runs {
    folder: PathBuf,
    files: Vec<PathBuf>,
    /// The run that is being filled.
    run: Vec<Placed>,
}

impl Runs {
    fn add(&mut self, placed: Vec<Placed>) -> Result<(), ExchangeError> {
        self.run.extend(placed);
        if self.run.len() >= RUN_OBJECTS { self.end_run() } else { Ok(()) }
    }

    fn end_run(&mut self) -> Result<(), ExchangeError> {
        let mut run = std::mem::take(&mut self.run);
        run.sort_unstable();
        let path = self.folder.join(self.files.len().to_string());
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(at(&path))?);
        for placed in &run {
            write_line(&mut file, placed).map_err(at(&path))?;
        }
        file.flush().map_err(at(&path))?;
        self.files.push(path);
        Ok(())
    }

    /// Merges the runs into one list, and cuts it into parts.
    fn merge(mut self, sorted: &Path, settings: &Settings) -> Result<Vec<Part>, RetrievalError> {
        self.end_run()?;
        let mut readers = Vec::new();
        let mut heads = BinaryHeap::new();
        for path in &self.files {
            let mut reader = BufReader::with_capacity(256 << 10, File::open(path).map_err(at(path))?);
            if let Some(placed) = read_line::<Placed>(&mut reader).map_err(at(path))? {
                heads.push(Reverse((placed, readers.len())));
            }
            readers.push(reader);
        }
        let mut out = BufWriter::with_capacity(1 << 20, File::create(sorted).map_err(at(sorted))?);
        let (mut parts, mut end, mut body_length) = (Vec::new(), 0, 0);
        let mut part = Part { offset: 0, objects: 0, bytes: 0 };
        while let Some(Reverse((placed, run))) = heads.pop() {
            if settings.format == Format::Parquet && placed.bytes > CONTENT_BYTES_MAX {
                return Err(RetrievalError::TooLarge { key: placed.object.key, bytes: placed.bytes });
            }
            let length = body_bytes(&placed.object);
            let is_full = part.objects >= settings.part_objects.min(OBJECTS_MAX as u64)
                || part.bytes.saturating_add(placed.bytes) > settings.part_bytes
                || body_length + length > LIST_BYTES_MAX;
            if is_full && part.objects > 0 {
                parts.push(std::mem::replace(&mut part, Part { offset: end, objects: 0, bytes: 0 }));
                body_length = 0;
            }
            part.objects += 1;
            part.bytes = part.bytes.saturating_add(placed.bytes);
            body_length += length;
            end += write_line(&mut out, &placed.object).map_err(at(sorted))?;
            if let Some(next) = read_line(&mut readers[run]).map_err(at(&self.files[run]))? {
                heads.push(Reverse((next, run)));
            }
        }
        if part.objects > 0 {
            parts.push(part);
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error).map_err(at(sorted))?;
        file.sync_all().map_err(at(sorted))?;
        Ok(parts)
    }
}

/// Appends a value as a line of JSON. Returns its length.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<u64> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(line.len() as u64)
}

/// Reads a line of JSON; `None` at the end.
pub(crate) fn read_line<T: for<'de> Deserialize<'de>>(reader: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(position: u64, bytes: u64) -> Placed {
        let object = Requested { key: format!("key {position}"), version_id: None, range: None };
        Placed { position: format!("{position:06}"), object, bytes }
    }

    /// The sorted keys of each part, with numbers as positions.
    fn merged(runs: &[&[(u64, u64)]], part_objects: u64, part_bytes: u64) -> Vec<Vec<u64>> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut all = Runs { folder: folder.path().to_owned(), files: Vec::new(), run: Vec::new() };
        for run in runs {
            all.add(run.iter().map(|(position, bytes)| placed(*position, *bytes)).collect()).expect("added");
            all.end_run().expect("written");
        }
        let sorted = folder.path().join("sorted");
        let settings = Settings { part_objects, part_bytes, ..Settings::default() };
        let parts = all.merge(&sorted, &settings).expect("merged");
        let text = std::fs::read(&sorted).expect("readable");
        let mut found = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let end = parts.get(index + 1).map_or(text.len(), |next| next.offset as usize);
            let mut lines = &text[part.offset as usize..end];
            let mut keys = Vec::new();
            while let Some(object) = read_line::<Requested>(&mut lines).expect("a line") {
                keys.push(object.key["key ".len()..].parse().expect("a number"));
            }
            assert_eq!(keys.len() as u64, part.objects);
            found.push(keys);
        }
        found
    }

    #[test]
    fn runs_are_merged_and_cut_by_number_and_bytes() {
        let runs: &[&[(u64, u64)]] = &[&[(5, 10), (1, 10), (9, 10)], &[], &[(4, 10), (2, 100), (3, 10)]];
        assert_eq!(merged(runs, 4, 1_000), [vec![1, 2, 3, 4], vec![5, 9]]);
        assert_eq!(merged(runs, 99, 30), [vec![1], vec![2], vec![3, 4, 5], vec![9]], "a large object has its own part");
        assert_eq!(merged(&[], 9, 9), Vec::<Vec<u64>>::new());
        assert_eq!(merged(runs, 99, u64::MAX), [vec![1, 2, 3, 4, 5, 9]]);
    }

    #[test]
    fn a_body_is_never_longer_than_its_estimate() {
        let object = Requested { key: "\u{1}\"é\\".repeat(9), version_id: Some("7".into()), range: Some("bytes=0-9".into()) };
        assert!(bulk_get_body(std::slice::from_ref(&object)).len() <= body_bytes(&object) + 16);
    }
}
