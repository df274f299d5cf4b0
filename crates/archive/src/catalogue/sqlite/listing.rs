//! Listings: pages in the order of names.
//!
//! Staged and archived versions are two runs of one index, `version_in_order`, each in listing
//! order. A page reads at most its size from each of them and merges them. A page of newest
//! versions also reads a few older ones of each name, and the deleted names that it skips.

use std::cmp::{Ordering, Reverse};

use fulgurite_domain::{Kind, ObjectName, PlatterId, VersionId};
use rusqlite::{Connection, Rows, params};

use super::engine_error::EngineError;
use super::row::{NAME_COLUMN, VERSION_COLUMNS, read_version};
use super::schema::is_null_version;
use super::unlisted::code_of_reason;
use super::{put, sets};
use crate::catalogue::{ListCursor, NULL, Unlisted, VersionRow, VersionRowId, Versions};

/// After this many consecutive older versions of a name, seeking to the next name is faster than
/// scanning.
const OLDER_VERSIONS_BEFORE_SEEK: usize = 8;

/// Deleted names are skipped by reading further ahead, up to this many rows at once.
const DELETED_NAMES_AT_ONCE: usize = 256;

/// The staged or the archived versions. The number is the value of the column `archived`.
#[derive(Debug, Clone, Copy)]
enum Run {
    Staged = 0,
    Archived = 1,
}

pub(super) fn list(
    connection: &Connection,
    prefix: &[u8],
    versions: Versions,
    after: Option<&ListCursor>,
    limit: usize,
) -> Result<Vec<VersionRow>, EngineError> {
    match versions {
        Versions::All => page(connection, prefix, versions, after, limit),
        Versions::Newest => newest(connection, prefix, after, limit),
    }
}

fn newest(connection: &Connection, prefix: &[u8], after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, EngineError> {
    let mut found: Vec<VersionRow> = Vec::new();
    let mut after = after.cloned();
    let mut deleted = 0;
    while found.len() < limit {
        // Asking only for the missing rows would cost a query per deleted name where many follow
        // each other.
        let wanted = (limit - found.len()).max(deleted.min(DELETED_NAMES_AT_ONCE));
        let rows = page(connection, prefix, Versions::Newest, after.as_ref(), wanted)?;
        let (read, had) = (rows.len(), found.len());
        after = rows.last().map(ListCursor::after_row);
        found.extend(rows.into_iter().filter(|row| row.record.kind != Kind::DeletionMarker));
        deleted += read - (found.len() - had);
        if read < wanted {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

fn page(
    connection: &Connection,
    prefix: &[u8],
    versions: Versions,
    after: Option<&ListCursor>,
    limit: usize,
) -> Result<Vec<VersionRow>, EngineError> {
    let staged = page_of_run(connection, Run::Staged, prefix, versions, after, limit)?;
    let archived = page_of_run(connection, Run::Archived, prefix, versions, after, limit)?;
    Ok(merge(staged, archived, versions, limit))
}

pub(super) fn staged_versions(connection: &Connection, after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, EngineError> {
    page_of_run(connection, Run::Staged, b"", Versions::All, after, limit)
}

/// The highest version number of a name, unlisted versions included. Rows of unseen stores are
/// places, not versions. The condition repeats that of the index `unlisted_by_name` word for word,
/// or SQLite would not use it.
pub(super) fn latest_number_statement() -> String {
    let latest = |run: Run| {
        let archived = run as i64;
        format!("(SELECT number FROM version WHERE archived = {archived} AND name = ?1 ORDER BY number DESC LIMIT 1)")
    };
    let unseen_store = code_of_reason(Unlisted::UnseenStore);
    let unlisted = format!("(SELECT number FROM unlisted WHERE name = ?1 AND why <> {unseen_store} ORDER BY number DESC LIMIT 1)");
    format!("SELECT {}, {}, {unlisted}", latest(Run::Staged), latest(Run::Archived))
}

pub(super) fn latest_number(connection: &Connection, name: &ObjectName) -> Result<Option<i64>, EngineError> {
    let mut statement = connection.prepare_cached(&latest_number_statement())?;
    let numbers: [Option<i64>; 3] = statement.query_row([&name.0], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
    Ok(numbers.into_iter().max().flatten())
}

pub(super) fn versions_of(connection: &Connection, name: &ObjectName) -> Result<Vec<VersionRow>, EngineError> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {VERSION_COLUMNS} FROM version WHERE archived = ?1 AND name = ?2 ORDER BY number DESC, id DESC"
    ))?;
    let mut versions_in =
        |run: Run| statement.query_and_then(params![run as i64, name.0], read_version)?.collect::<Result<_, EngineError>>();
    Ok(merge(versions_in(Run::Staged)?, versions_in(Run::Archived)?, Versions::All, usize::MAX))
}

/// The newest staged and the newest archived version of a name. One statement, since between two a
/// commit could replace the archived version by a staged one, and both would find nothing.
pub(super) fn newest_statement() -> String {
    let newest = |run: Run| {
        let archived = run as i64;
        format!(
            "SELECT * FROM (SELECT {VERSION_COLUMNS} FROM version WHERE archived = {archived} AND name = ?1 \
             ORDER BY number DESC, id DESC LIMIT 1)"
        )
    };
    format!("{} UNION ALL {}", newest(Run::Staged), newest(Run::Archived))
}

pub(super) fn newest_of(connection: &Connection, name: &ObjectName) -> Result<Option<VersionRow>, EngineError> {
    let mut statement = connection.prepare_cached(&newest_statement())?;
    let found = statement.query_and_then([&name.0], read_version)?.collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().min_by(order))
}

pub(super) fn version(connection: &Connection, name: &ObjectName, id: VersionId) -> Result<Option<VersionRow>, EngineError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {VERSION_COLUMNS} FROM version WHERE archived IN (0, 1) AND name = ?1 AND id = ?2"))?;
    statement.query_and_then(params![name.0, id.0], read_version)?.next().transpose()
}

/// The null version of a name: the newest one in the index of null versions or, since that leaves
/// out number 1, the first version of the name.
pub(super) fn null_version(connection: &Connection, name: &ObjectName) -> Result<Option<VersionRow>, EngineError> {
    let is_null = |row: &VersionRow| row.record.attributes.get(NULL).is_some_and(<[u8]>::is_empty);
    let mut first = connection.prepare_cached(&format!(
        "SELECT {VERSION_COLUMNS} FROM version WHERE archived = ?1 AND name = ?2 AND number = 1 ORDER BY id DESC"
    ))?;
    let mut later = connection.prepare_cached(&format!(
        "SELECT {VERSION_COLUMNS} FROM version WHERE name = ?1 AND {} ORDER BY number DESC, id DESC",
        is_null_version()
    ))?;
    for row in later.query_and_then([&name.0], read_version)? {
        if let Some(row) = Some(row?).filter(is_null) {
            return Ok(Some(row));
        }
    }
    let mut found = Vec::new();
    for run in [Run::Staged, Run::Archived] {
        for row in first.query_and_then(params![run as i64, name.0], read_version)? {
            found.extend(Some(row?).filter(is_null));
        }
    }
    Ok(found.into_iter().min_by(order))
}

fn page_of_run(
    connection: &Connection,
    run: Run,
    prefix: &[u8],
    versions: Versions,
    after: Option<&ListCursor>,
    limit: usize,
) -> Result<Vec<VersionRow>, EngineError> {
    let mut found: Vec<VersionRow> = Vec::new();
    if limit == 0 {
        return Ok(found);
    }
    if let Some(after) = after
        && versions == Versions::All
        && !is_before(after)
        && after.name.0.starts_with(prefix)
    {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {VERSION_COLUMNS} FROM version WHERE archived = ?1 AND name = ?2 AND (number, id) < (?3, ?4) \
             ORDER BY number DESC, id DESC"
        ))?;
        for row in statement.query_and_then(params![run as i64, after.name.0, number_of(after), after.id.0], read_version)?.take(limit) {
            found.push(row?);
        }
        if found.len() == limit {
            return Ok(found);
        }
    }

    let mut from = match after {
        Some(after) if after.name.0.as_slice() >= prefix && is_before(after) => after.name.0.clone(),
        Some(after) if after.name.0.as_slice() >= prefix => smallest_name_after(&after.name.0),
        _ => prefix.to_vec(),
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {VERSION_COLUMNS} FROM version WHERE archived = ?1 AND name >= ?2 ORDER BY name, number DESC, id DESC"
    ))?;
    'seek: loop {
        let mut older = 0;
        let mut rows = statement.query(params![run as i64, from])?;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(NAME_COLUMN)?.as_blob().map_err(rusqlite::Error::from)?;
            if !name.starts_with(prefix) {
                break;
            }
            if versions == Versions::Newest && found.last().is_some_and(|last| last.record.name.0 == name) {
                older += 1;
                if older == OLDER_VERSIONS_BEFORE_SEEK {
                    from = smallest_name_after(name);
                    continue 'seek;
                }
                continue;
            }
            older = 0;
            found.push(read_version(row)?);
            if found.len() == limit {
                break;
            }
        }
        return Ok(found);
    }
}

/// True for a cursor before all versions of its name: the page starts with that name.
fn is_before(after: &ListCursor) -> bool {
    after.version == u64::MAX
}

fn smallest_name_after(name: &[u8]) -> Vec<u8> {
    [name, &[0]].concat()
}

/// The order of all listings: by name, newest first.
fn order(a: &VersionRow, b: &VersionRow) -> Ordering {
    let key = |row: &VersionRow| (Reverse(row.record.version), Reverse(row.id));
    a.record.name.cmp(&b.record.name).then_with(|| key(a).cmp(&key(b)))
}

fn merge(a: Vec<VersionRow>, b: Vec<VersionRow>, versions: Versions, limit: usize) -> Vec<VersionRow> {
    let mut merged: Vec<VersionRow> = Vec::with_capacity(limit.min(a.len() + b.len()));
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    while merged.len() < limit {
        let next = match (a.peek(), b.peek()) {
            (Some(first), Some(second)) if order(first, second).is_gt() => b.next(),
            (Some(_), _) => a.next(),
            (None, _) => b.next(),
        };
        let Some(next) = next else { break };
        if versions == Versions::Newest && merged.last().is_some_and(|last| last.record.name == next.record.name) {
            continue;
        }
        merged.push(next);
    }
    merged
}

/// Sorts the versions that have an extent on one of these platters into a temporary table, which
/// [`versions_on_page`] pages through.
///
/// Extents are ordered by platter and row, pages by name. Sorting once is cheaper than sorting for
/// each page.
pub(super) fn gather_versions_on(connection: &Connection, platters: &[PlatterId]) -> Result<(), EngineError> {
    connection.execute_batch(
        "DROP TABLE IF EXISTS temp.gathered; \
         CREATE TABLE temp.gathered (name BLOB, number INTEGER, id BLOB, version INTEGER, PRIMARY KEY (name, number DESC, id DESC)) WITHOUT ROWID;",
    )?;
    for &platter in platters {
        connection.execute(
            "INSERT OR IGNORE INTO temp.gathered SELECT name, number, id, version FROM version \
             WHERE version IN (SELECT version FROM extent WHERE platter = ?1) ORDER BY name, number DESC, id DESC",
            [sets::number_of(connection, platter)?],
        )?;
    }
    Ok(())
}

pub(super) fn versions_on_page(connection: &Connection, after: Option<&ListCursor>, limit: usize) -> Result<Vec<VersionRow>, EngineError> {
    let mut found = Vec::new();
    let mut take = |mut rows: Rows<'_>| -> Result<(), EngineError> {
        while found.len() < limit {
            let Some(row) = rows.next()? else { break };
            // Skips versions deleted since.
            found.extend(put::version(connection, VersionRowId(row.get(0)?))?);
        }
        Ok(())
    };
    let mut from = Vec::new();
    if let Some(after) = after {
        let mut rest = connection
            .prepare("SELECT version FROM temp.gathered WHERE name = ?1 AND (number, id) < (?2, ?3) ORDER BY number DESC, id DESC")?;
        take(rest.query(params![after.name.0, number_of(after), after.id.0])?)?;
        from = smallest_name_after(&after.name.0);
    }
    let mut next = connection.prepare("SELECT version FROM temp.gathered WHERE name >= ?1 ORDER BY name, number DESC, id DESC")?;
    take(next.query([from])?)?;
    Ok(found)
}

/// The version number after which a page continues. A caller's token can contain one that no
/// version can have.
fn number_of(after: &ListCursor) -> i64 {
    i64::try_from(after.version).unwrap_or(i64::MAX)
}

pub(super) fn knows(connection: &Connection, id: VersionId) -> Result<bool, EngineError> {
    let mut select = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM version WHERE id = ?1) OR EXISTS (SELECT 1 FROM unlisted WHERE id = ?1) \
         OR EXISTS (SELECT 1 FROM tombstone WHERE id = ?1)",
    )?;
    Ok(select.query_row([id.0], |row| row.get(0))?)
}

pub(super) fn newest_id(connection: &Connection) -> Result<Option<VersionId>, EngineError> {
    // For these reasons the identifier is not that of a version.
    let (unreadable_table, unseen_store) = (code_of_reason(Unlisted::UnreadableTable), code_of_reason(Unlisted::UnseenStore));
    let newest = format!(
        "SELECT max(id) FROM (SELECT max(id) AS id FROM version \
         UNION ALL SELECT max(id) FROM unlisted WHERE why NOT IN ({unreadable_table}, {unseen_store}) \
         UNION ALL SELECT max(id) FROM tombstone UNION ALL SELECT max(id) FROM archived_tombstone)"
    );
    Ok(connection.query_row(&newest, [], |row| row.get::<_, Option<[u8; 16]>>(0))?.map(VersionId))
}
