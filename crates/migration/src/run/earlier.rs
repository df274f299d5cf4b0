//! What an earlier run left: files to be read back, and lots in spool volumes.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use fulgurite_digest::{Digest, Digester};
use fulgurite_places::{Cause, Connection, Place};

use super::database::{Database, DatabaseError, FileId, FileRow, State};
use super::spool::{FoundLot, Spooled, SpooledFile};
use super::stages::{Carried, Job, Told, algorithms};
use super::{LOOK, OnItsWay, Order, RunError, Runner, folded};
use crate::event::Event;
use crate::layout::{SpoolId, Stage};
use crate::lot::LotId;

/// Migrated files that a run looks for, before it begins.
const LOOKED_FOR: usize = 20;
/// Files of the source that are looked at, to find one that the inventory has.
const LISTED_MAX: u32 = 1_000;
/// Bytes of a spooled file that are checked at a time.
const PIECE_BYTES: usize = 64 << 10;

impl Runner<'_> {
    /// Looks for some of the files that earlier runs migrated. If none is there, the destination is
    /// absent, such as a disk that isn't mounted. If it can't be reached, streams wait for it and
    /// say why; but a run without any work for them must not end as if all were well.
    pub(super) fn check_destination(&mut self) -> Result<(), RunError> {
        let mut migrated = self.database.in_state(State::Migrated, 0, LOOKED_FOR)?;
        migrated.extend(self.database.in_state(State::Released, 0, LOOKED_FOR)?);
        if migrated.is_empty() {
            return Ok(());
        }
        let totals = self.database.totals()?;
        let has_work = totals.of(State::Waiting).0 + totals.of(State::Written).0 > 0;
        let mut last = None;
        match self.setup.destination.back_reader() {
            Err(refusal) => last = Some(refusal),
            Ok(mut back) => {
                for row in &migrated {
                    match back.length(&row.name) {
                        Ok(_) => return Ok(()),
                        Err(refusal) if refusal.cause == Cause::Missing => {}
                        Err(refusal) => last = Some(refusal),
                    }
                }
            }
        }
        match last {
            None => Err(RunError::DestinationAbsent(migrated.len())),
            Some(refusal) if !has_work => Err(RunError::DestinationUnreachable(refusal.to_string())),
            Some(_) => Ok(()),
        }
    }

    /// Gives files up whose names the destination doesn't distinguish. If it can't be asked now,
    /// such files are read, and it is asked before they are written.
    pub(super) fn check_names(&mut self) -> Result<(), RunError> {
        let totals = self.database.totals()?;
        if [State::Waiting, State::Written, State::Migrated].into_iter().all(|state| totals.of(state).0 == 0) {
            return Ok(());
        }
        match self.setup.destination.folding() {
            Ok(folding) => {
                let watcher = &mut *self.watcher;
                let tell = &mut |name: &str, reason: &str| watcher.failed(name, Stage::Output, reason, true);
                folded::refuse(self.database, &*self.setup.source, folding, tell)?;
            }
            Err(_) => {
                let suspects = folded::suspects(self.database, &*self.setup.source)?;
                // Only this function sets it.
                let _ = self.shared.suspects.set(suspects);
            }
        }
        Ok(())
    }

    /// Reads back what an earlier run had written when it was killed.
    pub(super) fn scan_written(&mut self, hears: &Receiver<Told>) -> Result<(), RunError> {
        let Some(scan) = self.stages.iter().position(|stage| *stage == Stage::Scan) else { return Ok(()) };
        loop {
            // Unless the run stops, none of them is in this state afterwards.
            let rows = self.database.in_state(State::Written, 0, self.setup.lot_files)?;
            if rows.is_empty() || self.watcher.order() == Order::Stop {
                return Ok(());
            }
            let carried = |row: FileRow| Carried { sha256: row.sha256.clone(), ..Carried::new(row) };
            let files = rows.into_iter().map(carried).collect();
            // Such a lot never passes the pipeline.
            self.jobs[scan].send(Job::Scan { lot: LotId(u64::MAX), files }).map_err(|_| RunError::Panicked)?;
            loop {
                match hears.recv_timeout(LOOK) {
                    Ok(Told::Ended(ended)) => {
                        let mut changes = Vec::new();
                        self.changes(&ended, &mut changes)?;
                        self.database.record(&changes)?;
                        if let Some(failure) = self.failure.take() {
                            return Err(failure);
                        }
                        break;
                    }
                    Ok(Told::Passed(stage, files)) => self.record_early(stage, &files)?,
                    Ok(Told::Unreachable(_, reason)) => self.watcher.unreachable(Stage::Scan, &reason),
                    Ok(Told::Panicked) => return Err(RunError::Panicked),
                    Err(RecvTimeoutError::Timeout) => self.shared.stops.store(self.watcher.order() == Order::Stop, Ordering::Relaxed),
                    Err(RecvTimeoutError::Disconnected) => return Err(RunError::Panicked),
                }
            }
        }
    }

    /// Hands the lots that an earlier run left in each spool volume to the pipeline. If the run is
    /// stopped meanwhile, the others stay there.
    pub(super) fn go_on_with(&mut self, found: Vec<Vec<FoundLot>>) -> Result<(), RunError> {
        if found.iter().all(Vec::is_empty) {
            return Ok(());
        }
        // If it can't be reached, files count as unchanged.
        let mut source = self.setup.source.connect().ok();
        let mut used = HashSet::new();
        for (spool, lots) in (0..).map(SpoolId).zip(found) {
            for lot in lots {
                if self.watcher.order() == Order::Stop {
                    return Ok(());
                }
                self.go_on_with_lot(lot, spool, source.as_deref_mut(), &mut used)?;
            }
        }
        Ok(())
    }

    fn go_on_with_lot(
        &mut self,
        found: FoundLot,
        spool: SpoolId,
        mut source: Option<&mut (dyn Connection + 'static)>,
        used: &mut HashSet<FileId>,
    ) -> Result<(), RunError> {
        let mut files = Vec::new();
        for file in found.files {
            // It may have been written since, or be in another lot, too.
            if let Some(row) = self.database.waiting_file(file.id)?
                && is_same(&file, &row, source.as_deref_mut())
                && (is_certain(&file, &row, found.is_doubtful) || is_sound(&file, &row, &found.spooled))
                && used.insert(file.id)
            {
                let SpooledFile { sha256, offset, modified, .. } = file;
                files.push(Carried { sha256: Some(sha256), offset, modified, ..Carried::new(row) });
            }
        }
        if files.is_empty() {
            found.spooled.release();
            return Ok(());
        }
        let rows: Vec<FileRow> = files.iter().map(|file| file.row.clone()).collect();
        let lot = self.offers.found(&rows);
        self.lots.insert(lot.id, OnItsWay { files, spooled: Some(found.spooled) });
        self.step(Event::Found { lot, spool })
    }
}

/// True if the source lists a file that the inventory has: then others that are missing were
/// removed. False if it can't be listed, or the first files that it lists are unknown.
pub(super) fn has_known_files(source: &dyn Place, database: &Database) -> Result<bool, DatabaseError> {
    let Ok(mut connection) = source.connect() else { return Ok(false) };
    let (mut looked_at, mut found) = (0, Ok(false));
    // What it listed before a failure counts.
    let _ = connection.list(&mut |file| {
        looked_at += 1;
        found = database.has_file(&file.location);
        looked_at < LISTED_MAX && matches!(found, Ok(false))
    });
    found
}

/// True unless the file has changed, at the source or in the inventory. A file that is gone from
/// the source counts as unchanged.
fn is_same(file: &SpooledFile, row: &FileRow, source: Option<&mut (dyn Connection + 'static)>) -> bool {
    let is_changed = match (&file.revision, source) {
        (Some(then), Some(source)) => source.revision(&file.name).is_ok_and(|now| now.as_ref() != Some(then)),
        _ => false,
    };
    (&row.name, row.bytes, &row.listed) == (&file.name, file.bytes, &file.listed) && !is_changed
}

/// True if the file's digests needn't be compared: the machine wasn't restarted, and the inventory
/// has no new digest of the file.
fn is_certain(file: &SpooledFile, row: &FileRow, is_doubtful: bool) -> bool {
    let is_known = |expected: &Digest| *expected == file.sha256 || Some(expected) == file.expected.as_ref();
    !is_doubtful && row.expected.as_ref().is_none_or(is_known)
}

/// True if what was spooled of a file is what was read, and what the inventory states.
fn is_sound(file: &SpooledFile, row: &FileRow, spooled: &Spooled) -> bool {
    let digests = read_digests(&mut spooled.reader(file.offset, file.bytes), row.expected.as_ref());
    digests.is_ok_and(|digests| [&file.sha256].into_iter().chain(&row.expected).all(|digest| digests.contains(digest)))
}

/// The SHA-256 of some content, and the digest of the algorithm that the inventory has.
fn read_digests(content: &mut dyn io::Read, expected: Option<&Digest>) -> io::Result<Vec<Digest>> {
    let mut digester = Digester::new(&algorithms(expected));
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match content.read(&mut piece)? {
            0 => return Ok(digester.finish()),
            read => digester.update(&piece[..read]),
        }
    }
}
