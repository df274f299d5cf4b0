//! The robotic library: which sets it holds, and where their platters were last.

use fulgurite_domain::SetId;
use rusqlite::params;

use super::restores::{COLUMNS, read};
use super::{Restore, State, StateError, query_all, query_one};

/// A library as it was kept. Texts are those of the crate `live`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptLibrary {
    pub(crate) building: String,
    /// The slot of each platter.
    pub(crate) slots: Vec<u32>,
    pub(crate) stock: String,
    /// The sets, by number.
    pub(crate) sets: Vec<SetId>,
}

impl State {
    /// The library that was kept; `None` if there never was one.
    pub(crate) fn library(&self) -> Result<Option<KeptLibrary>, StateError> {
        self.query("look up the library", |connection| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?));
            let Some((building, slots, stock)) = query_one(connection, "SELECT building, slots, stock FROM library", [], row)? else {
                return Ok(None);
            };
            let slots = slots.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect();
            let numbered = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get(1).map(SetId)?));
            let sets = query_all(connection, "SELECT number, id FROM library_set ORDER BY number", [], numbered)?;
            if sets.iter().zip(0..).any(|((number, _), expected)| *number != expected) {
                tracing::warn!("sets of the library are missing in service.db");
                return Ok(None);
            }
            let sets = sets.into_iter().map(|(_, id)| id).collect();
            Ok(Some(KeptLibrary { building, slots, stock, sets }))
        })
    }

    /// Records a library that was set up anew.
    pub(crate) fn set_up_library(&self, library: &KeptLibrary) -> Result<(), StateError> {
        self.transact("record a new library", |connection| {
            connection.execute("DELETE FROM library_set", [])?;
            let slots: Vec<u8> = library.slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
            let sql = "INSERT OR REPLACE INTO library (one, building, slots, stock) VALUES (1, ?1, ?2, ?3)";
            connection.execute(sql, params![library.building, slots, library.stock])?;
            let mut insert = connection.prepare_cached("INSERT INTO library_set (number, id) VALUES (?1, ?2)")?;
            library.sets.iter().zip(0_i64..).try_for_each(|(set, number)| insert.execute(params![number, set.0]).map(drop))
        })
    }

    /// Records where platters and shuttles are.
    pub(crate) fn keep_library(&self, stock: &str) -> Result<(), StateError> {
        self.transact("record the state of the library", |connection| {
            connection.prepare_cached("UPDATE library SET stock = ?1")?.execute([stock]).map(drop)
        })
    }

    /// Gives a set the next number in the library.
    pub(crate) fn add_library_set(&self, number: u32, set: SetId) -> Result<(), StateError> {
        self.transact("add a set to the library", |connection| {
            connection.execute("INSERT INTO library_set (number, id) VALUES (?1, ?2)", params![number, set.0]).map(drop)
        })
    }

    /// Open restores, the most urgent first.
    pub(crate) fn open_restores(&self, limit: usize) -> Result<Vec<Restore>, StateError> {
        self.query("list open restores", |connection| {
            let sql = format!("SELECT {COLUMNS} FROM restore WHERE done IS NULL ORDER BY due LIMIT ?1");
            query_all(connection, &sql, [i64::try_from(limit).unwrap_or(i64::MAX)], read)
        })
    }
}
