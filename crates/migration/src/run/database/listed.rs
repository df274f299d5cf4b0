//! What inventories and users say of files: they are there, have a digest, or should go first.

use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::Modified;
use fulgurite_places::{Listed, VolumePosition};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    Database, DatabaseError, FileId, NO_VOLUME, NOT_AT_THE_SOURCE, READ_OTHERWISE, State, VANISHED, as_text, count, slot, time_text,
};

/// A file of an inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryRow {
    /// Its location at the source.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Where it is, at a source that consists of volumes.
    pub position: Option<VolumePosition>,
    /// The digest that the source states of it.
    pub digest: Option<Digest>,
    /// When it was last modified, as [`Listed::modified`].
    pub modified: Option<Modified>,
    /// What changes when it is replaced, as [`Listed::tag`].
    pub tag: Option<String>,
}

impl InventoryRow {
    /// A file that a place listed, and its length.
    #[must_use]
    pub fn new(listed: Listed, bytes: u64) -> Self {
        let Listed { location, bytes: _, position, digest, modified, tag } = listed;
        Self { name: location, bytes, position, digest, modified, tag }
    }

    /// What tells this version of the file from others, if the source states it.
    fn listed(&self) -> Option<String> {
        self.tag.clone().or_else(|| self.modified.map(time_text))
    }

    /// True if the file was replaced since it was read, or else since the last inventory, as far as
    /// the source can tell.
    fn is_edited(&self, known: &Known) -> bool {
        let was_read = known.modified.as_ref().zip(self.modified).map(|(then, now)| *then != time_text(now));
        let was_listed = known.listed.as_ref().zip(self.listed()).map(|(then, now)| *then != now);
        // A time of the reading is newer than one of a listing; a tag says more than a time.
        if self.tag.is_some() { was_listed.or(was_read) } else { was_read.or(was_listed) }.unwrap_or(false)
    }

    /// The name without the volume: families span volumes.
    fn name_on_volume(&self) -> &str {
        let volume = self.position.as_ref().map(|position| position.volume.as_str());
        volume.and_then(|volume| self.name.strip_prefix(volume)?.strip_prefix('/')).unwrap_or(&self.name)
    }
}

/// Counts of files that a user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recalled {
    /// Files that go before others now.
    pub files: u64,
    /// Files that were written, but not read back yet.
    pub written: u64,
    /// Files that were at the destination already.
    pub migrated: u64,
    /// Files that had failed for good.
    pub failed: u64,
}

/// Counts of files that an inventory added or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Files that were not known.
    pub new: u64,
    /// Files that were replaced, or of which the source states another digest.
    pub changed: u64,
    /// Released files that the source has again.
    pub reappeared: u64,
}

/// Counts of files that a list of digests has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddedDigests {
    /// Files that the source has.
    pub known: u64,
    /// Files that only the list has.
    pub missing: u64,
    /// Files that were migrated with another SHA-256.
    pub wrong: u64,
    /// Files that were at the destination, and wait to be read from the source again: the list has
    /// no SHA-256 of them, and no other digest is known.
    pub again: u64,
    /// Released files that can't be compared: the list has no SHA-256 of them, and the source no
    /// longer has the files.
    pub unchecked: u64,
    /// Failed files that are tried again, because an earlier list, or the source, stated another
    /// digest of them.
    pub corrected: u64,
}

impl std::ops::AddAssign for AddedDigests {
    fn add_assign(&mut self, more: Self) {
        self.known += more.known;
        self.missing += more.missing;
        self.wrong += more.wrong;
        self.again += more.again;
        self.unchecked += more.unchecked;
        self.corrected += more.corrected;
    }
}

impl std::ops::AddAssign for Added {
    fn add_assign(&mut self, more: Self) {
        self.new += more.new;
        self.changed += more.changed;
        self.reappeared += more.reappeared;
    }
}

impl Database {
    /// Adds files of an inventory. A file that was replaced since it was read or listed, as its
    /// length, its time or its tag shows, or of which the source states another digest, waits to be
    /// migrated, again if it was before; a digest that a list stated of it stays, and decides when
    /// it is read. A released file stays released. `family` names the family of a file.
    ///
    /// # Errors
    /// [`DatabaseError`]. Then nothing of these rows is added.
    pub fn add(&mut self, rows: &[InventoryRow], family: &dyn Fn(&str) -> String) -> Result<Added, DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (mut added, mut moved) = (Added::default(), [(0_i64, 0_i64); State::ALL.len()]);
        for row in rows {
            let volume = row.position.as_ref().map_or(Ok(i64::from(NO_VOLUME)), |position| volume_id(&transaction, position))?;
            let block = row.position.as_ref().map_or(0, |position| position.block.min(VolumePosition::MAX_BLOCK).cast_signed());
            let waiting = &mut moved[State::Waiting as usize];
            let Some(known) = known(&transaction, &row.name)? else {
                let family = name_id(&transaction, "family", &family(row.name_on_volume()))?;
                let sql = "INSERT INTO file (name, bytes, family, stated, volume, block, listed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                let (stated, listed) = (row.digest.as_ref().map(as_text), row.listed());
                transaction.prepare_cached(sql)?.execute(params![
                    row.name,
                    row.bytes.cast_signed(),
                    family,
                    stated,
                    volume,
                    block,
                    listed
                ])?;
                *waiting = (waiting.0 + 1, waiting.1.saturating_add(row.bytes.cast_signed()));
                added.new += 1;
                continue;
            };
            if known.was_released {
                // It is only at the destination, and what the source has now is another file.
                added.reappeared += 1;
                continue;
            }
            if known.volume != i64::from(NO_VOLUME) && known.volume != volume {
                // Names of a tape that is mounted itself don't say which tape it is.
                let sql = "SELECT name FROM volume WHERE id = ?1";
                let known = transaction.query_row(sql, [known.volume], |row| row.get(0))?;
                return Err(DatabaseError::Moved { file: row.name.clone(), known });
            }
            if (known.volume, known.block) != (volume, block) {
                let sql = "UPDATE file SET volume = ?2, block = ?3 WHERE id = ?1";
                transaction.prepare_cached(sql)?.execute(params![known.id, volume, block])?;
            }
            if known.listed != row.listed() {
                transaction.prepare_cached("UPDATE file SET listed = ?2 WHERE id = ?1")?.execute(params![known.id, row.listed()])?;
            }
            let mut is_changed = known.bytes.cast_unsigned() != row.bytes
                || row.is_edited(&known)
                || known.reason.as_deref().is_some_and(|reason| [NOT_AT_THE_SOURCE, VANISHED].contains(&reason));
            if let Some(digest) = row.digest.as_ref().filter(|digest| known.stated.as_deref() != Some(&*as_text(digest))) {
                transaction.prepare_cached("UPDATE file SET stated = ?2 WHERE id = ?1")?.execute(params![known.id, as_text(digest)])?;
                is_changed |= match &known.sha256 {
                    Some(sha256) if digest.algorithm() == Algorithm::Sha256 => sha256 != digest.value(),
                    // It was migrated as the source stated it then.
                    Some(_) => known.stated.is_some(),
                    // It may have failed because the index was wrong.
                    None => known.state == State::Failed as i64 && known.stated.is_some(),
                };
            }
            if is_changed {
                let sql =
                    "UPDATE file SET bytes = ?2, state = 0, sha256 = NULL, modified = NULL, attempts = 0, retry_at = NULL, reason = NULL
                           WHERE id = ?1";
                transaction.prepare_cached(sql)?.execute(params![known.id, row.bytes.cast_signed()])?;
                *waiting = (waiting.0 + 1, waiting.1.saturating_add(row.bytes.cast_signed()));
                let from = &mut moved[slot(known.state)?];
                *from = (from.0 - 1, from.1 - known.bytes);
                added.changed += 1;
            }
        }
        for (state, (files, bytes)) in State::ALL.into_iter().zip(moved) {
            count(&transaction, state, files, bytes)?;
        }
        transaction.commit()?;
        Ok(added)
    }

    /// Adds digests that a list states; a later list overrides an earlier one. A file that was
    /// migrated is compared: by its SHA-256 at once, by another digest when it is migrated again. A
    /// failed file waits again if its digest is another one than before, unless it was released.
    /// Files that no inventory had become failed ones, in the family that `family` names.
    ///
    /// # Errors
    /// [`DatabaseError`]. Then nothing of these rows is added.
    pub fn add_digests(&mut self, rows: &[(String, Digest)], family: &dyn Fn(&str) -> String) -> Result<AddedDigests, DatabaseError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (mut added, mut moved) = (AddedDigests::default(), [(0_i64, 0_i64); State::ALL.len()]);
        for (name, digest) in rows {
            let Some(Known { id, bytes, state, sha256, reason, expected, stated, was_released, .. }) = known(&transaction, name)? else {
                let family = name_id(&transaction, "family", &family(name))?;
                let sql = "INSERT INTO file (name, bytes, family, expected, state, reason) VALUES (?1, 0, ?2, ?3, 3, ?4)";
                transaction.prepare_cached(sql)?.execute(params![name, family, as_text(digest), NOT_AT_THE_SOURCE])?;
                moved[State::Failed as usize].0 += 1;
                added.missing += 1;
                continue;
            };
            let is_missing = reason.as_deref() == Some(NOT_AT_THE_SOURCE);
            *(if is_missing { &mut added.missing } else { &mut added.known }) += 1;
            if expected.as_deref() == Some(&*as_text(digest)) {
                continue;
            }
            transaction.prepare_cached("UPDATE file SET expected = ?2 WHERE id = ?1")?.execute(params![id, as_text(digest)])?;
            // Whatever it failed for, it was compared with a digest that is not in force any more.
            let was_otherwise = reason.is_some_and(|reason| reason.starts_with(READ_OTHERWISE));
            let is_corrected = was_otherwise || expected.or(stated).is_some_and(|of| of != as_text(digest));
            if state == State::Failed as i64 && !is_missing && !was_released && is_corrected {
                let sql = "UPDATE file SET state = 0, sha256 = NULL, attempts = 0, retry_at = NULL, reason = NULL WHERE id = ?1";
                transaction.prepare_cached(sql)?.execute([id])?;
                for (of, sign) in [(State::Failed, -1), (State::Waiting, 1)] {
                    let of = &mut moved[of as usize];
                    *of = (of.0 + sign, of.1.saturating_add(sign * bytes));
                }
                added.corrected += 1;
                continue;
            }
            let is_stored = [State::Written, State::Migrated, State::Released].into_iter().any(|of| of as i64 == state);
            if !is_stored || digest.algorithm() == Algorithm::Sha256 && sha256.as_deref() == Some(digest.value()) {
                continue;
            }
            let to = if digest.algorithm() == Algorithm::Sha256 {
                let reason = "it was migrated with another SHA-256 than the list of digests states";
                transaction.execute("UPDATE file SET state = 3, reason = ?2 WHERE id = ?1", params![id, reason])?;
                added.wrong += 1;
                State::Failed
            } else if state == State::Released as i64 {
                // The source doesn't have it any more.
                added.unchecked += 1;
                continue;
            } else {
                added.again += 1;
                transaction.execute("UPDATE file SET state = 0, attempts = 0, retry_at = NULL WHERE id = ?1", [id])?;
                State::Waiting
            };
            for (index, sign) in [(slot(state)?, -1), (to as usize, 1)] {
                moved[index] = (moved[index].0 + sign, moved[index].1 + sign * bytes);
            }
        }
        for (state, (files, bytes)) in State::ALL.into_iter().zip(moved) {
            count(&transaction, state, files, bytes)?;
        }
        transaction.commit()?;
        Ok(added)
    }

    /// Lets files go before others, at once even if they failed: the file of each name, or all
    /// below a name that ends with a slash. The result for a name is `None` if the inventory has no
    /// such file. A file that several names select counts for the first of them.
    ///
    /// # Errors
    /// [`DatabaseError`]. Then nothing has changed.
    pub fn recall(&mut self, names: &[String]) -> Result<Vec<Option<Recalled>>, DatabaseError> {
        self.connection.execute_batch("DROP TABLE IF EXISTS temp.counted; CREATE TEMP TABLE counted (id INTEGER PRIMARY KEY)")?;
        self.recall_more(names)
    }

    /// As [`recall`](Self::recall), for more names of the same user: files that counted for earlier
    /// names don't count again.
    ///
    /// # Errors
    /// [`DatabaseError`]. Then nothing has changed.
    pub fn recall_more(&mut self, names: &[String]) -> Result<Vec<Option<Recalled>>, DatabaseError> {
        self.connection.execute_batch("CREATE TEMP TABLE IF NOT EXISTS counted (id INTEGER PRIMARY KEY)")?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let recalled = names.iter().map(|name| recall(&transaction, name)).collect::<Result<_, _>>()?;
        transaction.commit()?;
        Ok(recalled)
    }

    /// Number of waiting files that users asked for.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn recalled_files(&self) -> Result<u64, DatabaseError> {
        // Each is in one of two indexes.
        let sql = "SELECT (SELECT count(*) FROM file WHERE state = 0 AND retry_at IS NULL AND recalled = 1)
                        + (SELECT count(*) FROM file WHERE state = 0 AND retry_at IS NOT NULL AND recalled = 1)";
        Ok(self.connection.query_row(sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned())
    }
}

fn recall(transaction: &Transaction<'_>, name: &str) -> Result<Option<Recalled>, DatabaseError> {
    // Names below `a/` are those from `a/` up to `a0`: `0` follows the slash.
    let below = name.strip_suffix('/').map(|folder| format!("{folder}0"));
    let which = if below.is_some() { "name > ?1 AND name < ?2" } else { "name = ?1 AND ?2 IS NULL" };
    let (mut recalled, mut is_known) = (Recalled::default(), false);
    let is_new = "NOT EXISTS (SELECT 1 FROM temp.counted WHERE counted.id = file.id)";
    let sql = format!("SELECT state, {is_new} AS is_new, count(*) FROM file WHERE {which} GROUP BY state, is_new");
    let mut statement = transaction.prepare_cached(&sql)?;
    let mut rows = statement.query(params![name, below])?;
    while let Some(row) = rows.next()? {
        let (state, is_new, files): (i64, bool, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        is_known = true;
        if !is_new {
            continue;
        }
        *match State::ALL[slot(state)?] {
            State::Waiting => &mut recalled.files,
            State::Failed => &mut recalled.failed,
            State::Written => &mut recalled.written,
            State::Migrated | State::Released => &mut recalled.migrated,
        } += files.cast_unsigned();
    }
    let sql = format!("INSERT OR IGNORE INTO temp.counted SELECT id FROM file WHERE {which}");
    transaction.prepare_cached(&sql)?.execute(params![name, below])?;
    // A run may be going on, which takes files that failed only while they have such a time.
    let sql =
        format!("UPDATE file SET recalled = 1, retry_at = min(retry_at, 0) WHERE state = 0 AND (recalled = 0 OR retry_at > 0) AND {which}");
    transaction.prepare_cached(&sql)?.execute(params![name, below])?;
    Ok(is_known.then_some(recalled))
}

/// What is known of a file that an inventory lists again.
struct Known {
    id: FileId,
    bytes: i64,
    state: i64,
    reason: Option<String>,
    was_released: bool,
    volume: i64,
    block: i64,
    stated: Option<String>,
    expected: Option<String>,
    sha256: Option<Vec<u8>>,
    modified: Option<String>,
    listed: Option<String>,
}

fn known(transaction: &Transaction<'_>, name: &str) -> Result<Option<Known>, DatabaseError> {
    let sql = "SELECT id, bytes, state, reason, was_released, volume, block, stated, sha256, expected, modified, listed
               FROM file WHERE name = ?1";
    let known = transaction.prepare_cached(sql)?.query_row([name], |row| {
        Ok(Known {
            id: row.get(0)?,
            bytes: row.get(1)?,
            state: row.get(2)?,
            reason: row.get(3)?,
            was_released: row.get(4)?,
            volume: row.get(5)?,
            block: row.get(6)?,
            stated: row.get(7)?,
            sha256: row.get(8)?,
            expected: row.get(9)?,
            modified: row.get(10)?,
            listed: row.get(11)?,
        })
    });
    Ok(known.optional()?)
}

/// The identifier of a volume, which is added if it is new.
fn volume_id(transaction: &Transaction<'_>, position: &VolumePosition) -> Result<i64, DatabaseError> {
    let id = name_id(transaction, "volume", &position.volume)?;
    let Some(found) = &position.medium else { return Ok(id) };
    let known: Option<String> = transaction.prepare_cached("SELECT medium FROM volume WHERE id = ?1")?.query_row([id], |row| row.get(0))?;
    match known {
        Some(known) if known != *found => Err(DatabaseError::OtherVolume { name: position.volume.clone(), found: found.clone(), known }),
        Some(_) => Ok(id),
        None => {
            transaction.prepare_cached("UPDATE volume SET medium = ?2 WHERE id = ?1")?.execute(params![id, found])?;
            Ok(id)
        }
    }
}

/// The identifier of a family or a volume, which is added if it is new.
fn name_id(transaction: &Transaction<'_>, table: &str, name: &str) -> Result<i64, DatabaseError> {
    let known = transaction.prepare_cached(&format!("SELECT id FROM {table} WHERE name = ?1"))?;
    if let Some(known) = { known }.query_row([name], |row| row.get(0)).optional()? {
        return Ok(known);
    }
    transaction.prepare_cached(&format!("INSERT INTO {table} (name) VALUES (?1)"))?.execute([name])?;
    Ok(transaction.last_insert_rowid())
}
