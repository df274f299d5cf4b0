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
    /// The object's name.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        name::to_python(py, &self.0.record.name)
    }

    /// The number of the version under its name, from 1.
    #[getter]
    fn version(&self) -> u64 {
        self.0.record.version
    }

    /// The version's identifier: 32 hexadecimal digits.
    #[getter]
    fn version_id(&self) -> String {
        self.0.id.to_string()
    }

    /// `file`, `link`, `folder` (without content) or `deletion-marker`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.record.kind {
            Kind::File => "file",
            Kind::SymbolicLink => "link",
            Kind::Directory => "folder",
            Kind::DeletionMarker => "deletion-marker",
        }
    }

    /// Length of the content in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.0.record.size
    }

    /// SHA-256 of the content, in hexadecimal digits.
    #[getter]
    fn sha256(&self) -> String {
        self.0.record.sha256.to_string()
    }

    /// When the file was last modified, in UTC; None if that isn't known, or beyond `datetime`.
    #[getter]
    fn modified(&self) -> Option<SystemTime> {
        let modified = self.0.record.modified.filter(|modified| DATES.contains(&modified.seconds))?;
        let whole = Duration::from_secs(modified.seconds.unsigned_abs());
        let second = if modified.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        second?.checked_add(Duration::from_nanos(modified.nanoseconds.into()))
    }

    /// When the version was stored, in UTC.
    #[getter]
    fn created(&self) -> Option<SystemTime> {
        let created = Duration::from_millis(self.0.record.created_ms);
        UNIX_EPOCH.checked_add(created).filter(|_| created.as_secs() < DATES.end as u64)
    }

    /// Permission bits, if known.
    #[getter]
    fn mode(&self) -> Option<u32> {
        self.0.record.mode
    }

    /// True if it is on verified platters, false if it is in staging.
    #[getter]
    fn archived(&self) -> bool {
        self.0.archived
    }

    /// Whether it is encrypted.
    #[getter]
    fn encrypted(&self) -> bool {
        self.0.sealed
    }

    /// Metadata stored by the client.
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
