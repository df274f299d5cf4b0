//! After a run: reading everything back again, and releasing the source.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_places::{Cause, Connection, Place, Refusal};

use super::database::{Change, Database, DatabaseError, FileRow, State};
use super::destination::{BackReader, Destination};

/// Files that are handled between two transactions.
const PAGE: usize = 1_000;

/// The largest file that is kept in memory until its removal has proved right.
const KEPT_BYTES_MAX: u64 = 16 << 20;

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is as it was migrated; or it was released.
    Good,
    /// It was not there any more when it should have been released.
    Gone,
    /// The place has other bytes.
    Wrong(String),
    /// The place has no such file.
    Missing(String),
    /// The place could not say.
    Unknown(String),
    /// The destination has it in a buffer only, so the source keeps it.
    Buffered,
    /// When it was removed from the source, the destination didn't have it any more either.
    Shared {
        /// True if it was put back.
        is_back: bool,
    },
}

/// A file that shows that the source and the destination are one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// True if it was put back.
    pub is_back: bool,
}

/// Counts of findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// Files that are as they were migrated, and their bytes.
    pub good: (u64, u64),
    /// Files that were gone already.
    pub gone: u64,
    /// Files with other bytes, or none.
    pub wrong: u64,
    /// Files of which the place could not say.
    pub unknown: u64,
    /// Files that the destination has in a buffer only.
    pub buffered: u64,
    /// True if no file was there any more, so that nothing was recorded of the last ones.
    pub is_absent: bool,
    /// A file that was removed from both places at once; nothing was removed after it.
    pub shared: Option<Shared>,
}

impl Findings {
    fn add(&mut self, row: &FileRow, finding: &Finding) {
        match finding {
            Finding::Good => self.good = (self.good.0 + 1, self.good.1 + row.bytes),
            Finding::Gone => self.gone += 1,
            Finding::Wrong(_) | Finding::Missing(_) => self.wrong += 1,
            Finding::Unknown(_) => self.unknown += 1,
            Finding::Buffered => self.buffered += 1,
            Finding::Shared { is_back } => self.shared = Some(Shared { name: row.name.clone(), is_back: *is_back }),
        }
    }
}

/// Called with each file. Returns false to end early.
pub type Tell<'a> = &'a mut dyn FnMut(&FileRow, &Finding) -> bool;

/// Reads all migrated files back from the destination and compares them. A file that is wrong waits
/// to be migrated again; one that was released from the source is recorded as failed, until a later
/// scan finds it good. If no file is there any more, nothing is recorded: the destination is
/// absent, such as a disk that isn't mounted.
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
    // A file that was there: it says whether the destination still is.
    let mut witness: Option<FileRow> = None;
    // Released files that this scan records as failed: they are read and counted once.
    let mut lost = HashSet::new();
    let connect = || destination.back_reader();
    let check = |reader: &mut Box<dyn BackReader>, row: &FileRow| checked(reader.sha256(&row.name), row);
    for state in [State::Migrated, State::Released, State::Failed] {
        let mut after = 0;
        loop {
            let mut rows = database.in_state(state, after, PAGE)?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            // Failed files that were released may be back.
            rows.retain(|row| state != State::Failed || row.was_released && !lost.contains(&row.id));
            let found = each(&rows, threads, &connect, &check, true);
            if let Some((row, _)) = rows.iter().zip(&found).find(|(_, finding)| **finding == Finding::Good) {
                witness = Some(row.clone());
            }
            let is_missing = |finding: &Finding| matches!(finding, Finding::Missing(_));
            // Other bytes show that the destination is there, too.
            let has_others = found.iter().any(|finding| matches!(finding, Finding::Wrong(_)));
            let is_present =
                || witness.as_ref().is_some_and(|row| each(std::slice::from_ref(row), 1, &connect, &check, true) == [Finding::Good]);
            let is_absent = found.iter().any(is_missing) && !has_others && !is_present();
            let (mut changes, mut goes_on) = (Vec::new(), true);
            for (row, finding) in rows.iter().zip(&found) {
                findings.add(row, finding);
                goes_on &= tell(row, finding);
                match (finding, state) {
                    (Finding::Good, State::Failed) => changes.push((row.id, Change::Released)),
                    (Finding::Wrong(reason) | Finding::Missing(reason), State::Released) => {
                        lost.insert(row.id);
                        changes.push((row.id, Change::Failed { reason: format!("released from the source, and then {reason}") }));
                    }
                    (Finding::Wrong(reason) | Finding::Missing(reason), State::Migrated) => {
                        changes.push((row.id, Change::Retry { at: now_s, reason: reason.clone() }))
                    }
                    _ => {}
                }
            }
            if is_absent {
                findings.is_absent = true;
                return Ok(findings);
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
/// is read once more at the destination and at the source. One that is no longer as it was migrated
/// stays, because its bytes are nowhere else, and so does one that the destination has in a
/// [buffer](BackReader::is_buffered) only. Files that are gone are recorded as released only if
/// others were there. After each removal the destination must still have the file; otherwise the
/// places are one, and the release ends. Up to 1,000 files are removed at a time, and the smallest
/// of them first, alone.
///
/// # Errors
/// [`DatabaseError`]. What was removed before is recorded.
pub fn release(
    database: &mut Database,
    source: &dyn Place,
    destination: &dyn Destination,
    threads: u16,
    until: u64,
    tell: Tell<'_>,
) -> Result<Findings, DatabaseError> {
    let (mut findings, mut after) = (Findings::default(), 0);
    let connect = || Ok(Box::new(Both { source: source.connect()?, destination: destination.back_reader()? }));
    loop {
        let mut rows = database.migrated_until(until, after, PAGE)?;
        let Some(last) = rows.last() else { return Ok(findings) };
        after = last.id;
        // It can be put back, if it is the first that shows that both places are one.
        let smallest = (0..rows.len()).min_by_key(|&index| rows[index].bytes).expect("there is one");
        rows.swap(0, smallest);
        let is_one = AtomicBool::new(false);
        let release = |both: &mut Box<Both>, row: &FileRow| {
            if is_one.load(Ordering::Relaxed) {
                return Finding::Unknown("it was not looked at, because the places are one".to_owned());
            }
            let finding = both.release(row);
            is_one.fetch_or(matches!(finding, Finding::Shared { .. }), Ordering::Relaxed);
            finding
        };
        // No fresh connections within a page: one would accept an empty mount point.
        let mut found = each(&rows[..1], 1, &connect, &release, false);
        if !is_one.load(Ordering::Relaxed) {
            found.extend(each(&rows[1..], threads, &connect, &release, false));
        }
        let is_present = found.contains(&Finding::Good);
        let (mut changes, mut goes_on) = (Vec::new(), true);
        for (row, finding) in rows.iter().zip(&found) {
            findings.add(row, finding);
            goes_on &= tell(row, finding);
            if *finding == Finding::Good || *finding == Finding::Gone && is_present {
                changes.push((row.id, Change::Released));
            }
            if *finding == (Finding::Shared { is_back: false }) {
                let reason = "released from the source, and then the destination didn't have it any more: they were one place".to_owned();
                changes.extend([(row.id, Change::Released), (row.id, Change::Failed { reason })]);
            }
        }
        database.record(&changes)?;
        if !goes_on || findings.shared.is_some() {
            return Ok(findings);
        }
    }
}

/// Connections to both places.
struct Both {
    source: Box<dyn Connection>,
    destination: Box<dyn BackReader>,
}

impl Both {
    /// Removes a file from the source, if both places have it as it was migrated.
    fn release(&mut self, row: &FileRow) -> Finding {
        // Asked first: no file is read in vain. One that is missing is read, which says so.
        if let Ok(true) = self.destination.is_buffered(&row.name) {
            return Finding::Buffered;
        }
        match checked(self.destination.sha256(&row.name), row) {
            Finding::Good => {}
            Finding::Wrong(reason) | Finding::Missing(reason) => return Finding::Wrong(format!("at the destination {reason}")),
            Finding::Unknown(reason) => return Finding::Unknown(format!("at the destination: {reason}")),
            Finding::Gone | Finding::Buffered | Finding::Shared { .. } => unreachable!("a check removes nothing"),
        }
        let unknown = |refusal: Refusal| Finding::Unknown(refusal.to_string());
        let before = match self.source.revision(&row.name) {
            Ok(before) => before,
            Err(Refusal { cause: Cause::Missing, .. }) => return Finding::Gone,
            Err(refusal) => return unknown(refusal),
        };
        let (mut kept, mut digester) = (Vec::new(), Digester::new(&[Algorithm::Sha256]));
        let mut sink = |piece: &[u8]| {
            digester.update(piece);
            // The name may have become another, much larger file.
            if row.bytes <= KEPT_BYTES_MAX && (kept.len() + piece.len()) as u64 <= row.bytes {
                kept.extend_from_slice(piece);
            }
            true
        };
        let read = self.source.read(&row.name, &mut sink);
        let read = read.map(|bytes| (bytes, digester.finish().pop().expect("one digest for one algorithm")));
        match checked(read, row) {
            Finding::Good => {}
            Finding::Missing(_) if matches!(self.source.length(&row.name), Err(Refusal { cause: Cause::Missing, .. })) => {
                return Finding::Gone;
            }
            finding => return finding,
        }
        // Such as below a folder of the destination that is mounted at the source.
        let identities = (self.source.identity(&row.name), self.destination.identity(&row.name));
        if let (Ok(Some(source)), Ok(Some(destination))) = &identities
            && source == destination
        {
            return Finding::Wrong("the source and the destination have the same file, not two copies".to_owned());
        }
        match self.source.revision(&row.name) {
            Ok(after) if after == before => match self.source.remove(&row.name) {
                Ok(()) => self.removed(row, &kept),
                Err(refusal) => unknown(refusal),
            },
            Ok(_) => Finding::Wrong("it changed while it was read".to_owned()),
            Err(refusal) => unknown(refusal),
        }
    }

    /// After a removal from the source: the destination must still have the file. If it doesn't,
    /// puts the file back, if `kept` is its content.
    fn removed(&mut self, row: &FileRow, kept: &[u8]) -> Finding {
        if !matches!(self.destination.length(&row.name), Err(Refusal { cause: Cause::Missing, .. })) {
            return Finding::Good;
        }
        let mut content = kept;
        let is_back = kept.len() as u64 == row.bytes && self.source.write_new(&row.name, row.bytes, &mut content).is_ok();
        Finding::Shared { is_back }
    }
}

type Connect<'a, C> = &'a (dyn Fn() -> Result<Box<C>, Refusal> + Sync);
type Act<'a, C> = &'a (dyn Fn(&mut Box<C>, &FileRow) -> Finding + Sync);

/// Handles rows on several threads, each with a connection of its own. If `repeats`, a file that is
/// not as it was migrated is looked at again by a fresh one.
fn each<C: ?Sized>(rows: &[FileRow], threads: u16, connect: Connect<'_, C>, act: Act<'_, C>, repeats: bool) -> Vec<Finding> {
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
                        connection = (!repeats || matches!(finding, Finding::Good | Finding::Gone)).then_some(taken);
                        finding
                    };
                    let finding = taken.map_or_else(fresh, Ok).map_or_else(|failed| failed, &mut attempt);
                    let finding = match finding {
                        finding if !repeats => finding,
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
        Err(refusal) if refusal.cause == Cause::Missing => Finding::Missing(refusal.to_string()),
        // The place is there, and knows that it has lost the content.
        Err(refusal) if refusal.cause == Cause::Lost => Finding::Wrong(refusal.to_string()),
        Err(refusal) => Finding::Unknown(refusal.to_string()),
    }
}
