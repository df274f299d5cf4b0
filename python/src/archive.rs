//! An archive, open for reading.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fulgurite_archive::catalogue::{ListCursor, VersionRow, Versions};
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use fulgurite_archive::paging::Paged;
use fulgurite_archive::reserved::is_reserved;
use fulgurite_archive::{CatalogueGaps, UnseenPlace};
use fulgurite_domain::{ArchiveId, ObjectName, VersionId};
use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::entry::Entry;
use crate::errors::{Class, Failure};
use crate::name;
use crate::of_process::OfProcess;
use crate::open_archive::{OpenArchive, open};
use crate::selection::{Range, Selection};

type Core = fulgurite_archive::Archive;

/// Content that is read between two looks for signals such as Ctrl-C.
const SIGNAL_BYTES: usize = 64 << 20;

/// An archive in a folder. Only reads.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct Archive {
    home: PathBuf,
    /// The identifier at the first opening. Another archive in its place is an error.
    id: ArchiveId,
    /// `None` once closed.
    open: Mutex<Option<Arc<OfProcess<OpenArchive>>>>,
}

impl Archive {
    /// The open archive. Opened again if its databases were replaced.
    fn core(&self, py: Python<'_>) -> PyResult<Arc<OfProcess<OpenArchive>>> {
        self.core_if_open(py)?.ok_or_else(|| PyValueError::new_err("the archive is closed"))
    }

    fn core_if_open(&self, py: Python<'_>) -> PyResult<Option<Arc<OfProcess<OpenArchive>>>> {
        let current = || self.open.lock().expect("nothing panics while it holds this lock");
        match &*current() {
            None => return Ok(None),
            Some(open) if open.is_own() && open.is_current(&self.home) => return Ok(Some(open.clone())),
            Some(_) => {}
        }
        let opened = py.detach(|| open(&self.home)).map_err(|failure| failure.raise(py))?;
        if opened.id() != self.id {
            let (home, found, expected) = (self.home.display(), opened.id(), self.id);
            py.detach(|| drop(opened));
            let why = format!("another archive is now in {home}: expected {expected}, found {found}");
            return Err(Failure::new(Class::Other, why).raise(py));
        }
        let mut open = current();
        // Another thread may have closed it meanwhile.
        let before = open.as_mut().map(|open| std::mem::replace(open, opened.clone()));
        drop(open);
        py.detach(|| drop(before));
        Ok(Some(opened))
    }
}

/// A place in a list. It keeps the archive open, so that a list goes on after `close`.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct Cursor {
    core: Arc<OfProcess<OpenArchive>>,
    at: ListCursor,
}

/// An open version of an object. It keeps the archive open in which it was found.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct OpenObject {
    core: Arc<OfProcess<OpenArchive>>,
    opened: Opened,
}

#[pymethods]
impl Archive {
    #[new]
    fn new(py: Python<'_>, home: PathBuf) -> PyResult<Self> {
        if home.as_os_str().is_empty() {
            return Err(PyValueError::new_err("the archive's folder is an empty string"));
        }
        let home = std::path::absolute(&home)?;
        let opened = py.detach(|| open(&home)).map_err(|failure| failure.raise(py))?;
        Ok(Self { home, id: opened.id(), open: Mutex::new(Some(opened)) })
    }

    #[getter]
    fn home(&self) -> PathBuf {
        self.home.clone()
    }

    #[getter]
    fn id(&self, py: Python<'_>) -> PyResult<String> {
        // Fails if the archive is closed or was replaced.
        Ok(self.core(py)?.id().to_string())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.open.lock().expect("nothing panics while it holds this lock").is_none()
    }

    fn close(&self, py: Python<'_>) {
        let open = self.open.lock().expect("nothing panics while it holds this lock").take();
        py.detach(|| drop(open));
    }

    /// What the catalogue may not list although it exists; `None` if it is complete.
    fn gaps(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let core = self.core(py)?;
        py.detach(|| gaps(&core)).map_err(|failure| failure.raise(py))
    }

    /// The version of a name with this identifier, or the newest.
    #[pyo3(signature = (name, version_id=None))]
    fn info(&self, py: Python<'_>, name: &Bound<'_, PyAny>, version_id: Option<&str>) -> PyResult<Entry> {
        let core = self.core(py)?;
        let name = name::from_python(name)?;
        let id = version_id.map(|id| version(id, &name)).transpose().map_err(|failure| failure.raise(py))?;
        let found = py.detach(|| find(&core, &[(name, id)]));
        found.into_iter().next().expect("a result for each").map(Entry).map_err(|failure| failure.raise(py))
    }

    /// The gaps of the catalogue that may hide a newer version of the entry's name.
    fn doubts(&self, py: Python<'_>, entry: &Entry) -> PyResult<Option<String>> {
        let core = self.core(py)?;
        py.detach(|| doubts(&core, [&entry.0].into_iter())).map_err(|failure| failure.raise(py))
    }

    /// The versions of a name, newest first, deletion markers included.
    fn versions(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyResult<Vec<Entry>> {
        let core = self.core(py)?;
        let name = name::from_python(name)?;
        let rows = py.detach(|| core.reading().versions_of(&name)).map_err(|error| Failure::new(Class::Other, error).raise(py))?;
        Ok(rows.into_iter().map(Entry).collect())
    }

    /// A page of the names that begin with `prefix`, after the cursor `after`; and the cursor of
    /// the next page, if there is one. With `folders`, all names with a slash after the prefix are
    /// one entry: the beginning up to the slash, as `str`.
    #[pyo3(signature = (prefix, all_versions, folders, after, limit))]
    fn page<'py>(
        &self,
        py: Python<'py>,
        prefix: &Bound<'py, PyAny>,
        all_versions: bool,
        folders: bool,
        after: Option<&Cursor>,
        limit: usize,
    ) -> PyResult<(Vec<Bound<'py, PyAny>>, Option<Cursor>)> {
        let core = match (self.core_if_open(py)?, after) {
            (Some(core), _) => core,
            (None, Some(cursor)) if cursor.core.is_own() => cursor.core.clone(),
            (None, _) => return Err(PyValueError::new_err("the archive is closed")),
        };
        let prefix = name::from_python(prefix)?;
        let versions = if all_versions { Versions::All } else { Versions::Newest };
        let rows = py.detach(|| core.reading().list(&prefix.0, versions, after.map(|cursor| &cursor.at), limit));
        let rows: Vec<VersionRow> = rows.map_err(|error| Failure::new(Class::Other, error).raise(py))?;
        let mut next = rows.last().filter(|_| rows.len() == limit).map(VersionRow::cursor);
        let (mut entries, mut folder) = (Vec::with_capacity(rows.len()), None);
        for row in rows {
            let rest = row.record.name.0.strip_prefix(&prefix.0[..]).unwrap_or_default();
            if prefix.0.is_empty() && is_reserved(&row.record.name) {
                continue;
            }
            match rest.iter().position(|byte| *byte == b'/').filter(|_| folders) {
                None => entries.push(Entry(row).into_pyobject(py)?.into_any()),
                Some(slash) => {
                    let named = ObjectName(row.record.name.0[..=prefix.0.len() + slash].to_vec());
                    if folder.as_ref() != Some(&named) {
                        entries.push(name::to_python(py, &named)?.into_any());
                        folder = Some(named);
                    }
                }
            }
        }
        // What else is in the last folder is skipped.
        if let (Some(at), Some(folder)) = (&next, folder)
            && at.name.0.starts_with(&folder.0)
        {
            next = ListCursor::after_prefix(&folder.0);
        }
        Ok((entries, next.map(|at| Cursor { core, at })))
    }

    /// The content of a version from `start` to `end`. `None` if the version was replaced or
    /// removed since it was looked up.
    fn read<'py>(&self, py: Python<'py>, entry: &Entry, start: u64, end: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let core = self.core(py)?;
        match content(py, &entry.0, start..end, |range, sink| {
            let mut reader = ObjectReader::new(&core).sharing_platters();
            match range == (0..entry.0.record.size) {
                true => reader.read(&entry.0, sink),
                false => reader.read_range(&entry.0, range, sink),
            }
        }) {
            Err(Unread::Failed(ReadError::Removed)) => Ok(None),
            read => read.map(Some).map_err(|why| why.raise(py, &entry.0)),
        }
    }

    /// Opens a version: it can be read even if it is replaced or removed meanwhile. `None` if it
    /// was before.
    fn open(&self, py: Python<'_>, entry: &Entry) -> PyResult<Option<OpenObject>> {
        let core = self.core(py)?;
        match py.detach(|| ObjectReader::new(&core).open(&entry.0)) {
            Ok(opened) => Ok(Some(OpenObject { core, opened })),
            Err(ReadError::Removed) => Ok(None),
            Err(error) => Err(Unread::Failed(error).raise(py, &entry.0)),
        }
    }

    /// The content of an open version from `start` to `end`.
    fn read_open<'py>(&self, py: Python<'py>, object: &OpenObject, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        // Fails if the archive is closed or was replaced.
        let current = self.core(py)?;
        let version = object.opened.version();
        let read = content(py, version, start..end, |range, sink| read_opened(&object.core, &object.opened, range, sink));
        let read = match read {
            // A rebuild has replaced the catalogue since, and the new one may know more.
            Err(Unread::Failed(_)) if !Arc::ptr_eq(&object.core, &current) => content(py, version, start..end, |range, sink| {
                let found = current.reading().version(&version.record.name, version.id).map_err(fulgurite_archive::ArchiveError::from)?;
                let opened = ObjectReader::new(&current).open(&found.ok_or(ReadError::Removed)?)?;
                read_opened(&current, &opened, range, sink)
            }),
            read => read,
        };
        read.map_err(|why| match why {
            Unread::Failed(error @ ReadError::Removed) => {
                Failure::new(Class::Unavailable, error).of(&version.record.name.display()).raise(py)
            }
            why => why.raise(py, version),
        })
    }

    /// Looks up what to read: names, identifiers of versions (`None` for the newest), and ranges
    /// (`None` for all).
    fn select(
        &self,
        py: Python<'_>,
        names: Vec<Bound<'_, PyAny>>,
        version_ids: Option<Vec<Option<String>>>,
        ranges: Option<Vec<Range>>,
    ) -> PyResult<Selection> {
        let core = self.core(py)?;
        let mut wanted = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let id = version_ids.as_ref().and_then(|ids| ids.get(index)?.as_deref());
            wanted.push(asked_for(name, id)?);
        }
        py.detach(|| {
            let known: Vec<(ObjectName, Option<VersionId>)> = wanted.iter().flatten().cloned().collect();
            let found = find(&core, &known);
            let newest = known.iter().zip(&found).filter(|((_, id), _)| id.is_none()).filter_map(|(_, row)| row.as_ref().ok());
            let doubts = doubts(&core, newest)?;
            let asks_for_newest = wanted.iter().map(|one| matches!(one, Ok((_, None)))).collect();
            let mut found = found.into_iter();
            let rows = wanted.into_iter().map(|one| one.and_then(|_| found.next().expect("one for each name"))).collect();
            Ok(Selection::new(core, rows, asks_for_newest, doubts, ranges))
        })
        .map_err(|failure: Failure| failure.raise(py))
    }
}

/// A name and the identifier of a version. An entry of a list that can't be one fails alone.
fn asked_for(name: &Bound<'_, PyAny>, id: Option<&str>) -> PyResult<Result<(ObjectName, Option<VersionId>), Failure>> {
    let name = match name::from_python(name) {
        Ok(name) => name,
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(name.py()) => {
            return Ok(Err(Failure::new(Class::NotFound, format!("{}: no name", name.repr()?))));
        }
        Err(error) => return Err(error),
    };
    Ok(id.map(|id| version(id, &name)).transpose().map(|id| (name, id)))
}

/// The identifier of a version. No version has one that is malformed.
fn version(id: &str, name: &ObjectName) -> Result<VersionId, Failure> {
    let malformed = |_| Failure::new(Class::NotFound, format!("{id:?} is not the identifier of a version")).of(&name.display());
    id.parse().map_err(malformed)
}

/// Looks up names. If the catalogue has gaps, what it doesn't list isn't said to be absent.
pub(crate) fn find(core: &Core, wanted: &[(ObjectName, Option<VersionId>)]) -> Vec<Result<VersionRow, Failure>> {
    let mut known_gaps = None;
    let found = core.find_many(wanted).into_iter().zip(wanted);
    let explain = |(result, (name, _)): (Result<VersionRow, _>, &(ObjectName, _))| {
        result.map_err(|error| {
            let failure = Failure::from(error).of(&name.display());
            let is_absent = failure.class == Class::NotFound;
            let gaps = is_absent.then(|| known_gaps.get_or_insert_with(|| gaps(core)));
            match gaps {
                Some(Ok(Some(gaps))) => {
                    Failure::new(Class::NotListed, format!("{}, but the catalogue is incomplete: {gaps}", failure.message))
                }
                Some(Err(error)) => error.clone(),
                Some(Ok(None)) | None => failure,
            }
        })
    };
    found.map(explain).collect()
}

/// The gaps of the catalogue that may hide newer versions than these, which are the newest listed.
fn doubts<'a>(core: &Core, newest: impl Iterator<Item = &'a VersionRow>) -> Result<Option<String>, Failure> {
    if core.reading().unlisted_count().map_err(fulgurite_archive::ArchiveError::from)? == 0 {
        return Ok(None);
    }
    let listed: HashMap<&ObjectName, u64> = newest.map(|row| (&row.record.name, row.record.version)).collect();
    let is_newer = |name: &ObjectName, number| listed.get(name).is_some_and(|listed| *listed < number);
    Ok(text_of(&CatalogueGaps::find(core, &is_newer)?))
}

fn gaps(core: &Core) -> Result<Option<String>, Failure> {
    Ok(text_of(&CatalogueGaps::find(core, &|_, _| true)?))
}

fn text_of(gaps: &CatalogueGaps) -> Option<String> {
    let mut parts = Vec::new();
    if gaps.unlisted > 0 {
        parts.push(format!("{} versions can't be listed; `fulgurite verify` says why", gaps.unlisted));
    }
    if !gaps.unseen.is_empty() {
        let places: Vec<String> = gaps.unseen.iter().map(UnseenPlace::to_string).collect();
        parts.push(format!("the last rebuild of the catalogue did not see {}", places.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Why content was not read.
enum Unread {
    /// A signal handler has raised this, such as `KeyboardInterrupt`.
    Signal(PyErr),
    Failed(ReadError),
}

impl Unread {
    fn raise(self, py: Python<'_>, version: &VersionRow) -> PyErr {
        match self {
            Self::Signal(error) => error,
            Self::Failed(error) => Failure::from(error).of(&version.record.name.display()).raise(py),
        }
    }
}

type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> std::io::Result<()>;

/// Reads a range of a version into memory: `read` passes it to a sink, without the interpreter's
/// lock.
fn content<'py>(
    py: Python<'py>,
    version: &VersionRow,
    range: std::ops::Range<u64>,
    read: impl FnOnce(std::ops::Range<u64>, Sink<'_>) -> Result<(), ReadError> + Send,
) -> Result<Bound<'py, PyBytes>, Unread> {
    let end = range.end.min(version.record.size);
    let start = range.start.min(end);
    let length = usize::try_from(end - start).map_err(|_| Unread::Signal(PyValueError::new_err("larger than the address space")))?;
    let mut unread = None;
    let content = PyBytes::new_with(py, length, |out| {
        let (mut filled, mut unchecked, mut signal) = (0, 0, None);
        let done = py.detach(|| {
            read(start..end, &mut |bytes| {
                out[filled..][..bytes.len()].copy_from_slice(bytes);
                filled += bytes.len();
                unchecked += bytes.len();
                if unchecked >= SIGNAL_BYTES {
                    unchecked = 0;
                    Python::attach(|py| py.check_signals()).map_err(|error| {
                        signal = Some(error);
                        std::io::Error::from(std::io::ErrorKind::Interrupted)
                    })?;
                }
                Ok(())
            })
        });
        unread = match (done, signal) {
            (_, Some(signal)) => Some(Unread::Signal(signal)),
            (Err(error), None) => Some(Unread::Failed(error)),
            (Ok(()), None) => None,
        };
        Ok(())
    });
    match unread {
        Some(unread) => Err(unread),
        None => content.map_err(Unread::Signal),
    }
}

fn read_opened(core: &Core, opened: &Opened, range: std::ops::Range<u64>, sink: Sink<'_>) -> Result<(), ReadError> {
    let mut reader = ObjectReader::new(core).sharing_platters();
    reader.read_opened(opened, range, &mut |buffer, pieces| pieces.iter().try_for_each(|piece| sink(&buffer[piece.clone()])))
}
