//! The catalogue's schema, and its connections.

use std::time::Duration;

use fulgurite_domain::ArchiveId;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::counters::Counters;
use super::engine_error::EngineError;
use crate::catalogue::CatalogueError;
use crate::schema::{FileOwner, Schema, archive_of};

/// The schema. The application id is "FuCa".
pub(super) const SCHEMA: Schema = Schema { application: 0x4675_4361, migrations: MIGRATIONS };

const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/0001_catalogue.sql"),
    include_str!("../migrations/0002_attributes.sql"),
    include_str!("../migrations/0003_null.sql"),
    include_str!("../migrations/0004_unlisted.sql"),
    include_str!("../migrations/0005_released.sql"),
    include_str!("../migrations/0006_medium.sql"),
    include_str!("../migrations/0007_row_counts.sql"),
    include_str!("../migrations/0008_fixity.sql"),
];

/// The condition of the index of null versions. The planner uses that index only for queries with
/// the same condition, word for word.
pub(super) fn is_null_version() -> &'static str {
    let (_, condition) = MIGRATIONS[2].rsplit_once(" WHERE ").expect("a partial index");
    condition.trim_end().trim_end_matches(';')
}

/// Lets a reader, which can't migrate the file, see a catalogue of version 1 as version 2. A
/// connection's temporary views take precedence over tables. If a writer migrates the file
/// meanwhile, the table's own column comes first and wins.
const FROM_VERSION_1: &str = "CREATE TEMP VIEW version AS SELECT *, NULL AS attributes FROM main.version";

/// Lets a reader of an older catalogue see the tables of version 4, which are empty there. If a
/// writer migrates the file meanwhile, this connection still sees them as empty.
const FROM_VERSION_3: &str = "CREATE TEMP VIEW unlisted AS SELECT NULL AS id, NULL AS why, NULL AS stored_bytes, NULL AS name, \
     NULL AS number, NULL AS row_check WHERE 0; \
     CREATE TEMP VIEW unlisted_segment AS SELECT NULL AS id, NULL AS segment, NULL AS row_check WHERE 0; \
     CREATE TEMP VIEW left_out AS SELECT NULL AS platter, NULL AS row_check WHERE 0; \
     CREATE TEMP VIEW staging_mark AS SELECT NULL AS one WHERE 0; \
     CREATE TEMP VIEW segment_end AS SELECT NULL AS number, NULL AS end_offset, NULL AS row_check WHERE 0;";

/// The same for the tables of version 5.
const FROM_VERSION_4: &str = "CREATE TEMP VIEW released AS SELECT NULL AS last_number, NULL AS first_number, NULL AS row_check WHERE 0; \
     CREATE TEMP VIEW archived_tombstone AS SELECT NULL AS id, NULL AS set_id, NULL AS row_check WHERE 0;";

/// The same for the column of version 6.
const FROM_VERSION_5: &str = "CREATE TEMP VIEW platter_set AS SELECT *, NULL AS medium FROM main.platter_set";

/// The same for the columns of version 7.
const FROM_VERSION_6: &str = "CREATE TEMP VIEW counter AS SELECT *, NULL AS archived_tombstones, NULL AS left_out, NULL AS released, \
     NULL AS segment_ends, NULL AS unlisted FROM main.counter";

/// The same for the columns of version 8.
const FROM_VERSION_7: &str = "CREATE TEMP VIEW platter AS SELECT *, NULL AS intact, NULL AS bad_headers, NULL AS unreadable, NULL AS repaired, \
     NULL AS repaired_state, NULL AS repaired_sectors FROM main.platter; \
     CREATE TEMP VIEW staged AS SELECT *, NULL AS verified, NULL AS damaged FROM main.staged;";

/// Length of the log, 16 MiB, after which a commit also moves it into the file.
const AUTOCHECKPOINT_PAGES: i64 = 4_096;

/// How long to wait for another process that is writing.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// Cache of the connection that changes the catalogue, KiB.
pub(crate) const MAIN_KIB: u64 = 49_152;
/// Cache of a connection that only reads, KiB. There may be many.
pub(crate) const READER_KIB: u64 = 2_048;

/// Memory of a connection in addition to its cache, KiB. Measured: 200 connections, each with a few
/// statements, took 210 each, including a small cache of 64.
pub(crate) const CONNECTION_KIB: u64 = 160;

pub(crate) fn set_cache(connection: &Connection, kib: u64) -> rusqlite::Result<()> {
    // Negative numbers are KiB, positive ones pages.
    connection.pragma_update(None, "cache_size", -(kib as i64))
}

pub(super) fn prepare(connection: &Connection, writes: bool) -> Result<(), EngineError> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // Plans must not depend on bound values: SQLite would otherwise plan a statement again whenever
    // the values differ, which costs more than running it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Overwrite deleted rows: a name must not outlive its object in a free page.
    connection.pragma_update(None, "secure_delete", true)?;
    set_cache(connection, if writes { MAIN_KIB } else { READER_KIB })?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn begin_writing(connection: &Connection) -> Result<(), EngineError> {
    crate::schema::begin_writing(connection)?;
    connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
    Ok(())
}

/// Creates the tables of a new catalogue, in a file without any.
pub(super) fn create(connection: &mut Connection, archive: ArchiveId) -> Result<(), EngineError> {
    begin_writing(connection)?;
    migrate(connection, archive)
}

fn migrate(connection: &mut Connection, archive: ArchiveId) -> Result<(), EngineError> {
    SCHEMA.bring_up_to_date(connection, archive, |transaction| Counters::create(transaction))
}

/// Checks that this is the catalogue of `archive`, in a schema that this program knows, before it
/// changes anything. A writer then migrates an older schema; a reader sees it through views as if
/// it were migrated.
pub(super) fn admit(connection: &mut Connection, archive: ArchiveId, writes: bool) -> Result<(), EngineError> {
    let FileOwner::This(found) = SCHEMA.identify(connection)? else {
        return Err(EngineError::Damaged("the file is not a catalogue".into()));
    };
    let known = SCHEMA.newest();
    if found > known {
        return Err(EngineError::Refused(CatalogueError::Newer { found, known }));
    }
    match archive_of(connection)? {
        None => return Err(EngineError::Damaged("it does not name its archive".into())),
        Some(found) if found != archive => return Err(EngineError::Refused(CatalogueError::OtherArchive { found, expected: archive })),
        Some(_) => {}
    }
    if writes {
        begin_writing(connection)?;
        return if found < known { migrate(connection, archive) } else { Ok(()) };
    }
    if found < 2 {
        connection.execute_batch(FROM_VERSION_1)?;
    }
    if found < 4 {
        connection.execute_batch(FROM_VERSION_3)?;
    }
    if found < 5 {
        connection.execute_batch(FROM_VERSION_4)?;
    }
    if found < 6 {
        connection.execute_batch(FROM_VERSION_5)?;
    }
    if found < 7 {
        connection.execute_batch(FROM_VERSION_6)?;
    }
    if found < 8 {
        connection.execute_batch(FROM_VERSION_7)?;
    }
    Ok(())
}
