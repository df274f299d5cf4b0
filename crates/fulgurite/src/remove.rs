//! The command `rm`: removes versions permanently, unless they are locked.

use std::ffi::OsStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::reserved::is_reserved;
use fulgurite_archive::{Access, Archive};
use fulgurite_domain::ObjectName;
use fulgurite_service::object_lock::{Hold, Lock};
use fulgurite_service::state::{Retention, RetentionMode, VersionStates};
use serde_json::json;

use crate::args::Rm;
use crate::diagnostics;
use crate::gaps::{find_gaps, nothing_stored, say_gaps};
use crate::list::{PAGE, each_version, is_chosen, name_of, one_chosen};
use crate::text::count;
use crate::{Outcome, Session};

pub(crate) fn rm(session: &Session, rm: &Rm) -> Result<Outcome> {
    let archive = session.open(Access::Write)?;
    let names: Vec<Vec<u8>> = rm.names.iter().map(|argument| removable(argument)).collect::<Result<_>>()?;
    // Check everything before removing anything. The archive's lock keeps other writers out
    // meanwhile.
    check_locks(&archive, rm, &names)?;
    check_ambiguity(&archive, rm, &names)?;
    let mut outcome = Outcome::Good;
    let mut removed = 0;
    for name in &names {
        let mut batch = Vec::new();
        let mut found = 0_u64;
        let mut is_folder = false;
        each_version(&archive, name, Versions::All, &mut |row| {
            is_folder |= row.record.name.0 != *name;
            if !is_removed(rm, name, &row) {
                return Ok(());
            }
            found += 1;
            batch.push(row);
            if batch.len() >= PAGE {
                archive.remove(&batch)?;
                batch.clear();
            }
            Ok(())
        })?;
        archive.remove(&batch)?;
        removed += found;
        if found == 0 {
            outcome = outcome.worst(Outcome::Troubled);
            let name = ObjectName(name.clone());
            let shown = name.display();
            let why = match (&rm.id, rm.version) {
                (Some(id), _) => format!("{shown} has no version whose identifier begins with {id}"),
                (None, Some(version)) => format!("{shown} has no version {version}"),
                (None, None) if is_folder => format!("{shown} is a folder; --recursive removes it"),
                (None, None) => nothing_stored(&archive, &name)?.to_string(),
            };
            diagnostics::trouble(&format!("not removed: {why}"));
        } else if rm.recursive {
            let shown = ObjectName(name.clone()).display();
            let gaps = find_gaps(&archive, name, Versions::All)?;
            outcome = outcome.worst(say_gaps(&gaps, &format!("versions of {shown} and below it may be left")));
        }
    }
    session.answer(|| json!({ "removed_versions": removed }));
    if removed > 0 || outcome == Outcome::Good {
        session.say(&format!("Removed {}.", count(removed, "version")));
    }
    if removed > 0 {
        session.say("Until `fulgurite flush` notes it on platters, the removal is known only to this folder.");
    }
    Ok(outcome)
}

/// Parses an argument as a name, and rejects names that can't be removed.
fn removable(argument: &OsStr) -> Result<Vec<u8>> {
    let name = ObjectName(name_of(argument));
    if name.0.is_empty() {
        bail!("the name is empty; no command removes everything");
    }
    if is_reserved(&name) {
        bail!(
            "{} is reserved for the archive and can't be removed: the S3 service keeps a copy of its buckets and accounts there",
            name.display()
        );
    }
    Ok(name.0)
}

fn is_removed(rm: &Rm, name: &[u8], row: &VersionRow) -> bool {
    (rm.recursive || row.record.name.0 == name) && is_chosen(row, rm.version, rm.id.as_deref())
}

/// Fails if `--version` or `--id` matches several versions. A rebuild can bring back a version
/// whose number was reused while its disk was away.
fn check_ambiguity(archive: &Archive, rm: &Rm, names: &[Vec<u8>]) -> Result<()> {
    if rm.version.is_none() && rm.id.is_none() {
        return Ok(());
    }
    for name in names {
        let name = ObjectName(name.clone());
        let rows = archive.catalogue().versions_of(&name)?;
        one_chosen(rows, &name.display(), rm.version, rm.id.as_deref(), "nothing was removed. --id ID removes one of them")?;
    }
    Ok(())
}

/// Fails if a version is locked over S3, by the lock it was put with or by later changes.
fn check_locks(archive: &Archive, rm: &Rm, names: &[Vec<u8>]) -> Result<()> {
    let states = VersionStates::open(archive)?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let mut first = None;
    let mut locked = 0_u64;
    for name in names {
        each_version(archive, name, Versions::All, &mut |row| {
            if is_removed(rm, name, &row)
                && let Some(hold) = Lock::of(&row.record, &states.of(row.id)?).hold(now_ms, rm.bypass_governance_retention)
            {
                locked += 1;
                first.get_or_insert((row.record.name, row.record.version, hold));
            }
            Ok(())
        })?;
    }
    let Some((name, version, hold)) = first else { return Ok(()) };
    let others = match locked - 1 {
        0 => String::new(),
        1 => ", and another one is locked".to_owned(),
        others => format!(", and {others} more are locked"),
    };
    let advice = match hold {
        Hold::Retention(Retention { mode: RetentionMode::Governance, .. }) => "; --bypass-governance-retention overrides governance mode",
        _ => "",
    };
    bail!("version {version} of {} is {hold}{others}; nothing was removed{advice}", name.display());
}
