//! The robotic library: which sets it holds, and where their platters were last.

use fulgurite_domain::SetId;
use rusqlite::params;

use super::restores::{COLUMNS, read};
use super::{Restore, State, StateError, query_all, query_one};

/// A library as it was kept. Texts are those of the crate `live`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptLibrary {
    pub(crate) plan: String,
    pub(crate) stock: String,
    /// The sets, by number.
    pub(crate) sets: Vec<SetId>,
}

impl State {
    /// The library that was kept; `None` if there never was one.
    pub(crate) fn library(&self) -> Result<Option<KeptLibrary>, StateError> {
        self.query("look up the library", |connection| {
            let texts = query_one(connection, "SELECT plan, stock FROM library", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((plan, stock)) = texts else { return Ok(None) };
            let sets = query_all(connection, "SELECT id FROM library_set ORDER BY number", [], |row| row.get(0).map(SetId))?;
            Ok(Some(KeptLibrary { plan, stock, sets }))
        })
    }

    /// Records a library that was set up anew.
    pub(crate) fn set_up_library(&self, library: &KeptLibrary) -> Result<(), StateError> {
        self.transact("record a new library", |connection| {
            connection.execute("DELETE FROM library_set", [])?;
            connection.execute("INSERT OR REPLACE INTO library (one, plan, stock) VALUES (1, ?1, ?2)", [&library.plan, &library.stock])?;
            let mut insert = connection.prepare_cached("INSERT INTO library_set (number, id) VALUES (?1, ?2)")?;
            library.sets.iter().zip(0_i64..).try_for_each(|(set, number)| insert.execute(params![number, set.0]).map(drop))
        })
    }

    /// Records where platters and shuttles are, and the settings of the library, if they changed.
    pub(crate) fn keep_library(&self, plan: Option<&str>, stock: &str) -> Result<(), StateError> {
        self.transact("record the state of the library", |connection| {
            let sql = "UPDATE library SET stock = ?1, plan = coalesce(?2, plan)";
            connection.prepare_cached(sql)?.execute(params![stock, plan]).map(drop)
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
