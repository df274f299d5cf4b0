//! What a list of names selects, to be read in the order of the medium.

use std::sync::Arc;

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_archive::many::ReadInto;
use fulgurite_archive::read_order::MediumPosition;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::Failure;
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
    /// In the order of the list.
    items: Vec<Result<Item, Failure>>,
    /// Gaps of the catalogue that may hide newer versions than those found.
    doubts: Option<String>,
    /// Numbers of the items that were found, in read order.
    order: Vec<usize>,
}

struct Item {
    version: VersionRow,
    start: u64,
    end: u64,
    position: MediumPosition,
}

impl Selection {
    pub(crate) fn new(
        core: Arc<OfProcess<OpenArchive>>,
        rows: Vec<Result<VersionRow, Failure>>,
        doubts: Option<String>,
        ranges: Option<Vec<Range>>,
    ) -> Self {
        let placed: Vec<_> = core.place_many(&rows.iter().filter_map(|row| row.as_ref().ok()).collect::<Vec<_>>());
        let mut placed = placed.into_iter();
        let item = |(index, row): (usize, Result<VersionRow, Failure>)| {
            let version = row?;
            let position = placed.next().expect("each found version has a place")?;
            let size = version.record.size;
            let (start, end) = ranges.as_ref().and_then(|ranges| *ranges.get(index)?).unwrap_or((0, None));
            let end = end.unwrap_or(size).min(size);
            let start = start.min(end);
            Ok(Item { version, start, end, position })
        };
        let items: Vec<Result<Item, Failure>> = rows.into_iter().enumerate().map(item).collect();
        let mut order: Vec<usize> = (0..items.len()).filter(|index| items[*index].is_ok()).collect();
        order.sort_by_key(|index| items[*index].as_ref().ok().map(|item| (item.position, *index)));
        Self { core, items, doubts, order }
    }

    fn found(&self, index: usize) -> Option<&Item> {
        self.items.get(index)?.as_ref().ok()
    }

    fn bytes_of(&self, index: usize) -> u64 {
        self.found(index).map_or(0, |item| item.end - item.start)
    }
}

#[pymethods]
impl Selection {
    fn __len__(&self) -> usize {
        self.items.len()
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
        for (index, item) in self.items.iter().enumerate() {
            if let Err(failure) = item {
                missing.set_item(index, failure.clone().raise(py))?;
            }
        }
        Ok(missing)
    }

    /// Gaps of the catalogue that may hide newer versions than those found.
    fn doubts(&self) -> Option<String> {
        self.doubts.clone()
    }

    /// Identifiers of the versions, in the order of the list; `None` for what was not found.
    fn version_ids(&self) -> Vec<Option<String>> {
        self.items.iter().map(|item| Some(item.as_ref().ok()?.version.id.to_string())).collect()
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

    /// Reads items by their numbers. What was not found has no content.
    fn read<'py>(&self, py: Python<'py>, numbers: Vec<usize>) -> PyResult<Content<'py>> {
        if !self.core.is_own() {
            return Err(PyValueError::new_err("a list can't be read on in a child process; begin again there"));
        }
        let mut ends: Vec<u8> = 0_i64.to_ne_bytes().to_vec();
        let mut end = 0_u64;
        for number in &numbers {
            end = end.saturating_add(self.bytes_of(*number));
            ends.extend(i64::try_from(end).unwrap_or(i64::MAX).to_ne_bytes());
        }
        let errors = PyDict::new(py);
        let mut repaired = 0;
        let length = usize::try_from(end).unwrap_or(usize::MAX);
        let content = PyBytes::new_with(py, length, |mut rest| {
            let mut reads: Vec<(usize, ReadInto<'_>)> = Vec::with_capacity(numbers.len());
            for number in &numbers {
                let Some(item) = self.found(*number) else { continue };
                let out = rest.split_off_mut(..self.bytes_of(*number) as usize).expect("as long as all of them");
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
                let (results, repairs) = py.detach(|| self.core.read_many(now));
                repaired += repairs.tracks();
                for (number, result) in numbers.into_iter().zip(results) {
                    if let (Err(error), Some(item)) = (result, self.found(number)) {
                        errors.set_item(number, Failure::from(error).of(&item.version.record.name.display()).raise(py))?;
                    }
                }
                py.check_signals()?;
            }
            Ok(())
        })?;
        Ok((content, PyBytes::new(py, &ends), errors, repaired))
    }
}
