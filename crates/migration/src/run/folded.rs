//! Names that the destination takes for one.
//!
//! On a file system that ignores case, the second of two such files would find the first: with the
//! same content it would count as arrived, and be removed from the source later, although the
//! destination has one file and one name. So none of them is migrated.

use std::collections::HashMap;

use fulgurite_places::{Cause, Connection, Folding, Place, Refusal};

use super::database::{Change, Database, DatabaseError, FileId, NamedFile, State};

/// The names that may be one at the destination, by each of their files.
pub(super) type Suspects = HashMap<FileId, Vec<String>>;

/// Records files as failed whose names the destination doesn't distinguish, whatever became of them
/// before. `tell` is called with their names and the reason. Returns their number.
///
/// # Errors
/// [`DatabaseError`]. What was recorded before is kept.
pub fn refuse(
    database: &mut Database,
    source: &dyn Place,
    folding: Folding,
    tell: &mut dyn FnMut(&str, &str),
) -> Result<u64, DatabaseError> {
    let mut refused = 0;
    each_group(database, source, folding, &mut |database, group| {
        let mut changes = Vec::new();
        for file in group.iter().filter(|file| matches!(file.state, State::Waiting | State::Written | State::Migrated)) {
            let other = group.iter().find(|other| other.id != file.id).expect("a group has several files");
            let reason = indistinct(&other.name);
            tell(&file.name, &reason);
            changes.push((file.id, Change::Failed { reason }));
        }
        refused += changes.len() as u64;
        database.record(&changes)
    })?;
    Ok(refused)
}

/// The waiting files that a place might take for one, as long as it isn't known what it
/// distinguishes.
pub(super) fn suspects(database: &mut Database, source: &dyn Place) -> Result<Suspects, DatabaseError> {
    let mut suspects = Suspects::new();
    each_group(database, source, Folding::ALL, &mut |_, group| {
        let others = |file: &NamedFile| group.iter().filter(|other| other.id != file.id).map(|other| other.name.clone()).collect();
        suspects.extend(group.iter().filter(|file| file.state == State::Waiting).map(|file| (file.id, others(file))));
        Ok(())
    })?;
    Ok(suspects)
}

/// Why a suspect can't be written; `None` if it can.
pub(super) fn reason(name: &str, others: &[String], found: &Result<Folding, Refusal>) -> Option<String> {
    match found {
        Ok(folding) if !folding.is_any() => None,
        Ok(folding) => others.iter().find(|other| folding.key(other) == folding.key(name)).map(|other| indistinct(other)),
        Err(refusal) => {
            let other = others.first()?;
            Some(format!("whether the destination distinguishes its name from {other:?} can't be found out: {refusal}"))
        }
    }
}

fn indistinct(other: &str) -> String {
    format!("the destination doesn't distinguish its name from {other:?}: rename one of them at the source, or choose another destination")
}

type EachGroup<'a> = &'a mut dyn FnMut(&mut Database, &[&NamedFile]) -> Result<(), DatabaseError>;

/// Passes the files with one name at the destination to `each`, a group at a time.
fn each_group(database: &mut Database, source: &dyn Place, folding: Folding, each: EachGroup<'_>) -> Result<(), DatabaseError> {
    if !folding.is_any() {
        return Ok(());
    }
    let key = |name: &str| folding.key(name);
    database.note_keys(&key)?;
    let mut connection = None;
    let mut after = None;
    while let Some(page) = database.with_one_key(after, &key)? {
        after = Some(page.last);
        for group in page.groups {
            let source = connection.get_or_insert_with(|| source.connect().ok()).as_deref_mut();
            let there = there(&group, source);
            if there.len() > 1 {
                each(database, &there)?;
            }
        }
    }
    Ok(())
}

/// The files of a group that are at the destination, or may get there: others were renamed or
/// removed at the source. If none seems to be there, the source is probably absent.
fn there<'a>(group: &'a [NamedFile], mut source: Option<&mut (dyn Connection + 'static)>) -> Vec<&'a NamedFile> {
    let mut is_gone = |file: &NamedFile| {
        let asks = !file.was_released && matches!(file.state, State::Waiting | State::Failed);
        let length = source.as_deref_mut().filter(|_| asks).map(|source| source.length(&file.name));
        matches!(length, Some(Err(Refusal { cause: Cause::Missing, .. })))
    };
    let there: Vec<&NamedFile> = group.iter().filter(|file| !is_gone(file)).collect();
    if there.is_empty() { group.iter().collect() } else { there }
}
