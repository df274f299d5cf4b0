//! What a list of names selects, to be read in the order of the medium.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::many::ReadInto;
use fulgurite_archive::object::{ReadError, SUCCESSORS_MAX};
use fulgurite_archive::read_order::MediumPosition;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::archive::find;
use crate::errors::{Class, Failure};
use crate::of_process::OfProcess;
use crate::open_archive::OpenArchive;

/// The part of an object: its first byte, and the one after its last (none for the object's end).
/// As in slices of Python, what is beyond the end is left out. `None` for all of it.
pub(crate) type Range = Option<(u64, Option<u64>)>;

/// Bounds of what is read between two looks for signals such as Ctrl-C.
const SIGNAL_BYTES: u64 = 256 << 20;
const SIGNAL_OBJECTS: usize = 8_192;

/// The content of several objects: their bytes, one after another; the end of each, as 64-bit
/// numbers after a zero; an exception for each that failed, by its number; and the number of
/// repaired tracks.
pub(crate) type Content<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyDict>, u64);

/// Objects that were looked up.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct Selection {
    core: Arc<OfProcess<OpenArchive>>,
    /// In the order of the list. What was replaced before it was read becomes its successor.
    items: Mutex<Vec<Result<Arc<Item>, Failure>>>,
    /// Gaps of the catalogue that may hide newer versions than those found.
    doubts: Option<String>,
    /// Numbers of the items that were found, in read order.
    order: Vec<usize>,
}

struct Item {
    version: VersionRow,
    /// Whether the list asks for the newest version, whichever that is.
    is_newest: bool,
    /// The part that is wanted.
    wanted: Range,
    start: u64,
    end: u64,
    position: MediumPosition,
}

impl Item {
    fn new(version: VersionRow, is_newest: bool, wanted: Range, position: MediumPosition) -> Self {
        let size = version.record.size;
        let (start, end) = wanted.unwrap_or((0, None));
        let end = end.unwrap_or(size).min(size);
        Self { start: start.min(end), end, version, is_newest, wanted, position }
    }

    fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Why an item was not read.
enum Unread {
    /// The version was replaced or removed.
    Removed,
    Failed(Failure),
}

/// What was read: the content of items, one after another.
struct Read<'py> {
    content: Bound<'py, PyBytes>,
    /// Where the content of each is, by its number.
    places: HashMap<usize, std::ops::Range<usize>>,
    unread: HashMap<usize, Unread>,
    repaired: u64,
}

impl Selection {
    pub(crate) fn new(
        core: Arc<OfProcess<OpenArchive>>,
        rows: Vec<Result<VersionRow, Failure>>,
        asks_for_newest: Vec<bool>,
        doubts: Option<String>,
        ranges: Option<Vec<Range>>,
    ) -> Self {
        let placed: Vec<_> = core.place_many(&rows.iter().filter_map(|row| row.as_ref().ok()).collect::<Vec<_>>());
        let mut placed = placed.into_iter();
        let item = |((index, row), is_newest): ((usize, Result<VersionRow, Failure>), bool)| {
            let version = row?;
            let position = placed.next().expect("each found version has a place")?;
            let wanted = ranges.as_ref().and_then(|ranges| *ranges.get(index)?);
            Ok(Arc::new(Item::new(version, is_newest, wanted, position)))
        };
        let items: Vec<Result<Arc<Item>, Failure>> = rows.into_iter().enumerate().zip(asks_for_newest).map(item).collect();
        let mut order: Vec<usize> = (0..items.len()).filter(|index| items[*index].is_ok()).collect();
        order.sort_by_key(|index| items[*index].as_ref().ok().map(|item| (item.position, *index)));
        Self { core, items: Mutex::new(items), doubts, order }
    }

    fn items(&self) -> MutexGuard<'_, Vec<Result<Arc<Item>, Failure>>> {
        self.items.lock().expect("nothing panics while it holds this lock")
    }

    fn found(&self, index: usize) -> Option<Arc<Item>> {
        self.items().get(index)?.as_ref().ok().cloned()
    }

    fn bytes_of(&self, index: usize) -> u64 {
        self.found(index).map_or(0, |item| item.bytes())
    }

    /// Looks up what was replaced before it was read. Returns the failures, by number.
    fn find_successors(&self, numbers: &[usize]) -> Vec<(usize, Failure)> {
        let before: Vec<(usize, Arc<Item>)> = numbers.iter().filter_map(|number| Some((*number, self.found(*number)?))).collect();
        let names: Vec<_> = before.iter().map(|(_, item)| (item.version.record.name.clone(), None)).collect();
        let mut failures = Vec::new();
        for ((number, item), row) in before.into_iter().zip(find(&self.core, &names)) {
            let found = row.and_then(|row| {
                let position = MediumPosition::of(&self.core, &row)?;
                Ok(Arc::new(Item::new(row, true, item.wanted, position)))
            });
            failures.extend(found.as_ref().err().map(|failure| (number, failure.clone())));
            self.items()[number] = found;
        }
        failures
    }

    /// Reads items as they were looked up. What was not found has no content.
    fn read_found<'py>(&self, py: Python<'py>, numbers: &[usize]) -> PyResult<Read<'py>> {
        let items: Vec<(usize, Arc<Item>)> = numbers.iter().filter_map(|number| Some((*number, self.found(*number)?))).collect();
        let (mut places, mut end) = (HashMap::with_capacity(items.len()), 0_usize);
        for (number, item) in &items {
            let start = end;
            end = end.saturating_add(usize::try_from(item.bytes()).unwrap_or(usize::MAX));
            places.insert(*number, start..end);
        }
        let mut unread = HashMap::new();
        let mut repaired = 0;
        let content = PyBytes::new_with(py, end, |mut rest| {
            let mut reads: Vec<(usize, ReadInto<'_>)> = Vec::with_capacity(items.len());
            for (number, item) in &items {
                let out = rest.split_off_mut(..item.bytes() as usize).expect("as long as all of them");
                reads.push((*number, ReadInto { version: &item.version, position: item.position, range: item.start..item.end, out }));
            }
            reads.sort_by_key(|(number, read)| (read.position, *number));
            let mut reads = reads.into_iter().peekable();
            while reads.peek().is_some() {
                let mut bytes = 0;
                let mut now: (Vec<usize>, Vec<ReadInto<'_>>) = Default::default();
                while now.0.len() < SIGNAL_OBJECTS
                    && bytes < SIGNAL_BYTES
                    && let Some((number, read)) = reads.next()
                {
                    bytes += read.out.len() as u64;
                    now.0.push(number);
                    now.1.push(read);
                }
                let (numbers, now) = now;
                let names: Vec<String> = now.iter().map(|read| read.version.record.name.display()).collect();
                let (results, repairs) = py.detach(|| self.core.read_many(now));
                repaired += repairs.tracks();
                for ((number, result), name) in numbers.into_iter().zip(results).zip(names) {
                    match result {
                        Ok(()) => {}
                        Err(ReadError::Removed) => drop(unread.insert(number, Unread::Removed)),
                        Err(error) => drop(unread.insert(number, Unread::Failed(Failure::from(error).of(&name)))),
                    }
                }
                py.check_signals()?;
            }
            Ok(())
        })?;
        Ok(Read { content, places, unread, repaired })
    }
}

#[pymethods]
impl Selection {
    fn __len__(&self) -> usize {
        self.items().len()
    }

    /// How many were found.
    #[getter]
    fn found_count(&self) -> usize {
        self.order.len()
    }

    /// Bytes of content that `read` of everything would return.
    #[getter]
    fn total_bytes(&self) -> u64 {
        self.order.iter().map(|index| self.bytes_of(*index)).sum()
    }

    /// What could not be found: an exception for each number in the list.
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let missing = PyDict::new(py);
        let failures: Vec<(usize, Failure)> =
            self.items().iter().enumerate().filter_map(|(index, item)| Some((index, item.as_ref().err()?.clone()))).collect();
        for (index, failure) in failures {
            missing.set_item(index, failure.raise(py))?;
        }
        Ok(missing)
    }

    /// Gaps of the catalogue that may hide newer versions than those found.
    fn doubts(&self) -> Option<String> {
        self.doubts.clone()
    }

    /// Identifiers of the versions that were read, in the order of the list; `None` for what was
    /// not found.
    fn version_ids(&self) -> Vec<Option<String>> {
        self.items().iter().map(|item| Some(item.as_ref().ok()?.version.id.to_string())).collect()
    }

    /// Numbers of the next items in read order, from `start` on: at least one, and as many as have
    /// at most `max_bytes`.
    fn batch(&self, start: usize, max_bytes: u64) -> Vec<usize> {
        let mut bytes = 0_u64;
        let rest = self.order.get(start..).unwrap_or_default();
        let fits = |(at, index): &(usize, &usize)| {
            bytes = bytes.saturating_add(self.bytes_of(**index));
            *at == 0 || bytes <= max_bytes
        };
        rest.iter().enumerate().take_while(fits).map(|(_, index)| *index).collect()
    }

    /// Reads items by their numbers. What was not found has no content. If the newest version of a
    /// name was replaced since it was looked up, its successor is read.
    fn read<'py>(&self, py: Python<'py>, numbers: Vec<usize>) -> PyResult<Content<'py>> {
        if !self.core.is_own() {
            return Err(PyValueError::new_err("a list can't be read on in a child process; begin again there"));
        }
        let Read { content, mut places, mut unread, mut repaired } = self.read_found(py, &numbers)?;
        // Of items that were replaced: their successors, each with where it is.
        let mut successors: HashMap<usize, (Bound<'py, PyBytes>, std::ops::Range<usize>)> = HashMap::new();
        for _ in 0..SUCCESSORS_MAX {
            let is_replaced = |number: &usize| self.found(*number).is_some_and(|item| item.is_newest);
            let removed = unread.iter().filter(|(_, why)| matches!(why, Unread::Removed)).map(|(number, _)| *number);
            let replaced: Vec<usize> = removed.filter(is_replaced).collect();
            if replaced.is_empty() {
                break;
            }
            replaced.iter().for_each(|number| drop((unread.remove(number), places.remove(number))));
            let failures = py.detach(|| self.find_successors(&replaced));
            unread.extend(failures.into_iter().map(|(number, failure)| (number, Unread::Failed(failure))));
            let read = self.read_found(py, &replaced)?;
            successors.extend(read.places.into_iter().map(|(number, place)| (number, (read.content.clone(), place))));
            unread.extend(read.unread);
            repaired += read.repaired;
        }
        let errors = PyDict::new(py);
        for (number, why) in unread {
            let failure = match why {
                Unread::Failed(failure) => failure,
                Unread::Removed => {
                    let item = self.found(number).expect("it was read");
                    // A newest version that is replaced again and again exists.
                    let class = if item.is_newest { Class::Unavailable } else { Class::NotFound };
                    Failure::new(class, ReadError::Removed).of(&item.version.record.name.display())
                }
            };
            errors.set_item(number, failure.raise(py))?;
        }
        let place_of = |number: &usize| match successors.get(number) {
            Some((content, place)) => Some((content, place.clone())),
            None => Some((&content, places.get(number)?.clone())),
        };
        let mut ends: Vec<u8> = 0_i64.to_ne_bytes().to_vec();
        let mut end = 0_usize;
        for number in &numbers {
            end += place_of(number).map_or(0, |(_, place)| place.len());
            ends.extend(i64::try_from(end).unwrap_or(i64::MAX).to_ne_bytes());
        }
        let ends = PyBytes::new(py, &ends);
        if successors.is_empty() && end == content.as_bytes().len() {
            return Ok((content, ends, errors, repaired));
        }
        let joined = PyBytes::new_with(py, end, |mut rest| {
            for (content, place) in numbers.iter().filter_map(place_of) {
                let out = rest.split_off_mut(..place.len()).expect("as long as all of them");
                out.copy_from_slice(&content.as_bytes()[place]);
            }
            Ok(())
        })?;
        Ok((joined, ends, errors, repaired))
    }
}
