//! The embedded catalogue engine: one SQLite file.
//!
//! SQLite's write-ahead log lets other processes read while one writes. Each change is one
//! transaction, which is on stable storage when the call returns. Every lookup uses a key or an
//! index; only [`Catalogue::check`] reads the rows of all versions.
//!
//! Names of removed objects must not stay in the file. SQLite overwrites deleted rows
//! (`secure_delete`), and after a deletion [`Catalogue::clear_log`] removes the log's copies of the
//! old pages. Traces can remain in two cases. While another connection reads from the log, the log
//! can't be truncated, and keeps the old pages until a later deletion or until the last connection
//! closes. And when SQLite split a page earlier and moved a row, it may not have cleared the old
//! place: a fragment of the name stays there until the page is rewritten. To remove every trace of
//! a name, run `catalogue rebuild`.

mod check;
mod counters;
pub(crate) mod engine_error;
mod extents;
mod listing;
mod put;
mod released;
mod row;
mod schema;
mod segment_ends;
mod sets;
#[cfg(test)]
mod tests;
mod unlisted;

use std::fs::OpenOptions;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use fulgurite_domain::{ArchiveId, ObjectName, PlatterId, SetId, VersionId};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use self::engine_error::EngineError;
pub(crate) use self::schema::set_cache;
use super::{
    ArchivedExtent, Catalogue, CatalogueError, Change, Extent, FoundVersion, Health, ListCursor, PlatterRow, SegmentEnd, SetDescription,
    SetRow, StagedCheck, StagedData, StagedHealth, StagedPlace, StagedTombstone, StagedTotals, Totals, UnlistedVersion, VersionRow,
    VersionRowId, Versions,
};
use crate::database::remove_database;
use crate::open_file::{InPlace, Keep, OpenFile, refuse_log_of_another};
use crate::pool::{self, Cache};
use crate::volume::sync_folder_of;

/// A catalogue in a SQLite file.
#[derive(Debug)]
pub struct SqliteCatalogue {
    connection: Connection,
    /// `None` if nothing is to be stored in it for long.
    in_place: Option<InPlace>,
    // The platters that `listing::gather_versions_on` gathered last.
    gathered: Option<Vec<PlatterId>>,
}

/// Upper bound on the memory of all connections to a catalogue, KiB, if up to `reading` threads
/// read at once.
pub(crate) const fn memory_max_kib(reading: u64) -> u64 {
    pool::memory_max_kib(schema::MAIN_KIB, schema::READER_KIB, schema::CONNECTION_KIB, reading)
}

impl SqliteCatalogue {
    /// Creates an empty catalogue.
    ///
    /// # Errors
    /// [`CatalogueError::Engine`] if the file exists or can't be written; then no new file is left.
    pub fn create(path: &Path, archive: ArchiveId) -> Result<Self, CatalogueError> {
        let action = "create its file";
        let io_error = |error: std::io::Error| CatalogueError::Engine { action, source: Box::new(error) };
        // Only the owner may read it: it contains the names of sealed objects.
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io_error)?;
        let make = || {
            let mut connection = Self::connect(path, true).map_err(|error| error.into_catalogue_error(action))?;
            schema::create(&mut connection, archive).map_err(|error| error.into_catalogue_error(action))?;
            sync_folder_of(path).map_err(io_error)?;
            Ok(Self { connection, in_place: None, gathered: None })
        };
        make().inspect_err(|_| _ = remove_database(path))
    }

    /// Opens a catalogue for reading and writing.
    ///
    /// # Errors
    /// [`CatalogueError::Damaged`], [`CatalogueError::Newer`], [`CatalogueError::OtherArchive`], or
    /// [`CatalogueError::Engine`] if the file does not exist or can't be read.
    pub fn open(path: &Path, archive: ArchiveId) -> Result<Self, CatalogueError> {
        let mut catalogue = Self::admit(path, archive, true)?;
        catalogue.in_place = Some(InPlace::of(path));
        Ok(catalogue)
    }

    /// Saves the content if the file is removed while it is open. The caller excludes other
    /// processes that may rightly do that.
    pub(crate) fn keep_in_place(&mut self) {
        if let Some(in_place) = &mut self.in_place {
            in_place.keep(Keep::Removed);
        }
    }

    /// The open file, if it is watched.
    pub(crate) fn open_file(&self) -> Option<OpenFile> {
        self.in_place.as_ref().map(|in_place| in_place.file().clone())
    }

    /// Opens a catalogue for reading, while another process may be writing.
    ///
    /// # Errors
    /// As [`SqliteCatalogue::open`].
    pub fn open_read_only(path: &Path, archive: ArchiveId) -> Result<Self, CatalogueError> {
        Self::admit(path, archive, false)
    }

    #[cfg(test)]
    pub(crate) fn cache_kib(&self) -> u64 {
        let size: i64 = self.connection.pragma_query_value(None, "cache_size", |row| row.get(0)).expect("a number");
        assert!(size < 0, "{size} pages");
        size.unsigned_abs()
    }

    /// Like [`open_read_only`](Self::open_read_only), but with the cache size of a pooled reader.
    pub(crate) fn open_reader(path: &Path, archive: ArchiveId, cache: Cache) -> Result<Self, CatalogueError> {
        let reader = Self::admit(path, archive, false)?;
        let set = schema::set_cache(&reader.connection, cache.kib(schema::READER_KIB));
        set.map_err(|error| EngineError::from(error).into_catalogue_error("open its file"))?;
        Ok(reader)
    }

    /// Opens a catalogue for reading without writing anything. No process may change it while it is
    /// open.
    pub(crate) fn open_without_writing(path: &Path, archive: ArchiveId) -> Result<Self, CatalogueError> {
        let open = || {
            let mut connection = crate::unwritable::connect(path)?;
            schema::prepare(&connection, false)?;
            schema::admit(&mut connection, archive, false)?;
            Ok(connection)
        };
        let connection = open().map_err(|error: EngineError| error.into_catalogue_error("open its file"))?;
        Ok(Self { connection, in_place: None, gathered: None })
    }

    fn admit(path: &Path, archive: ArchiveId, writes: bool) -> Result<Self, CatalogueError> {
        refuse_log_of_another(path)?;
        let open = || {
            let mut connection = Self::connect(path, writes)?;
            schema::admit(&mut connection, archive, writes)?;
            Ok(connection)
        };
        let connection = open().map_err(|error: EngineError| error.into_catalogue_error("open its file"))?;
        Ok(Self { connection, in_place: None, gathered: None })
    }

    fn connect(path: &Path, writes: bool) -> Result<Connection, EngineError> {
        let access = if writes { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        schema::prepare(&connection, writes)?;
        Ok(connection)
    }

    /// Runs one transaction that changes something. What is committed to a file without a name is
    /// lost with the process, so this fails unless the file is in place after the commit.
    fn change<T>(&mut self, action: &'static str, work: impl FnOnce(&Connection) -> Result<T, EngineError>) -> Result<T, CatalogueError> {
        // Also before, so that what is refused isn't there later.
        self.check_in_place()?;
        let changed = self.transaction(TransactionBehavior::Immediate, work).map_err(|error| error.into_catalogue_error(action))?;
        self.check_in_place()?;
        Ok(changed)
    }

    /// Runs a read-only transaction, so that all statements see the same snapshot.
    fn read<T>(&mut self, action: &'static str, work: impl FnOnce(&Connection) -> Result<T, EngineError>) -> Result<T, CatalogueError> {
        self.transaction(TransactionBehavior::Deferred, work).map_err(|error| error.into_catalogue_error(action))
    }

    /// Runs a single reading statement, which sees one snapshot without a transaction. Work with
    /// several needs [`Self::read`].
    fn look<T>(&mut self, action: &'static str, work: impl FnOnce(&Connection) -> Result<T, EngineError>) -> Result<T, CatalogueError> {
        work(&self.connection).map_err(|error| error.into_catalogue_error(action))
    }

    fn transaction<T>(
        &mut self,
        kind: TransactionBehavior,
        work: impl FnOnce(&Connection) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let transaction = self.connection.transaction_with_behavior(kind)?;
        let result = work(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Checkpoints the log into the file and truncates it. Returns `false` if another connection is
    /// reading from it.
    fn empty_log(&mut self) -> Result<bool, EngineError> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let busy: rusqlite::Result<i64> = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.connection.busy_timeout(schema::BUSY_TIMEOUT)?;
        Ok(busy? == 0)
    }
}

impl Drop for SqliteCatalogue {
    fn drop(&mut self) {
        // The last chance to save the content of a file that lost its name.
        let _ = self.check_in_place();
    }
}

impl Catalogue for SqliteCatalogue {
    fn check_in_place(&mut self) -> Result<(), CatalogueError> {
        match &mut self.in_place {
            Some(in_place) => Ok(in_place.check(&self.connection)?),
            None => Ok(()),
        }
    }

    fn latest_number(&mut self, name: &ObjectName) -> Result<Option<u64>, CatalogueError> {
        self.look("look up a name", |connection| {
            listing::latest_number(connection, name)?.map(|number| row::uint(number, "the number of a version")).transpose()
        })
    }

    fn commit(&mut self, change: &Change) -> Result<(), CatalogueError> {
        self.change("record a change", |connection| put::commit(connection, change))
    }

    fn clear_log(&mut self) -> Result<bool, CatalogueError> {
        self.empty_log().map_err(|error| error.into_catalogue_error("empty its log after a deletion"))
    }

    fn newest(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError> {
        self.look("look up a name", |connection| listing::newest_of(connection, name))
    }

    fn version(&mut self, name: &ObjectName, id: VersionId) -> Result<Option<VersionRow>, CatalogueError> {
        self.look("look up a version", |connection| listing::version(connection, name, id))
    }

    fn knows(&mut self, id: VersionId) -> Result<bool, CatalogueError> {
        self.look("look up a version", |connection| listing::knows(connection, id))
    }

    fn null_version(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError> {
        self.read("look up a null version", |connection| listing::null_version(connection, name))
    }

    fn versions_of(&mut self, name: &ObjectName) -> Result<Vec<VersionRow>, CatalogueError> {
        self.read("list the versions of a name", |connection| listing::versions_of(connection, name))
    }

    fn list(
        &mut self,
        prefix: &[u8],
        versions: Versions,
        after: Option<&ListCursor>,
        limit: usize,
    ) -> Result<Vec<VersionRow>, CatalogueError> {
        self.read("list names", |connection| listing::list(connection, prefix, versions, after, limit))
    }

    fn extents(&mut self, version: VersionRowId) -> Result<Vec<Extent>, CatalogueError> {
        self.look("find a version's extents", |connection| extents::of(connection, version))
    }

    fn staged(&mut self, version: VersionRowId) -> Result<Option<(StagedPlace, Vec<StagedData>)>, CatalogueError> {
        self.look("find a staged version", |connection| put::staged(connection, version))
    }

    fn staged_health(&mut self, version: VersionRowId) -> Result<Option<StagedHealth>, CatalogueError> {
        self.look("find the health of a staged version", |connection| put::staged_health(connection, version))
    }

    fn count_damaged_staged(&mut self) -> Result<u64, CatalogueError> {
        self.look("count the damaged staged versions", put::count_damaged_staged)
    }

    fn record_staged(&mut self, checks: &[StagedCheck]) -> Result<(), CatalogueError> {
        self.change("record the health of staged versions", |connection| put::record_staged(connection, checks))
    }

    fn versions_on(&mut self, platters: &[PlatterId], after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError> {
        let gathered = after.is_some() && self.gathered.as_deref() == Some(platters);
        self.gathered = None;
        let page = self.read("list the versions on a platter", |connection| {
            if !gathered {
                listing::gather_versions_on(connection, platters)?;
            }
            listing::versions_on_page(connection, after, limit)
        })?;
        self.gathered = Some(platters.to_vec());
        Ok(page)
    }

    fn staged_totals(&mut self) -> Result<StagedTotals, CatalogueError> {
        self.read("count staged versions", |connection| counters::Counters::read(connection)?.staged_totals(connection))
    }

    fn totals(&mut self) -> Result<Totals, CatalogueError> {
        self.read("compute its totals", |connection| counters::Counters::read(connection)?.totals(connection))
    }

    fn staged_versions(&mut self, after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError> {
        self.read("list what is staged", |connection| listing::staged_versions(connection, after, limit))
    }

    fn staged_tombstones(&mut self) -> Result<Vec<StagedTombstone>, CatalogueError> {
        self.look("list tombstones", put::tombstones)
    }

    fn unwritten_tombstones(&mut self) -> Result<Vec<VersionId>, CatalogueError> {
        self.look("list tombstones that are on no platter", put::unwritten_tombstones)
    }

    fn segments_in_use(&mut self) -> Result<Vec<u64>, CatalogueError> {
        self.look("list segments", |connection| {
            counters::segments(connection)?.into_iter().map(|(number, _)| row::uint(number, "the number of a segment")).collect()
        })
    }

    fn segment_ends(&mut self) -> Result<Vec<SegmentEnd>, CatalogueError> {
        self.look("list segments", segment_ends::list)
    }

    fn note_released(&mut self, segments: &[RangeInclusive<u64>]) -> Result<(), CatalogueError> {
        self.change("record released segments", |connection| released::note(connection, segments))
    }

    fn released(&mut self, from: u64, limit: usize) -> Result<Vec<RangeInclusive<u64>>, CatalogueError> {
        self.look("list released segments", |connection| released::page(connection, from, limit))
    }

    fn last_released(&mut self) -> Result<Option<u64>, CatalogueError> {
        self.look("find the last released segment", released::last)
    }

    fn begin_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError> {
        self.change("record a new set", |connection| sets::begin(connection, set))
    }

    fn complete_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>, verified: u64) -> Result<(), CatalogueError> {
        self.change("record that a set is complete", |connection| sets::complete(connection, set, extents, verified))
    }

    fn archive_on_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>) -> Result<(), CatalogueError> {
        self.change("record what is on a set", |connection| sets::archive_on(connection, set, extents))
    }

    fn archive_tombstones(&mut self, tombstones: &[VersionId], set: SetId) -> Result<(), CatalogueError> {
        self.change("archive tombstones", |connection| put::archive_tombstones(connection, tombstones, set))
    }

    fn adopt_archived_tombstones(&mut self, tombstones: &[(VersionId, SetId)]) -> Result<(), CatalogueError> {
        self.change("adopt archived tombstones", |connection| put::adopt_archived_tombstones(connection, tombstones))
    }

    fn archived_tombstones(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, SetId)>, CatalogueError> {
        self.look("list archived tombstones", |connection| put::archived_tombstones(connection, after, limit))
    }

    fn is_removed(&mut self, id: VersionId) -> Result<bool, CatalogueError> {
        self.look("look up a tombstone", |connection| put::is_removed(connection, id))
    }

    fn newest_id(&mut self) -> Result<Option<VersionId>, CatalogueError> {
        self.look("find the newest version", listing::newest_id)
    }

    fn newest_row(&mut self) -> Result<Option<VersionRowId>, CatalogueError> {
        self.look("find the newest row", |connection| {
            let newest: Option<i64> = connection.query_row("SELECT max(version) FROM version", [], |row| row.get(0))?;
            Ok(newest.map(VersionRowId))
        })
    }

    fn abandon_set(&mut self, set: SetId) -> Result<(), CatalogueError> {
        self.change("abandon a set", |connection| sets::abandon(connection, set))
    }

    fn forget_set(&mut self, set: SetId) -> Result<bool, CatalogueError> {
        self.change("forget a set", |connection| sets::forget(connection, set))
    }

    fn sets(&mut self) -> Result<Vec<SetRow>, CatalogueError> {
        self.read("list sets", sets::sets)
    }

    fn set_of(&mut self, platter: PlatterId) -> Result<Option<SetRow>, CatalogueError> {
        self.read("find a platter's set", |connection| sets::set_of(connection, platter))
    }

    fn platters(&mut self) -> Result<Vec<PlatterRow>, CatalogueError> {
        self.read("list platters", sets::platters)
    }

    fn platters_of(&mut self, set: SetId) -> Result<Vec<PlatterRow>, CatalogueError> {
        self.read("list the platters of a set", |connection| sets::platters_of_set(connection, set))
    }

    fn record_health(&mut self, platter: PlatterId, health: Health) -> Result<(), CatalogueError> {
        self.change("record a platter's health", |connection| sets::change_platter(connection, platter, |_, known| *known = health))
    }

    fn move_platter(&mut self, platter: PlatterId, store: &str) -> Result<(), CatalogueError> {
        self.change("record that a platter has moved", |connection| {
            sets::change_platter(connection, platter, |place, _| place.store = store.to_owned())
        })
    }

    fn adopt_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError> {
        self.change("adopt a set", |connection| sets::adopt(connection, set))
    }

    fn adopt_versions(&mut self, versions: &[FoundVersion]) -> Result<(), CatalogueError> {
        self.change("adopt versions", |connection| put::adopt(connection, versions))
    }

    fn adopt_unlisted(&mut self, versions: &[UnlistedVersion]) -> Result<(), CatalogueError> {
        self.change("record unlisted versions", |connection| unlisted::adopt(connection, versions))
    }

    fn unlisted(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<UnlistedVersion>, CatalogueError> {
        self.read("list unlisted versions", |connection| unlisted::page(connection, after, limit))
    }

    fn unlisted_count(&mut self) -> Result<u64, CatalogueError> {
        self.look("count unlisted versions", unlisted::count)
    }

    fn forget_unlisted(&mut self, versions: &[VersionId], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError> {
        self.change("forget unlisted versions", |connection| unlisted::forget(connection, versions, tombstones))
    }

    fn leave_out(&mut self, platters: &[PlatterId]) -> Result<(), CatalogueError> {
        self.change("record platters that are left out", |connection| unlisted::leave_out(connection, platters))
    }

    fn is_left_out(&mut self, platter: PlatterId) -> Result<bool, CatalogueError> {
        self.look("look up a platter", |connection| unlisted::is_left_out(connection, platter))
    }

    fn note_staging_mark(&mut self) -> Result<(), CatalogueError> {
        self.change("record the mark of staging", |connection| {
            connection.execute("INSERT INTO staging_mark (one) VALUES (1) ON CONFLICT DO NOTHING", [])?;
            Ok(())
        })
    }

    fn is_staging_marked(&mut self) -> Result<bool, CatalogueError> {
        self.look("look up the mark of staging", |connection| {
            Ok(connection.query_row("SELECT EXISTS (SELECT 1 FROM staging_mark)", [], |row| row.get(0))?)
        })
    }

    fn check(&mut self) -> Result<(), CatalogueError> {
        self.read("check itself", check::check)
    }
}
