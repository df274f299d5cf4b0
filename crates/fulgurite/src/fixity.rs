//! The command `fixity`: when each copy of an object was last verified. Reads only the catalogue
//! and the marks of stores, and lists what is on them.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use anyhow::{Result, bail};
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::store::check_all_and_list;
use fulgurite_archive::unread::Hindrance;
use fulgurite_archive::{Access, Archive, CopyState, ObjectFixity};
use fulgurite_domain::ObjectName;
use fulgurite_service::fixity::to_json;
use serde_json::json;

use crate::args::Fixity;
use crate::gaps::{find_gaps, nothing_stored, say_gaps};
use crate::list::{add_name, deleted, each_version, is_chosen, name_of};
use crate::standard_output::standard_output;
use crate::text::{bytes, time};
use crate::{Outcome, Session};

pub(crate) fn fixity(session: &Session, asked: &Fixity) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let name = name_of(&asked.name);
    if name.is_empty() {
        bail!("name an object or a folder of the archive");
    }
    let stores = StoreStates::of(&archive);
    let of_any_version = asked.version.is_some() || asked.id.is_some();
    let versions = if asked.versions || of_any_version { Versions::All } else { Versions::Newest };
    let mut out = BufWriter::new(standard_output());
    let (mut found, mut outcome) = (0_u64, Outcome::Good);
    each_version(&archive, &name, versions, &mut |row| {
        if of_any_version && (row.record.name.0 != name || !is_chosen(&row, asked.version, asked.id.as_deref())) {
            return Ok(());
        }
        // `None`: it was removed since it was listed.
        let Some(fixity) = archive.fixity(&row, &|store| stores.hindrance(store))? else { return Ok(()) };
        found += 1;
        outcome = outcome.worst(outcome_of(&fixity));
        match session.json {
            true => writeln!(out, "{}", as_json(&fixity))?,
            false => write(&mut out, &fixity)?,
        }
        Ok(())
    })?;
    out.flush()?;
    if found == 0 {
        let name = ObjectName(name);
        if archive.catalogue().newest(&name)?.is_some() {
            if of_any_version {
                bail!("{} has no such version; `fulgurite ls --versions` lists its versions", name.display());
            }
            bail!("{}", deleted(&name.display()));
        }
        return Err(nothing_stored(&archive, &name)?);
    }
    Ok(outcome.worst(say_gaps(&find_gaps(&archive, &name, versions)?, "the list may be too")))
}

/// Why stores can't be used now.
struct StoreStates(HashMap<String, Option<Hindrance>>);

impl StoreStates {
    fn of(archive: &Archive) -> Self {
        let checked = archive.stores().iter().zip(check_all_and_list(archive.stores()));
        Self(checked.map(|(store, checked)| (store.name().to_owned(), checked.err().map(|error| error.hindrance()))).collect())
    }

    /// A store that the settings don't name is absent.
    fn hindrance(&self, store: &str) -> Option<Hindrance> {
        self.0.get(store).copied().unwrap_or(Some(Hindrance::Absent))
    }
}

fn outcome_of(fixity: &ObjectFixity) -> Outcome {
    match fixity.worst_state() {
        None | Some(CopyState::Good | CopyState::Unverified) => Outcome::Good,
        Some(CopyState::Absent) => Outcome::Absent,
        Some(CopyState::Unreadable) => Outcome::Unreadable,
        Some(CopyState::Missing | CopyState::Damaged) => Outcome::Troubled,
    }
}

fn as_json(fixity: &ObjectFixity) -> serde_json::Value {
    let VersionRow { id, record, .. } = &fixity.version;
    let mut value = to_json(fixity);
    value["version"] = json!(record.version);
    value["id"] = json!(id.to_string());
    add_name(&mut value, &record.name);
    value
}

fn write(out: &mut impl Write, fixity: &ObjectFixity) -> Result<()> {
    let record = &fixity.version.record;
    writeln!(out, "{}  version {}, {}, SHA-256 {}", record.name.display(), record.version, bytes(record.size), record.sha256)?;
    let date = |at: Option<u64>| at.map_or_else(|| "never verified".to_owned(), |at| format!("verified {} UTC", time(at as i64)));
    let state = |state: CopyState| if state.is_usable() { state.word().to_owned() } else { state.word().to_uppercase() };
    if let Some(copy) = &fixity.staged {
        writeln!(out, "  staged: {}, {}", state(copy.state), date(copy.health.verified))?;
    }
    for copy in &fixity.shards {
        let store = copy.store.as_deref().unwrap_or("unknown");
        let repaired = copy.health.repaired.map_or_else(String::new, |repair| {
            let found = if repair.found.word() == "sound" { String::new() } else { format!(", found {}", repair.found.word()) };
            format!("; rewritten {} UTC{found}", time(repair.at as i64))
        });
        let (held, platter) = (bytes(copy.bytes), copy.platter);
        writeln!(out, "  {held} on platter {platter}, store {store}: {}, {}{repaired}", state(copy.state), date(copy.health.verified()))?;
    }
    for set in &fixity.sets {
        let (shape, usable, spare) = (set.shape, set.usable, set.platters_to_spare());
        match set.platters_short() {
            0 => writeln!(out, "  set {} of {shape}: {usable} platters usable, {spare} of them to spare", set.id)?,
            short => writeln!(out, "  set {} of {shape}: {usable} platters usable, {short} TOO FEW to replace the others", set.id)?,
        }
    }
    if fixity.platters_short() > 0 {
        writeln!(out, "  it can't be read now, except for what damaged platters still hold")?;
    }
    Ok(())
}
