//! Platter-sets and platters.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_domain::{Geometry, Medium, PlatterId, SetId, SetShape};
use rusqlite::{Connection, Row, params};

use super::counters::Ledger;
use super::engine_error::EngineError;
use super::row::{RowCheck, VersionCells, int, narrow, uint};
use super::{extents, put, unlisted};
use crate::catalogue::{
    ArchivedExtent, CatalogueError, Health, PlatterPlace, PlatterRow, Repair, SetDescription, SetRow, SetState, VersionRow, VersionRowId,
};
use crate::scrub::PlatterState;

struct SetCells {
    number: i64,
    id: SetId,
    /// From `complete` to `written`, in the order of [`SET_COLUMNS`]; six of them are the geometry.
    rest: [i64; 10],
    /// `None` (NULL) for the disk medium.
    medium: Option<i64>,
}

/// Glass in the column `medium`.
const GLASS: i64 = 1;

/// The columns of a set, in the order in which [`SetCells::read`] reads them.
const SET_COLUMNS: &str = "number, id, complete, information, redundancy, sector_bytes, track_information, track_redundancy, \
     group_information, group_redundancy, information_tracks, written, row_check, medium";

impl SetCells {
    fn check(&self) -> RowCheck {
        let row = RowCheck::of("platter_set").number(self.number).bytes(&self.id.0).numbers(self.rest);
        // The disk medium (NULL) doesn't enter the checksum, so that of a row written before there
        // were other media still matches.
        self.medium.into_iter().fold(row, RowCheck::number)
    }

    fn read(row: &Row<'_>) -> Result<Self, EngineError> {
        let mut rest = [0; 10];
        for (index, cell) in (2..).zip(&mut rest) {
            *cell = row.get(index)?;
        }
        let cells = Self { number: row.get(0)?, id: SetId(row.get(1)?), rest, medium: row.get(13)? };
        cells.check().confirm(row.get(12)?, || format!("set {}", cells.id))?;
        Ok(cells)
    }

    fn state(&self) -> SetState {
        if self.rest[0] == 0 { SetState::Writing } else { SetState::Complete }
    }

    fn row(&self, connection: &Connection) -> Result<SetRow, EngineError> {
        let [_, information, redundancy, geometry @ .., written] = self.rest;
        let [sector_bytes, track_information, track_redundancy, group_information, group_redundancy, tracks] = geometry;
        let what = "a number of a set";
        Ok(SetRow {
            description: SetDescription {
                id: self.id,
                shape: SetShape { information: narrow(information, what)?, redundancy: narrow(redundancy, what)? },
                medium: match self.medium {
                    None => Medium::Disk,
                    Some(GLASS) => Medium::Glass,
                    Some(other) => return Err(EngineError::Damaged(format!("the medium of set {} is {other}", self.id))),
                },
                geometry: Geometry {
                    sector_bytes: narrow(sector_bytes, what)?,
                    track_information: narrow(track_information, what)?,
                    track_redundancy: narrow(track_redundancy, what)?,
                    group_information: narrow(group_information, what)?,
                    group_redundancy: narrow(group_redundancy, what)?,
                    information_tracks: narrow(tracks, what)?,
                },
                written: uint(written, what)?,
                platters: platters_of(connection, self.number)?.into_iter().map(|cells| cells.place).collect(),
            },
            state: self.state(),
        })
    }
}

struct PlatterCells {
    number: i64,
    set_number: i64,
    position: i64,
    place: PlatterPlace,
    health: Health,
}

const PLATTER_COLUMNS: &str = "number, id, set_number, set_position, store, verified, missing, lost_sectors, lost_tracks, row_check, \
     intact, bad_headers, unreadable, repaired, repaired_state, repaired_sectors";

/// States in the column `repaired_state`: the number of a state is its place here, from 1.
const REPAIRED_STATES: [PlatterState; 6] = [
    PlatterState::Sound,
    PlatterState::Elsewhere,
    PlatterState::Absent,
    PlatterState::Unreadable,
    PlatterState::Missing,
    PlatterState::Damaged,
];

/// The columns of a platter's health.
struct HealthCells {
    verified: Option<i64>,
    /// `missing`, `lost_sectors` and `lost_tracks`.
    counts: [i64; 3],
    /// From `intact` on, in the order of [`PLATTER_COLUMNS`].
    further: [Option<i64>; 6],
}

impl PlatterCells {
    fn health(&self) -> Result<HealthCells, EngineError> {
        let Health { checked, missing, lost_sectors, lost_tracks, bad_headers, last_intact, unreadable, repaired } = self.health;
        let time = |time: Option<u64>| time.map(int).transpose();
        let state = |repair: Repair| REPAIRED_STATES.iter().position(|state| *state == repair.found).map(|index| index as i64 + 1);
        Ok(HealthCells {
            verified: time(checked)?,
            counts: [missing.into(), int(lost_sectors)?, lost_tracks.into()],
            further: [
                time(last_intact)?,
                (bad_headers > 0).then_some(bad_headers.into()),
                time(unreadable)?,
                time(repaired.map(|repair| repair.at))?,
                repaired.and_then(state),
                time(repaired.map(|repair| repair.lost_sectors))?,
            ],
        })
    }

    fn check(&self) -> Result<RowCheck, EngineError> {
        let HealthCells { verified, counts, further } = self.health()?;
        let row = RowCheck::of("platter")
            .numbers([self.number, self.set_number, self.position])
            .bytes(&self.place.platter.0)
            .bytes(self.place.store.as_bytes())
            .optional(verified)
            .numbers(counts);
        // Where all are NULL, they don't enter the checksum, so that of a row written before these
        // columns existed still matches.
        Ok(if further == [None; 6] { row } else { further.into_iter().fold(row, RowCheck::optional) })
    }

    fn read(row: &Row<'_>) -> Result<Self, EngineError> {
        let what = "a number of a platter";
        let number = |index: usize| -> Result<Option<u64>, EngineError> {
            row.get::<_, Option<i64>>(index)?.map(|number| uint(number, what)).transpose()
        };
        let repaired = match (number(13)?, number(14)?, number(15)?) {
            (None, None, None) => None,
            (Some(at), Some(state), Some(lost_sectors)) => {
                let state = usize::try_from(state).ok().and_then(|state| REPAIRED_STATES.get(state.checked_sub(1)?));
                let found = *state.ok_or_else(|| EngineError::Damaged("the state of a repaired platter is unknown".into()))?;
                Some(Repair { at, found, lost_sectors })
            }
            _ => return Err(EngineError::Damaged("the repair of a platter is incomplete".into())),
        };
        let cells = Self {
            number: row.get(0)?,
            set_number: row.get(2)?,
            position: row.get(3)?,
            place: PlatterPlace { platter: PlatterId(row.get(1)?), store: row.get(4)? },
            health: Health {
                checked: number(5)?,
                missing: row.get::<_, i64>(6)? != 0,
                lost_sectors: uint(row.get(7)?, what)?,
                lost_tracks: narrow(row.get(8)?, what)?,
                bad_headers: row.get::<_, Option<i64>>(11)?.map_or(Ok(0), |headers| narrow(headers, what))?,
                last_intact: number(10)?,
                unreadable: number(12)?,
                repaired,
            },
        };
        cells.check()?.confirm(row.get(9)?, || format!("platter {}", cells.place.platter))?;
        Ok(cells)
    }

    /// Writes the columns that can change: store and health.
    fn update(&self, connection: &Connection) -> Result<(), EngineError> {
        let HealthCells { verified, counts: [missing, lost_sectors, lost_tracks], further } = self.health()?;
        let [intact, bad_headers, unreadable, repaired, repaired_state, repaired_sectors] = further;
        connection
            .prepare_cached(
                "UPDATE platter SET store = ?2, verified = ?3, missing = ?4, lost_sectors = ?5, lost_tracks = ?6, row_check = ?7, \
                 intact = ?8, bad_headers = ?9, unreadable = ?10, repaired = ?11, repaired_state = ?12, repaired_sectors = ?13 \
                 WHERE number = ?1",
            )?
            .execute(params![
                self.number,
                self.place.store,
                verified,
                missing,
                lost_sectors,
                lost_tracks,
                self.check()?.sum(),
                intact,
                bad_headers,
                unreadable,
                repaired,
                repaired_state,
                repaired_sectors
            ])?;
        Ok(())
    }
}

fn find_set(connection: &Connection, id: SetId) -> Result<Option<SetCells>, EngineError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {SET_COLUMNS} FROM platter_set WHERE id = ?1"))?;
    statement.query_and_then([id.0], SetCells::read)?.next().transpose()
}

fn platters_of(connection: &Connection, set_number: i64) -> Result<Vec<PlatterCells>, EngineError> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {PLATTER_COLUMNS} FROM platter WHERE set_number = ?1 ORDER BY set_position"))?;
    statement.query_and_then([set_number], PlatterCells::read)?.collect()
}

fn find_platter(connection: &Connection, id: PlatterId) -> Result<Option<PlatterCells>, EngineError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {PLATTER_COLUMNS} FROM platter WHERE id = ?1"))?;
    statement.query_and_then([id.0], PlatterCells::read)?.next().transpose()
}

fn known_platter(connection: &Connection, platter: PlatterId) -> Result<PlatterCells, EngineError> {
    find_platter(connection, platter)?.ok_or(EngineError::Refused(CatalogueError::UnknownPlatter(platter)))
}

pub(super) fn number_of(connection: &Connection, platter: PlatterId) -> Result<i64, EngineError> {
    Ok(known_platter(connection, platter)?.number)
}

fn insert_set(connection: &Connection, set: &SetDescription, state: SetState) -> Result<(), EngineError> {
    let number = connection.query_row("SELECT coalesce(max(number), 0) + 1 FROM platter_set", [], |row| row.get(0))?;
    let Geometry { sector_bytes, track_information, track_redundancy, group_information, group_redundancy, information_tracks } =
        set.geometry;
    let cells = SetCells {
        number,
        id: set.id,
        rest: [
            (state == SetState::Complete).into(),
            set.shape.information.into(),
            set.shape.redundancy.into(),
            sector_bytes.into(),
            track_information.into(),
            track_redundancy.into(),
            group_information.into(),
            group_redundancy.into(),
            information_tracks.into(),
            int(set.written)?,
        ],
        medium: (set.medium == Medium::Glass).then_some(GLASS),
    };
    let [complete, information, redundancy, geometry @ .., written] = cells.rest;
    let [g0, g1, g2, g3, g4, g5] = geometry;
    connection.execute(
        &format!("INSERT INTO platter_set ({SET_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"),
        params![number, set.id.0, complete, information, redundancy, g0, g1, g2, g3, g4, g5, written, cells.check().sum(), cells.medium],
    )?;

    let first: i64 = connection.query_row("SELECT coalesce(max(number), 0) + 1 FROM platter", [], |row| row.get(0))?;
    for (position, place) in (0..).zip(&set.platters) {
        let cells =
            PlatterCells { number: first + position, set_number: number, position, place: place.clone(), health: Health::default() };
        connection.execute(
            &format!(
                "INSERT INTO platter ({PLATTER_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, NULL, 0, 0, 0, ?6, NULL, NULL, NULL, NULL, NULL, NULL)"
            ),
            params![cells.number, place.platter.0, number, position, place.store, cells.check()?.sum()],
        )?;
    }
    Ok(())
}

pub(super) fn begin(connection: &Connection, set: &SetDescription) -> Result<(), EngineError> {
    insert_set(connection, set, SetState::Writing)
}

pub(super) fn adopt(connection: &Connection, set: &SetDescription) -> Result<(), EngineError> {
    match find_set(connection, set.id)? {
        None => insert_set(connection, set, SetState::Complete),
        Some(known) => mark_complete(connection, known),
    }
}

fn writing(connection: &Connection, set: SetId) -> Result<SetCells, EngineError> {
    match find_set(connection, set)? {
        Some(cells) if cells.state() == SetState::Writing => Ok(cells),
        _ => Err(EngineError::Refused(CatalogueError::SetNotWriting(set))),
    }
}

fn mark_complete(connection: &Connection, mut set: SetCells) -> Result<(), EngineError> {
    set.rest[0] = 1;
    connection.execute("UPDATE platter_set SET complete = 1, row_check = ?2 WHERE number = ?1", [set.number, set.check().sum()])?;
    Ok(())
}

pub(super) fn complete(
    connection: &Connection,
    set: SetId,
    extents: &mut dyn Iterator<Item = ArchivedExtent>,
    verified: u64,
) -> Result<(), EngineError> {
    let cells = writing(connection, set)?;
    let mut platters = platters_of(connection, cells.number)?;
    for platter in &mut platters {
        platter.health = Health::intact_at(verified);
        platter.update(connection)?;
    }
    mark_complete(connection, cells)?;
    add_extents(connection, &platters, extents)
}

pub(super) fn archive_on(
    connection: &Connection,
    set: SetId,
    extents: &mut dyn Iterator<Item = ArchivedExtent>,
) -> Result<(), EngineError> {
    let cells = find_set(connection, set)?.filter(|cells| cells.state() == SetState::Complete);
    let cells = cells.ok_or(EngineError::Refused(CatalogueError::SetNotComplete(set)))?;
    add_extents(connection, &platters_of(connection, cells.number)?, extents)
}

/// Records extents on these platters, and archives the versions that are then covered.
fn add_extents(
    connection: &Connection,
    platters: &[PlatterCells],
    extents: &mut dyn Iterator<Item = ArchivedExtent>,
) -> Result<(), EngineError> {
    let numbers: BTreeMap<PlatterId, i64> = platters.iter().map(|platter| (platter.place.platter, platter.number)).collect();
    let mut ledger = Ledger::open(connection)?;
    let mut sharded = BTreeSet::new();
    for ArchivedExtent { version: row_id, extent } in extents {
        let platter = extent.platter;
        let &number = numbers.get(&platter).ok_or(EngineError::Refused(CatalogueError::UnknownPlatter(platter)))?;
        let Some(row) = put::version(connection, row_id)? else { continue };
        if row.archived {
            continue;
        }
        if extent.object_offset == 0 && extent.bytes == row.stored_bytes {
            extents::remove(connection, row_id)?;
            extents::insert(connection, row_id, number, &extent)?;
            archive(connection, &mut ledger, row)?;
        } else {
            extents::insert(connection, row_id, number, &extent)?;
            sharded.insert(row_id);
        }
    }
    for row_id in sharded {
        archive_if_covered(connection, &mut ledger, row_id)?;
    }
    ledger.close()
}

/// Archives a version if its recorded extents now cover all of it.
fn archive_if_covered(connection: &Connection, ledger: &mut Ledger<'_>, row_id: VersionRowId) -> Result<(), EngineError> {
    let Some(row) = put::version(connection, row_id)? else { return Ok(()) };
    if row.archived {
        return Ok(());
    }
    let Some(tiles) = extents::tile(extents::of(connection, row_id)?, row.stored_bytes) else { return Ok(()) };
    extents::remove(connection, row_id)?;
    for tile in tiles {
        extents::insert(connection, row_id, number_of(connection, tile.platter)?, &tile)?;
    }
    archive(connection, ledger, row)
}

fn archive(connection: &Connection, ledger: &mut Ledger<'_>, mut row: VersionRow) -> Result<(), EngineError> {
    put::leave_staging(connection, ledger, &row)?;
    row.archived = true;
    let check = VersionCells::of(&row)?.check(&row.record.name.0, &row.id.0, &row.record.sha256.0).sum();
    connection.prepare_cached("UPDATE version SET archived = 1, row_check = ?2 WHERE version = ?1")?.execute([row.row_id.0, check])?;
    Ok(())
}

pub(super) fn abandon(connection: &Connection, set: SetId) -> Result<(), EngineError> {
    delete(connection, &writing(connection, set)?)
}

pub(super) fn forget(connection: &Connection, set: SetId) -> Result<bool, EngineError> {
    let Some(cells) = find_set(connection, set)?.filter(|cells| cells.state() == SetState::Complete) else { return Ok(false) };
    let has_content = "SELECT EXISTS (SELECT 1 FROM extent WHERE platter IN (SELECT number FROM platter WHERE set_number = ?1))";
    if connection.query_row(has_content, [cells.number], |row| row.get(0))? {
        return Ok(false);
    }
    let platters: Vec<_> = platters_of(connection, cells.number)?.into_iter().map(|platter| platter.place.platter).collect();
    unlisted::leave_out(connection, &platters)?;
    delete(connection, &cells)?;
    Ok(true)
}

fn delete(connection: &Connection, set: &SetCells) -> Result<(), EngineError> {
    connection.execute("DELETE FROM platter WHERE set_number = ?1", [set.number])?;
    connection.execute("DELETE FROM platter_set WHERE number = ?1", [set.number])?;
    Ok(())
}

fn all(connection: &Connection) -> Result<Vec<SetCells>, EngineError> {
    let mut statement = connection.prepare_cached(&format!("SELECT {SET_COLUMNS} FROM platter_set ORDER BY written, number"))?;
    statement.query_and_then([], SetCells::read)?.collect()
}

pub(super) fn sets(connection: &Connection) -> Result<Vec<SetRow>, EngineError> {
    all(connection)?.iter().map(|cells| cells.row(connection)).collect()
}

pub(super) fn set_of(connection: &Connection, platter: PlatterId) -> Result<Option<SetRow>, EngineError> {
    let Some(platter) = find_platter(connection, platter)? else { return Ok(None) };
    let mut statement = connection.prepare_cached(&format!("SELECT {SET_COLUMNS} FROM platter_set WHERE number = ?1"))?;
    let set = statement.query_and_then([platter.set_number], SetCells::read)?.next().transpose()?;
    let set = set.ok_or_else(|| EngineError::Damaged(format!("the set of platter {} is missing", platter.place.platter)))?;
    Ok(Some(set.row(connection)?))
}

pub(super) fn platters(connection: &Connection) -> Result<Vec<PlatterRow>, EngineError> {
    let mut found = Vec::new();
    for set in all(connection)? {
        found.extend(rows_of(connection, &set)?);
    }
    Ok(found)
}

pub(super) fn platters_of_set(connection: &Connection, set: SetId) -> Result<Vec<PlatterRow>, EngineError> {
    find_set(connection, set)?.map_or(Ok(Vec::new()), |set| rows_of(connection, &set))
}

fn rows_of(connection: &Connection, set: &SetCells) -> Result<Vec<PlatterRow>, EngineError> {
    let row = |PlatterCells { position, place, health, .. }: PlatterCells| {
        Ok(PlatterRow { place, set: set.id, position: narrow(position, "the position of a platter")?, state: set.state(), health })
    };
    platters_of(connection, set.number)?.into_iter().map(row).collect()
}

pub(super) fn change_platter(
    connection: &Connection,
    platter: PlatterId,
    change: impl FnOnce(&mut PlatterPlace, &mut Health),
) -> Result<(), EngineError> {
    let mut cells = known_platter(connection, platter)?;
    change(&mut cells.place, &mut cells.health);
    cells.update(connection)
}

/// Checks that each set has as many platters as its shape says, and that the platters of all sets
/// add up to the platters in the table.
pub(super) fn check(connection: &Connection) -> Result<(), EngineError> {
    let mut described = 0;
    for SetDescription { id, shape, platters, .. } in sets(connection)?.into_iter().map(|set| set.description) {
        if platters.len() != usize::from(shape.platters()) {
            return Err(EngineError::Damaged(format!("set {id} has {} platters, expected {}", platters.len(), shape.platters())));
        }
        described += platters.len();
    }
    let known: i64 = connection.query_row("SELECT count(*) FROM platter", [], |row| row.get(0))?;
    if described as i64 != known {
        return Err(EngineError::Damaged(format!("it has {known} platters, but only {described} belong to a set")));
    }
    Ok(())
}
