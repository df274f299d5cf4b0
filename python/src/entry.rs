//! A version of an object, as listed.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_domain::Kind;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::name;

/// Seconds since 1970 of the years 1 to 9999, which are those that `datetime` can represent.
const DATES: std::ops::Range<i64> = -62_135_596_800..253_402_300_800;

/// A version of an object.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct Entry(pub(crate) VersionRow);

#[pymethods]
impl Entry {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        name::to_python(py, &self.0.record.name)
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.record.version
    }

    #[getter]
    fn version_id(&self) -> String {
        self.0.id.to_string()
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.record.kind {
            Kind::File => "file",
            Kind::SymbolicLink => "link",
            Kind::Directory => "folder",
            Kind::DeletionMarker => "deletion-marker",
        }
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.record.size
    }

    #[getter]
    fn sha256(&self) -> String {
        self.0.record.sha256.to_string()
    }

    #[getter]
    fn modified(&self) -> Option<SystemTime> {
        let modified = self.0.record.modified.filter(|modified| DATES.contains(&modified.seconds))?;
        let whole = Duration::from_secs(modified.seconds.unsigned_abs());
        let second = if modified.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        second?.checked_add(Duration::from_nanos(modified.nanoseconds.into()))
    }

    #[getter]
    fn created(&self) -> Option<SystemTime> {
        let created = Duration::from_millis(self.0.record.created_ms);
        UNIX_EPOCH.checked_add(created).filter(|_| created.as_secs() < DATES.end as u64)
    }

    #[getter]
    fn mode(&self) -> Option<u32> {
        self.0.record.mode
    }

    #[getter]
    fn archived(&self) -> bool {
        self.0.archived
    }

    #[getter]
    fn encrypted(&self) -> bool {
        self.0.sealed
    }

    #[getter]
    fn attributes(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.record.attributes.0.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn __repr__(&self) -> String {
        let record = &self.0.record;
        format!("<Entry {} version {}, {} bytes>", record.name.display(), record.version, record.size)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }

    fn __hash__(&self) -> u64 {
        self.0.id.0.iter().fold(0, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)))
    }
}
