//! After a run: reading everything back again, and releasing the source.

use std::sync::Mutex;
use std::thread;

use fulgurite_digest::Digest;
use fulgurite_places::{Cause, Connection, Place, Refusal};

use super::database::{Change, Database, DatabaseError, FileRow, State};
use super::destination::{BackReader, Destination, read_sha256};

/// Files that are handled between two transactions.
const PAGE: usize = 1_000;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is as it was migrated; or it was released.
    Good,
    /// It was not there any more when it should have been released.
    Gone,
    /// The place has other bytes, or none.
    Wrong(String),
    /// The place could not say.
    Unknown(String),
}

/// Counts of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Findings {
    /// Files that are as they were migrated, and their bytes.
    pub good: (u64, u64),
    /// Files that were gone already.
    pub gone: u64,
    /// Files with other bytes, or none.
    pub wrong: u64,
    /// Files of which the place could not say.
    pub unknown: u64,
}

impl Findings {
    fn add(&mut self, row: &FileRow, finding: &Finding) {
        match finding {
            Finding::Good => self.good = (self.good.0 + 1, self.good.1 + row.bytes),
            Finding::Gone => self.gone += 1,
            Finding::Wrong(_) => self.wrong += 1,
            Finding::Unknown(_) => self.unknown += 1,
        }
    }
}

/// Called with each file. Returns false to end early.
pub type Tell<'a> = &'a mut dyn FnMut(&FileRow, &Finding) -> bool;

/// Reads all migrated files back from the destination and compares them. A file that is wrong waits
/// to be migrated again, unless it was released from the source.
///
/// # Errors
/// [`DatabaseError`]. What was found before is recorded.
pub fn scan(
    database: &mut Database,
    destination: &dyn Destination,
    threads: u16,
    now_s: u64,
    tell: Tell<'_>,
) -> Result<Findings, DatabaseError> {
    let mut findings = Findings::default();
    for state in [State::Migrated, State::Released] {
        let mut after = 0;
        loop {
            let rows = database.in_state(state, after, PAGE)?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            let found = each(&rows, threads, &|| destination.back_reader(), &|reader: &mut Box<dyn BackReader>, row| {
                checked(reader.sha256(&row.name), row)
            });
            let mut changes = Vec::new();
            let mut goes_on = true;
            for (row, finding) in rows.iter().zip(&found) {
                findings.add(row, finding);
                goes_on &= tell(row, finding);
                if let Finding::Wrong(reason) = finding
                    && state == State::Migrated
                {
                    changes.push((row.id, Change::Retry { at: now_s, reason: reason.clone() }));
                }
            }
            database.record(&changes)?;
            if !goes_on {
                return Ok(findings);
            }
        }
    }
    Ok(findings)
}

/// Removes from the source what was migrated at `until` or before, in seconds since 1970. Each file
/// is read once more at the source: one that is no longer as it was migrated stays, because its
/// bytes are nowhere else. Files that are gone are recorded as released only if others were there.
///
/// # Errors
/// [`DatabaseError`]. What was removed before is recorded.
pub fn release(database: &mut Database, source: &dyn Place, threads: u16, until: u64, tell: Tell<'_>) -> Result<Findings, DatabaseError> {
    let (mut findings, mut after) = (Findings::default(), 0);
    loop {
        let rows = database.migrated_until(until, after, PAGE)?;
        let Some(last) = rows.last() else { return Ok(findings) };
        after = last.id;
        let found = each(&rows, threads, &|| source.connect(), &|connection: &mut Box<dyn Connection>, row| remove(&mut **connection, row));
        // If none is there, the source is probably absent, such as a disk that isn't mounted.
        let is_present = findings.good.0 > 0 || found.contains(&Finding::Good);
        let mut changes = Vec::new();
        let mut goes_on = true;
        for (row, finding) in rows.iter().zip(&found) {
            findings.add(row, finding);
            goes_on &= tell(row, finding);
            if *finding == Finding::Good || *finding == Finding::Gone && is_present {
                changes.push((row.id, Change::Released));
            }
        }
        database.record(&changes)?;
        if !goes_on {
            return Ok(findings);
        }
    }
}

type Connect<'a, C> = &'a (dyn Fn() -> Result<Box<C>, Refusal> + Sync);
type Act<'a, C> = &'a (dyn Fn(&mut Box<C>, &FileRow) -> Finding + Sync);

/// Handles rows on several threads, each with a connection of its own. A file that is not as it was
/// migrated is looked at again by a fresh one.
fn each<C: ?Sized>(rows: &[FileRow], threads: u16, connect: Connect<'_, C>, act: Act<'_, C>) -> Vec<Finding> {
    let next = Mutex::new(rows.iter().enumerate());
    let found: Mutex<Vec<Option<Finding>>> = Mutex::new(vec![None; rows.len()]);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut connection = None;
                let fresh = || connect().map_err(|refusal| Finding::Unknown(refusal.to_string()));
                loop {
                    let Some((index, row)) = next.lock().expect("no thread panics with it").next() else { break };
                    let taken: Option<Box<C>> = connection.take();
                    let mut attempt = |mut taken: Box<C>| {
                        let finding = act(&mut taken, row);
                        connection = matches!(finding, Finding::Good | Finding::Gone).then_some(taken);
                        finding
                    };
                    let finding = taken.map_or_else(fresh, Ok).map_or_else(|failed| failed, &mut attempt);
                    let finding = match finding {
                        Finding::Good | Finding::Gone => finding,
                        _ => fresh().map_or_else(|failed| failed, attempt),
                    };
                    found.lock().expect("no thread panics with it")[index] = Some(finding);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics with it");
    found.into_iter().map(|finding| finding.expect("each row was handled")).collect()
}

/// Compares what was read of a file with what was migrated.
fn checked(read: Result<(u64, Digest), Refusal>, row: &FileRow) -> Finding {
    match read {
        Ok((bytes, sha256)) if bytes == row.bytes && Some(&sha256) == row.sha256.as_ref() => Finding::Good,
        Ok((bytes, sha256)) => {
            Finding::Wrong(format!("it has other bytes than were migrated: {bytes} bytes with SHA-256 {}", sha256.hex()))
        }
        Err(refusal) if matches!(refusal.cause, Cause::Missing | Cause::Lost) => Finding::Wrong(refusal.to_string()),
        Err(refusal) => Finding::Unknown(refusal.to_string()),
    }
}

fn remove(connection: &mut dyn Connection, row: &FileRow) -> Finding {
    match checked(read_sha256(connection, &row.name), row) {
        Finding::Good => match connection.remove(&row.name) {
            Ok(()) => Finding::Good,
            Err(refusal) => Finding::Unknown(refusal.to_string()),
        },
        Finding::Wrong(_) if matches!(connection.length(&row.name), Err(Refusal { cause: Cause::Missing, .. })) => Finding::Gone,
        finding => finding,
    }
}
