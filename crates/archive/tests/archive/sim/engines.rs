//! A faulty catalogue and key store. Every change takes two steps of the simulated world: one
//! before the change, when nothing has happened, and one after it, when it is durable but the
//! caller doesn't learn that.
//!
//! The real engines run on real files. Crashes within a transaction are left to SQLite's own tests.

use std::ops::RangeInclusive;
use std::sync::Arc;

use fulgurite_archive::catalogue::{
    ArchivedExtent, Catalogue, CatalogueError, Change, Extent, FoundVersion, Health, ListCursor, PlatterRow, SegmentEnd, SetDescription,
    SetRow, SqliteCatalogue, StagedCheck, StagedData, StagedHealth, StagedPlace, StagedTombstone, StagedTotals, Totals, UnlistedVersion,
    VersionRow, VersionRowId, Versions,
};
use fulgurite_archive::keystore::{KeyStore, KeyStoreError, SqliteKeyStore};
use fulgurite_domain::{ObjectName, PlatterId, SetId, VersionId};
use fulgurite_format::WrappedKey;

use super::world::World;

pub struct FaultyCatalogue {
    pub world: Arc<World>,
    pub engine: SqliteCatalogue,
}

impl FaultyCatalogue {
    fn change<T>(
        &mut self,
        action: &'static str,
        change: impl FnOnce(&mut SqliteCatalogue) -> Result<T, CatalogueError>,
    ) -> Result<T, CatalogueError> {
        let fault = |source| CatalogueError::Engine { action, source: Box::new(source) };
        let _gate = self.world.gate();
        self.world.step_in_gate(action).map_err(fault)?;
        let result = change(&mut self.engine)?;
        self.world.step_in_gate("learn that the catalogue is changed").map_err(fault)?;
        Ok(result)
    }
}

impl Catalogue for FaultyCatalogue {
    fn latest_number(&mut self, name: &ObjectName) -> Result<Option<u64>, CatalogueError> {
        self.engine.latest_number(name)
    }
    fn commit(&mut self, change: &Change) -> Result<(), CatalogueError> {
        self.change("commit", |engine| engine.commit(change))
    }
    fn clear_log(&mut self) -> Result<bool, CatalogueError> {
        self.change("clear_log", |engine| engine.clear_log())
    }
    fn commit_delete(&mut self, versions: &[VersionRowId], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError> {
        self.change("commit_delete", |engine| engine.commit_delete(versions, tombstones))
    }
    fn newest(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError> {
        self.engine.newest(name)
    }
    fn version(&mut self, name: &ObjectName, id: VersionId) -> Result<Option<VersionRow>, CatalogueError> {
        self.engine.version(name, id)
    }
    fn knows(&mut self, id: VersionId) -> Result<bool, CatalogueError> {
        self.engine.knows(id)
    }
    fn null_version(&mut self, name: &ObjectName) -> Result<Option<VersionRow>, CatalogueError> {
        self.engine.null_version(name)
    }
    fn versions_of(&mut self, name: &ObjectName) -> Result<Vec<VersionRow>, CatalogueError> {
        self.engine.versions_of(name)
    }
    fn list(
        &mut self,
        prefix: &[u8],
        versions: Versions,
        after: Option<&ListCursor>,
        limit: usize,
    ) -> Result<Vec<VersionRow>, CatalogueError> {
        self.engine.list(prefix, versions, after, limit)
    }
    fn extents(&mut self, version: VersionRowId) -> Result<Vec<Extent>, CatalogueError> {
        self.engine.extents(version)
    }
    fn staged(&mut self, version: VersionRowId) -> Result<Option<(StagedPlace, Vec<StagedData>)>, CatalogueError> {
        self.engine.staged(version)
    }
    fn versions_on(&mut self, platters: &[PlatterId], after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError> {
        self.engine.versions_on(platters, after, limit)
    }
    fn staged_totals(&mut self) -> Result<StagedTotals, CatalogueError> {
        self.engine.staged_totals()
    }
    fn totals(&mut self) -> Result<Totals, CatalogueError> {
        self.engine.totals()
    }
    fn staged_versions(&mut self, after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, CatalogueError> {
        self.engine.staged_versions(after, limit)
    }
    fn staged_tombstones(&mut self) -> Result<Vec<StagedTombstone>, CatalogueError> {
        self.engine.staged_tombstones()
    }
    fn unwritten_tombstones(&mut self) -> Result<Vec<VersionId>, CatalogueError> {
        self.engine.unwritten_tombstones()
    }
    fn segments_in_use(&mut self) -> Result<Vec<u64>, CatalogueError> {
        self.engine.segments_in_use()
    }
    fn begin_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError> {
        self.change("begin_set", |engine| engine.begin_set(set))
    }
    fn complete_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>, verified: u64) -> Result<(), CatalogueError> {
        self.change("complete_set", |engine| engine.complete_set(set, extents, verified))
    }
    fn archive_on_set(&mut self, set: SetId, extents: &mut dyn Iterator<Item = ArchivedExtent>) -> Result<(), CatalogueError> {
        self.change("archive_on_set", |engine| engine.archive_on_set(set, extents))
    }
    fn archive_tombstones(&mut self, tombstones: &[VersionId], set: SetId) -> Result<(), CatalogueError> {
        self.change("archive_tombstones", |engine| engine.archive_tombstones(tombstones, set))
    }
    fn adopt_archived_tombstones(&mut self, tombstones: &[(VersionId, SetId)]) -> Result<(), CatalogueError> {
        self.change("adopt_archived_tombstones", |engine| engine.adopt_archived_tombstones(tombstones))
    }
    fn archived_tombstones(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, SetId)>, CatalogueError> {
        self.engine.archived_tombstones(after, limit)
    }
    fn is_removed(&mut self, id: VersionId) -> Result<bool, CatalogueError> {
        self.engine.is_removed(id)
    }
    fn newest_id(&mut self) -> Result<Option<VersionId>, CatalogueError> {
        self.engine.newest_id()
    }
    fn newest_row(&mut self) -> Result<Option<VersionRowId>, CatalogueError> {
        self.engine.newest_row()
    }
    fn forget_set(&mut self, set: SetId) -> Result<bool, CatalogueError> {
        self.change("forget_set", |engine| engine.forget_set(set))
    }
    fn abandon_set(&mut self, set: SetId) -> Result<(), CatalogueError> {
        self.change("abandon_set", |engine| engine.abandon_set(set))
    }
    fn sets(&mut self) -> Result<Vec<SetRow>, CatalogueError> {
        self.engine.sets()
    }
    fn set_of(&mut self, platter: PlatterId) -> Result<Option<SetRow>, CatalogueError> {
        self.engine.set_of(platter)
    }
    fn platters(&mut self) -> Result<Vec<PlatterRow>, CatalogueError> {
        self.engine.platters()
    }
    fn platters_of(&mut self, set: SetId) -> Result<Vec<PlatterRow>, CatalogueError> {
        self.engine.platters_of(set)
    }
    fn count_damaged_staged(&mut self) -> Result<u64, CatalogueError> {
        self.engine.count_damaged_staged()
    }

    fn staged_health(&mut self, version: VersionRowId) -> Result<Option<StagedHealth>, CatalogueError> {
        self.engine.staged_health(version)
    }
    fn record_staged(&mut self, checks: &[StagedCheck]) -> Result<(), CatalogueError> {
        self.change("record_staged", |engine| engine.record_staged(checks))
    }
    fn record_health(&mut self, platter: PlatterId, health: Health) -> Result<(), CatalogueError> {
        self.change("record_health", |engine| engine.record_health(platter, health))
    }
    fn move_platter(&mut self, platter: PlatterId, store: &str) -> Result<(), CatalogueError> {
        self.change("move_platter", |engine| engine.move_platter(platter, store))
    }
    fn adopt_set(&mut self, set: &SetDescription) -> Result<(), CatalogueError> {
        self.change("adopt_set", |engine| engine.adopt_set(set))
    }
    fn adopt_versions(&mut self, versions: &[FoundVersion]) -> Result<(), CatalogueError> {
        self.change("adopt_versions", |engine| engine.adopt_versions(versions))
    }
    fn segment_ends(&mut self) -> Result<Vec<SegmentEnd>, CatalogueError> {
        self.engine.segment_ends()
    }
    fn note_released(&mut self, segments: &[RangeInclusive<u64>]) -> Result<(), CatalogueError> {
        self.change("note_released", |engine| engine.note_released(segments))
    }
    fn released(&mut self, from: u64, limit: usize) -> Result<Vec<RangeInclusive<u64>>, CatalogueError> {
        self.engine.released(from, limit)
    }
    fn last_released(&mut self) -> Result<Option<u64>, CatalogueError> {
        self.engine.last_released()
    }
    fn adopt_unlisted(&mut self, versions: &[UnlistedVersion]) -> Result<(), CatalogueError> {
        self.change("adopt_unlisted", |engine| engine.adopt_unlisted(versions))
    }
    fn unlisted(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<UnlistedVersion>, CatalogueError> {
        self.engine.unlisted(after, limit)
    }
    fn unlisted_count(&mut self) -> Result<u64, CatalogueError> {
        self.engine.unlisted_count()
    }
    fn forget_unlisted(&mut self, versions: &[VersionId], tombstones: &[StagedTombstone]) -> Result<(), CatalogueError> {
        self.change("forget_unlisted", |engine| engine.forget_unlisted(versions, tombstones))
    }
    fn leave_out(&mut self, platters: &[PlatterId]) -> Result<(), CatalogueError> {
        self.change("leave_out", |engine| engine.leave_out(platters))
    }
    fn note_staging_mark(&mut self) -> Result<(), CatalogueError> {
        self.change("note_staging_mark", |engine| engine.note_staging_mark())
    }
    fn is_staging_marked(&mut self) -> Result<bool, CatalogueError> {
        self.engine.is_staging_marked()
    }
    fn is_left_out(&mut self, platter: PlatterId) -> Result<bool, CatalogueError> {
        self.engine.is_left_out(platter)
    }
    fn check_in_place(&mut self) -> Result<(), CatalogueError> {
        self.engine.check_in_place()
    }
    fn check(&mut self) -> Result<(), CatalogueError> {
        self.engine.check()
    }
}

pub struct FaultyKeys {
    pub world: Arc<World>,
    pub engine: SqliteKeyStore,
}

impl FaultyKeys {
    fn change(
        &mut self,
        action: &'static str,
        change: impl FnOnce(&mut SqliteKeyStore) -> Result<(), KeyStoreError>,
    ) -> Result<(), KeyStoreError> {
        let fault = |source| KeyStoreError::Engine { action, source: Box::new(source) };
        let _gate = self.world.gate();
        self.world.step_in_gate(action).map_err(fault)?;
        change(&mut self.engine)?;
        self.world.step_in_gate("learn that the key store is changed").map_err(fault)
    }
}

impl KeyStore for FaultyKeys {
    fn insert(&mut self, keys: &[(VersionId, WrappedKey)]) -> Result<(), KeyStoreError> {
        self.change("insert keys", |engine| engine.insert(keys))
    }
    fn get(&mut self, id: VersionId) -> Result<Option<WrappedKey>, KeyStoreError> {
        self.engine.get(id)
    }
    fn get_many(&mut self, ids: &[VersionId]) -> Result<Vec<Option<WrappedKey>>, KeyStoreError> {
        self.engine.get_many(ids)
    }
    fn destroy(&mut self, ids: &[VersionId]) -> Result<(), KeyStoreError> {
        self.change("destroy keys", |engine| engine.destroy(ids))
    }
    fn page(&mut self, after: Option<VersionId>, limit: usize) -> Result<Vec<(VersionId, WrappedKey)>, KeyStoreError> {
        self.engine.page(after, limit)
    }
    fn len(&mut self) -> Result<u64, KeyStoreError> {
        self.engine.len()
    }
    fn check_in_place(&mut self) -> Result<(), KeyStoreError> {
        self.engine.check_in_place()
    }
    fn check(&mut self) -> Result<(), KeyStoreError> {
        self.engine.check()
    }
}
