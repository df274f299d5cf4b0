//! The command `store list`.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use anyhow::Result;
use fulgurite_archive::catalogue::{PlatterRow, SetDescription, SetState};
use fulgurite_archive::store::{PlatterStore, StoreError, check_all_and_list};
use fulgurite_archive::store_snapshot::locate_platters;
use fulgurite_archive::unread::NoPlatter;
use fulgurite_archive::{Access, Archive};
use fulgurite_domain::PlatterId;
use serde_json::{Value, json};

use crate::diagnostics::{note, trouble};
use crate::standard_output::standard_output;
use crate::text::{bytes, phrase};
use crate::{Outcome, Session};

struct Row<'a> {
    store: &'a dyn PlatterStore,
    /// Why it can't be used.
    error: Option<StoreError>,
    /// Why nothing can be written to it, though it can be read.
    read_only: Option<StoreError>,
    /// Number of platters on its disk, and their bytes; `None` if they can't be listed.
    found: Option<(u64, u64)>,
    /// Platters that the catalogue expects on it.
    expected: u64,
    /// Of these, platters that are on no store.
    missing: u64,
    /// Of these, platters that are on another store.
    elsewhere: u64,
    /// Of these, platters with lost sectors at the last read.
    damaged: u64,
}

pub(crate) fn list(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let (rows, storeless) = rows(&archive)?;
    let mut out = BufWriter::new(standard_output());
    if !session.json {
        writeln!(out, "{:9}  {:10}  {:>8}  {:>10}  {:>10}  folder", "store", "state", "platters", "used", "free")?;
    }
    for row in &rows {
        match session.json {
            true => writeln!(out, "{}", row.to_json())?,
            false => writeln!(out, "{}", row.line())?,
        }
    }
    out.flush()?;
    let mut said = Vec::new();
    for text in rows.iter().flat_map(Row::troubles) {
        // Two stores whose disks changed places have the same message.
        if !said.contains(&text) {
            trouble(&text);
            said.push(text);
        }
    }
    for why in rows.iter().filter_map(|row| row.read_only.as_ref()) {
        note(&why.to_string());
    }
    if storeless > 0 {
        let platters = phrase(
            storeless,
            "platter is missing, and its store is not in the settings",
            "platters are missing, and their stores are not in the settings",
        );
        trouble(&format!("{platters}: `fulgurite platters` shows which"));
    }
    Ok(rows.iter().fold(Outcome::troubled_if(storeless > 0), |outcome, row| outcome.worst(row.outcome())))
}

/// A row for each store in the settings, and the number of missing platters that belong to none of
/// them.
fn rows(archive: &Archive) -> Result<(Vec<Row<'_>>, u64)> {
    let mut platters = archive.catalogue().platters()?;
    platters.retain(|row| row.state == SetState::Complete);
    let places = locate_platters(archive, platters.iter().map(|row| &row.place));
    let checked = check_all_and_list(archive.stores());
    let sizes = platter_bytes(archive)?;
    let found: Vec<_> = archive.stores().iter().map(|store| found_on(archive, &checked, &sizes, store.name())).collect();
    let is_storeless = |row: &PlatterRow| archive.stores().iter().all(|store| store.name() != row.place.store);
    let is_missing = |place: &Result<String, NoPlatter>| matches!(place, Err(NoPlatter::Missing { .. }));
    let storeless = platters.iter().zip(&places).filter(|(row, place)| is_storeless(row) && is_missing(place)).count() as u64;
    let mut rows = Vec::with_capacity(found.len());
    for ((store, checked), found) in archive.stores().iter().zip(checked).zip(found) {
        let own: Vec<_> = platters.iter().zip(&places).filter(|(row, _)| row.place.store == store.name()).collect();
        let number =
            |is: &dyn Fn(&PlatterRow, &Result<String, NoPlatter>) -> bool| own.iter().filter(|(row, place)| is(row, place)).count() as u64;
        rows.push(Row {
            store: &**store,
            read_only: checked.as_ref().ok().and_then(|()| store.check_writable().err()),
            error: checked.err(),
            found,
            expected: own.len() as u64,
            missing: number(&|_, place| is_missing(place)),
            elsewhere: number(&|row, place| place.as_ref().is_ok_and(|place| *place != row.place.store)),
            damaged: number(&|row, place| place.is_ok() && row.health.is_damaged()),
        });
    }
    Ok((rows, storeless))
}

fn platter_bytes(archive: &Archive) -> Result<HashMap<PlatterId, u64>> {
    let sets = archive.catalogue().sets()?;
    let of_set = |set: &SetDescription| {
        let bytes = set.platter_bytes();
        set.platters.iter().map(|place| (place.platter, bytes)).collect::<Vec<_>>()
    };
    Ok(sets.iter().flat_map(|set| of_set(&set.description)).collect())
}

/// The number and the bytes of the platters on the disk of a store, even if the disk is in the
/// place of another store.
fn found_on(archive: &Archive, checked: &[Result<(), StoreError>], sizes: &HashMap<PlatterId, u64>, name: &str) -> Option<(u64, u64)> {
    let mut disks = archive.stores().iter().zip(checked);
    let (disk, _) = disks.find(|(store, checked)| match checked {
        Ok(()) => store.name() == name,
        Err(error) => error.is_disk_of() == Some(name),
    })?;
    let listed = disk.list().ok()?;
    let size = |platter: &PlatterId| {
        let length = || disk.open(*platter).ok().flatten().and_then(|file| file.stored_bytes().ok()).unwrap_or(0);
        sizes.get(platter).copied().unwrap_or_else(length)
    };
    Some((listed.len() as u64, listed.iter().map(size).sum()))
}

impl Row<'_> {
    fn state(&self) -> String {
        self.error.as_ref().or(self.read_only.as_ref()).map_or_else(|| "present".to_owned(), StoreError::state)
    }

    fn free_bytes(&self) -> Option<u64> {
        // The free space of an empty mount point says nothing about the store.
        if self.error.is_none() { self.store.free_bytes() } else { None }
    }

    fn line(&self) -> String {
        let shown = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), bytes);
        let platters = match self.found {
            Some((found, _)) if found < self.expected => format!("{found} of {}", self.expected),
            Some((found, _)) => found.to_string(),
            None => format!("? of {}", self.expected),
        };
        let (used, free) = (shown(self.found.map(|(_, used)| used)), shown(self.free_bytes()));
        format!("{:9}  {:10}  {platters:>8}  {used:>10}  {free:>10}  {}", self.store.name(), self.state(), self.store.place())
    }

    fn to_json(&self) -> Value {
        json!({
            "store": self.store.name(), "folder": self.store.place(), "state": self.state(),
            "platters": self.found.map(|(platters, _)| platters), "bytes": self.found.map(|(_, bytes)| bytes),
            "free_bytes": self.free_bytes(), "expected": self.expected, "missing": self.missing, "elsewhere": self.elsewhere,
            "damaged": self.damaged, "read_only": self.read_only.as_ref().map(ToString::to_string), "trouble": self.troubles(),
        })
    }

    fn troubles(&self) -> Vec<String> {
        let name = self.store.name();
        let platters = |number, what: &str| {
            let platters = phrase(number, "platter is", "platters are");
            (number > 0).then(|| format!("store {name}: {platters} {what}"))
        };
        let damaged = [
            platters(self.missing, "missing: `fulgurite scrub` recovers what is missing"),
            platters(self.elsewhere, "on another store: `fulgurite platters` shows where"),
            platters(self.damaged, "damaged: `fulgurite scrub` recovers what is damaged"),
        ];
        self.error.iter().map(ToString::to_string).chain(damaged.into_iter().flatten()).collect()
    }

    fn outcome(&self) -> Outcome {
        let hindrance = self.error.as_ref().map(StoreError::hindrance);
        // A platter that is elsewhere while its own store can't be used can't be put back.
        let elsewhere = match &self.error {
            None | Some(StoreError::Misplaced(_)) => self.elsewhere,
            Some(_) => 0,
        };
        Outcome::troubled_if(self.missing + elsewhere + self.damaged > 0).worst(Outcome::hindered(hindrance))
    }
}
