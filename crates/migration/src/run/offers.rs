//! Which files make up the next lot.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use super::database::{Database, DatabaseError, FileId, FileRow, NO_VOLUME, ReadingOrder};
use super::{Rows, Setup};
use crate::lot::{FamilyId, Lot, LotId, SourceVolume};

/// Files that are fetched from the database at a time.
const PAGE: usize = 1_000;

/// The answer to a stream that wants a lot.
#[derive(Debug)]
pub(super) enum Offer {
    Lot(Lot, Rows),
    /// No file may be read now by this stream. When to ask again, in seconds since 1970; `None` if
    /// no file is left.
    Later(Option<u64>),
}

/// Offers lots: files of one volume after another, each once, in the order of their positions, or
/// else of their families. Files that users asked for come first, and files that failed come when
/// they may be tried again.
#[derive(Debug)]
pub(super) struct Offers {
    lot_files: usize,
    lot_bytes: u64,
    /// Volumes that were begun and have files left.
    queues: BTreeMap<u32, Queue>,
    /// The volume that was begun last, in the order of volumes.
    last_begun: Option<u32>,
    /// Volumes that were begun out of order, because a drive had them for a file that went first.
    begun_early: HashSet<u32>,
    /// Files in lots on their way.
    on_their_way: HashSet<FileId>,
    /// Volumes that this run doesn't read any more.
    set_aside: BTreeSet<u32>,
    /// Files that were offered out of order, because a user asked for them or to try them again, or
    /// that an earlier run left in a spool volume.
    /// Queues may still contain them, as they were before.
    out_of_order: HashSet<FileId>,
    lots: u64,
}

/// The files of a volume, fetched page by page.
#[derive(Debug, Default)]
struct Queue {
    after: ReadingOrder,
    page: VecDeque<FileRow>,
    is_last_page: bool,
}

impl Offers {
    /// Offers whose lots have higher numbers than `last`.
    pub(super) fn new(setup: &Setup, last: LotId) -> Self {
        let room = setup.layout.spools().iter().map(|(_, spool)| spool.bytes).max().unwrap_or(u64::MAX);
        Self {
            lot_files: setup.lot_files,
            lot_bytes: setup.lot_bytes.min(room),
            queues: BTreeMap::new(),
            last_begun: None,
            begun_early: HashSet::new(),
            on_their_way: HashSet::new(),
            set_aside: BTreeSet::new(),
            out_of_order: HashSet::new(),
            lots: last.0,
        }
    }

    /// A file has left its lot: it arrived, or failed.
    pub(super) fn left(&mut self, file: FileId) {
        self.on_their_way.remove(&file);
    }

    /// A lot that an earlier run left in a spool volume. It gets a number of this run: two folders
    /// may have lots of the same number.
    pub(super) fn found(&mut self, rows: &[FileRow]) -> Lot {
        self.lots += 1;
        self.on_their_way.extend(rows.iter().map(|row| row.id));
        self.out_of_order.extend(rows.iter().map(|row| row.id));
        lot(LotId(self.lots), rows)
    }

    /// Offers no more files of a volume. Returns false if it was set aside before.
    pub(super) fn set_aside(&mut self, volume: u32) -> bool {
        self.queues.remove(&volume);
        self.set_aside.insert(volume)
    }

    /// The next lot for a stream that has a volume `mounted`; other streams have those `in_use`.
    pub(super) fn next(
        &mut self,
        database: &mut Database,
        now_s: u64,
        mounted: Option<SourceVolume>,
        in_use: &BTreeSet<u32>,
    ) -> Result<Offer, DatabaseError> {
        let mounted = mounted.map(|volume| volume.0);
        let without: BTreeSet<u32> = self.set_aside.union(in_use).copied().collect();
        let is_usable = |volume: u32| !without.contains(&volume);
        if let Some(rows) = self.next_recalled(database, mounted, &is_usable)? {
            return Ok(self.lot(rows));
        }
        if let Some(row) = database.take_retry(now_s, true, mounted, &without)? {
            self.out_of_order.insert(row.id);
            return Ok(self.lot(vec![row]));
        }
        if let Some(rows) = self.next_in_order(database, mounted, &is_usable)? {
            return Ok(self.lot(rows));
        }
        // One at a time: what failed together shouldn't fail together again.
        if let Some(row) = database.take_retry(now_s, false, mounted, &without)? {
            self.out_of_order.insert(row.id);
            return Ok(self.lot(vec![row]));
        }
        // What may be read now is of volumes that others have: the pipeline asks again when one is
        // free.
        let retry = database.next_retry(&without)?;
        Ok(Offer::Later(retry.map(|at| at.max(now_s + 1))))
    }

    /// Files that users asked for: first those of the mounted volume.
    fn next_recalled(
        &mut self,
        database: &Database,
        mounted: Option<u32>,
        is_usable: &dyn Fn(u32) -> bool,
    ) -> Result<Option<Rows>, DatabaseError> {
        let Some(first) = database.next_recalled_volume(None)? else { return Ok(None) };
        let (mut volume, mut following) = (mounted.unwrap_or(first), (mounted.is_none()).then_some(first));
        loop {
            if is_usable(volume) {
                // Some may be on their way, and still count as waiting.
                let rows = database.recalled(volume, self.lot_files + self.on_their_way.len())?;
                let mut rows: VecDeque<FileRow> = rows.into_iter().filter(|row| !self.on_their_way.contains(&row.id)).collect();
                if let Some(rows) = self.take(&mut rows) {
                    self.out_of_order.extend(rows.iter().map(|row| row.id));
                    return Ok(Some(rows));
                }
            }
            following = database.next_recalled_volume(following)?;
            match following {
                Some(next) => volume = next,
                None => return Ok(None),
            }
        }
    }

    /// Files of the mounted volume, else of one that was begun, else of another.
    fn next_in_order(
        &mut self,
        database: &Database,
        mounted: Option<u32>,
        is_usable: &dyn Fn(u32) -> bool,
    ) -> Result<Option<Rows>, DatabaseError> {
        if let Some(volume) = mounted.filter(|volume| Some(*volume) > self.last_begun && is_usable(*volume))
            && self.begun_early.insert(volume)
        {
            self.queues.insert(volume, Queue::default());
        }
        let begun: Vec<u32> = mounted.into_iter().chain(self.queues.keys().copied()).filter(|&volume| is_usable(volume)).collect();
        for volume in begun {
            if let Some(rows) = self.next_of(database, volume)? {
                return Ok(Some(rows));
            }
        }
        while let Some(volume) = database.next_volume(self.last_begun)? {
            self.last_begun = Some(volume);
            if self.begun_early.remove(&volume) || self.set_aside.contains(&volume) {
                continue;
            }
            self.queues.insert(volume, Queue::default());
            if is_usable(volume)
                && let Some(rows) = self.next_of(database, volume)?
            {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The next files of a volume that was begun.
    fn next_of(&mut self, database: &Database, volume: u32) -> Result<Option<Rows>, DatabaseError> {
        let Some(mut queue) = self.queues.remove(&volume) else { return Ok(None) };
        loop {
            while queue.page.front().is_some_and(|row| self.out_of_order.contains(&row.id) || self.on_their_way.contains(&row.id)) {
                queue.page.pop_front();
            }
            if let Some(rows) = self.take(&mut queue.page) {
                self.queues.insert(volume, queue);
                return Ok(Some(rows));
            }
            if queue.is_last_page {
                return Ok(None);
            }
            queue.page = database.waiting(volume, queue.after, PAGE)?.into();
            queue.is_last_page = queue.page.len() < PAGE;
            if let Some(last) = queue.page.back() {
                queue.after = ReadingOrder::of(last);
            }
        }
    }

    /// Takes files of one family, as many as a lot has room for.
    fn take(&self, from: &mut VecDeque<FileRow>) -> Option<Rows> {
        let mut rows: Rows = Vec::new();
        let mut bytes = 0;
        while let Some(next) = from.front()
            && !self.out_of_order.contains(&next.id)
            && (rows.is_empty()
                || rows.len() < self.lot_files && next.family == rows[0].family && next.bytes <= self.lot_bytes.saturating_sub(bytes))
        {
            bytes = next.bytes.saturating_add(bytes);
            rows.extend(from.pop_front());
        }
        (!rows.is_empty()).then_some(rows)
    }

    fn lot(&mut self, rows: Rows) -> Offer {
        self.lots += 1;
        self.on_their_way.extend(rows.iter().map(|row| row.id));
        Offer::Lot(lot(LotId(self.lots), &rows), rows)
    }
}

/// A lot of files of one family and volume.
fn lot(id: LotId, rows: &[FileRow]) -> Lot {
    Lot {
        id,
        files: rows.len() as u32,
        bytes: rows.iter().map(|row| row.bytes).sum(),
        family: FamilyId(rows[0].family),
        volume: (rows[0].volume != NO_VOLUME).then_some(SourceVolume(rows[0].volume)),
        priority: u8::from(rows.iter().any(|row| row.is_recalled)),
    }
}
