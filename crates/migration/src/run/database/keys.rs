//! Files whose names are equal for the destination, found without keeping all names in memory.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::params;

use super::{Database, DatabaseError, FileId, State, slot};

/// Groups of files that are returned at a time.
const PAGE: usize = 1_000;

/// A file with what its name's fate depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// Its identifier.
    pub id: FileId,
    /// Its name.
    pub name: String,
    /// Where it is on its way.
    pub state: State,
    /// True if it was removed from the source.
    pub was_released: bool,
}

/// Some groups of files.
#[derive(Debug)]
pub struct GroupPage {
    /// What the next page comes after.
    pub last: i64,
    /// Files whose names have the same key.
    pub groups: Vec<Vec<NamedFile>>,
}

impl Database {
    /// Notes a key of each file's name, for [`with_one_key`](Self::with_one_key). Reads all rows.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn note_keys(&mut self, key: &dyn Fn(&str) -> String) -> Result<(), DatabaseError> {
        // In a temporary file, which only this connection sees.
        let transaction = self.connection.transaction()?;
        transaction
            .execute_batch("DROP TABLE IF EXISTS temp.key; CREATE TEMP TABLE key (hash INTEGER NOT NULL, file INTEGER NOT NULL) STRICT;")?;
        {
            let mut names = transaction.prepare("SELECT id, name FROM file")?;
            let mut insert = transaction.prepare("INSERT INTO temp.key VALUES (?1, ?2)")?;
            let mut rows = names.query([])?;
            while let Some(row) = rows.next()? {
                insert.execute(params![hash(&key(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)), row.get::<_, FileId>(0)?])?;
            }
        }
        transaction.execute_batch("CREATE INDEX temp.key_hash ON key(hash);")?;
        transaction.commit()?;
        Ok(())
    }

    /// Some groups of two files or more whose names have the same key, after those of an earlier
    /// page; `None` after the last. The keys must have been [noted](Self::note_keys).
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub fn with_one_key(&self, after: Option<i64>, key: &dyn Fn(&str) -> String) -> Result<Option<GroupPage>, DatabaseError> {
        let sql = "SELECT hash FROM temp.key WHERE hash >= ?1 GROUP BY hash HAVING count(*) > 1 ORDER BY hash LIMIT ?2";
        let Some(from) = after.map_or(Some(i64::MIN), |after| after.checked_add(1)) else { return Ok(None) };
        let mut statement = self.connection.prepare_cached(sql)?;
        let hashes = statement.query_map(params![from, PAGE as i64], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        let Some(&last) = hashes.last() else { return Ok(None) };
        let sql = "SELECT file.id, name, state, was_released FROM temp.key JOIN file ON file.id = temp.key.file WHERE hash = ?1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut groups = Vec::new();
        for hash in hashes {
            // Different keys can have the same hash.
            let mut by_key: HashMap<String, Vec<NamedFile>> = HashMap::new();
            let mut rows = statement.query([hash])?;
            while let Some(row) = rows.next()? {
                let (id, name, was_released): (_, String, _) = (row.get(0)?, row.get(1)?, row.get(3)?);
                let file = NamedFile { id, state: State::ALL[slot(row.get(2)?)?], was_released, name };
                by_key.entry(key(&file.name)).or_default().push(file);
            }
            groups.extend(by_key.into_values().filter(|group| group.len() > 1));
        }
        Ok(Some(GroupPage { last, groups }))
    }
}

fn hash(key: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish().cast_signed()
}
