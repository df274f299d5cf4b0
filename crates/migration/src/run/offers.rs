//! Which files make up the next lot.

use std::collections::VecDeque;

use super::database::{Database, DatabaseError, FileId, FileRow};
use super::{Rows, Setup};
use crate::lot::{FamilyId, Lot, LotId};

/// Files that are fetched from the database at a time.
const PAGE: usize = 1_000;

/// Offers lots: files of one family after another, each once. Files that failed come when they may
/// be tried again.
#[derive(Debug)]
pub(super) struct Offers {
    lot_files: usize,
    lot_bytes: u64,
    /// The last file that was fetched.
    after: (u32, FileId),
    page: VecDeque<FileRow>,
    is_last_page: bool,
    lots: u64,
}

impl Offers {
    pub(super) fn new(setup: &Setup) -> Self {
        let room = setup.layout.spools().iter().map(|(_, spool)| spool.bytes).max().unwrap_or(u64::MAX);
        Self {
            lot_files: setup.lot_files,
            lot_bytes: setup.lot_bytes.min(room),
            after: (0, 0),
            page: VecDeque::new(),
            is_last_page: false,
            lots: 0,
        }
    }

    /// The next lot; `None` if no file may be read now.
    pub(super) fn next(&mut self, database: &mut Database, now_s: u64) -> Result<Option<(Lot, Rows)>, DatabaseError> {
        if self.page.is_empty() && !self.is_last_page {
            self.page = database.waiting(self.after, PAGE)?.into();
            self.is_last_page = self.page.len() < PAGE;
            if let Some(last) = self.page.back() {
                self.after = (last.family, last.id);
            }
        }
        if self.page.is_empty() {
            // One at a time: what failed together shouldn't fail together again.
            return Ok(database.take_retries(now_s, 1)?.pop().map(|row| self.lot(vec![row])));
        }
        let mut rows: Rows = Vec::new();
        let mut bytes = 0;
        while let Some(next) = self.page.front()
            && (rows.is_empty() || rows.len() < self.lot_files && next.family == rows[0].family && bytes + next.bytes <= self.lot_bytes)
        {
            bytes += next.bytes;
            rows.extend(self.page.pop_front());
        }
        Ok(Some(self.lot(rows)))
    }

    fn lot(&mut self, rows: Rows) -> (Lot, Rows) {
        self.lots += 1;
        let lot = Lot {
            id: LotId(self.lots),
            files: rows.len() as u32,
            bytes: rows.iter().map(|row| row.bytes).sum(),
            family: FamilyId(rows[0].family),
            volume: None,
            priority: 0,
        };
        (lot, rows)
    }
}
