//! The commands `ls` and `status`.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Result, anyhow, bail};
use fulgurite_archive::catalogue::{Pages, PlatterRow, SetState, VersionRow, Versions};
use fulgurite_archive::reserved::is_reserved;
use fulgurite_archive::store::StoreError;
use fulgurite_archive::{Access, Archive, Standing, UnseenPlace};
use fulgurite_domain::{Kind, ObjectName};
use fulgurite_service::control::Connection;
use serde_json::{Value, json};

use crate::args::Ls;
use crate::text::{bytes, count, time};
use crate::{Outcome, Session};

/// Rows per catalogue query.
pub(crate) const PAGE: usize = 1_000;

/// Calls `each` for the versions with this name and below it; an empty name means everything except
/// reserved names. [`Versions::Newest`] skips deletion markers.
pub(crate) fn each_version(
    archive: &Archive,
    name: &[u8],
    versions: Versions,
    each: &mut dyn FnMut(VersionRow) -> Result<()>,
) -> Result<()> {
    if !name.is_empty() {
        let rows = archive.catalogue().versions_of(&ObjectName(name.to_vec()))?;
        match versions {
            Versions::All => rows.into_iter().try_for_each(&mut *each)?,
            Versions::Newest => rows.into_iter().take(1).filter(|row| !is_marker(row)).try_for_each(&mut *each)?,
        }
    }
    let below = if name.is_empty() { Vec::new() } else { [name, b"/"].concat() };
    let mut pages = Pages::default();
    while let Some(page) = pages.next(|after| archive.catalogue().list(&below, versions, after, PAGE))? {
        page.into_iter().filter(|row| !name.is_empty() || !is_reserved(&row.record.name)).try_for_each(&mut *each)?;
    }
    Ok(())
}

fn is_marker(row: &VersionRow) -> bool {
    row.record.kind == Kind::DeletionMarker
}

/// Parses an argument as a name, without leading and trailing slashes.
pub(crate) fn name_of(argument: &OsStr) -> Vec<u8> {
    let bytes = argument.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let start = bytes.iter().position(|&byte| byte != b'/').unwrap_or(0).min(end);
    bytes[start..end].to_vec()
}

pub(crate) fn ls(session: &Session, ls: &Ls) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let versions = if ls.versions { Versions::All } else { Versions::Newest };
    let name = ls.name.as_deref().map_or_else(Vec::new, name_of);
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut found = 0_u64;
    // Rows with the same name and number. Several exist only after a rebuild without all stores.
    let mut same: Vec<VersionRow> = Vec::new();
    let mut write = |rows: &[VersionRow]| -> Result<()> {
        for row in rows {
            match session.json {
                true => writeln!(out, "{}", version_json(row))?,
                false => writeln!(out, "{}", version_line(row, ls, rows.len() > 1))?,
            }
        }
        Ok(())
    };
    each_version(&archive, &name, versions, &mut |row| {
        found += 1;
        if same.first().is_some_and(|first| first.record.version != row.record.version || first.record.name != row.record.name) {
            write(&same)?;
            same.clear();
        }
        same.push(row);
        Ok(())
    })?;
    write(&same)?;
    out.flush()?;
    if found == 0 && !name.is_empty() {
        let name = ObjectName(name);
        let newest = archive.catalogue().newest(&name)?;
        return Err(match newest {
            Some(_) => anyhow!("{}", deleted(&name.display())),
            None => nothing_stored(&archive, &name)?,
        });
    }
    Ok(Outcome::Good)
}

/// The message for a name whose newest version is a deletion marker.
pub(crate) fn deleted(shown: &str) -> String {
    format!("{shown} was deleted; `fulgurite ls --versions` shows its earlier versions, and `fulgurite get --version` restores one")
}

/// The error for a name without a listed version.
pub(crate) fn nothing_stored(archive: &Archive, name: &ObjectName) -> Result<anyhow::Error> {
    let shown = name.display();
    Ok(match archive.catalogue().latest_number(name)? {
        Some(_) => anyhow!("{shown} exists, but no version of it can be listed; `fulgurite verify` says why"),
        None => anyhow!("nothing is stored as {shown}"),
    })
}

/// The version of a name that `--version` or `--id` selects, if any.
///
/// # Errors
/// If several versions match. The message starts with what is ambiguous and their identifiers, and
/// ends with `advice`.
pub(crate) fn one_chosen(
    rows: Vec<VersionRow>,
    shown: &str,
    number: Option<u64>,
    id: Option<&str>,
    advice: &str,
) -> Result<Option<VersionRow>> {
    let mut chosen: Vec<VersionRow> = rows.into_iter().filter(|row| is_chosen(row, number, id)).collect();
    if chosen.len() > 1 {
        let what = match number {
            Some(number) => format!("several versions numbered {number}"),
            None => format!("several versions whose identifiers begin with {}", id.unwrap_or_default()),
        };
        let ids: Vec<String> = chosen.iter().map(|row| row.id.to_string()).collect();
        bail!("{shown} has {what}: {}; {advice}", ids.join(", "));
    }
    Ok(chosen.pop())
}

/// True if a version has this number and an identifier that begins with `id`.
pub(crate) fn is_chosen(row: &VersionRow, number: Option<u64>, id: Option<&str>) -> bool {
    number.is_none_or(|number| number == row.record.version) && id.is_none_or(|id| row.id.to_string().starts_with(&id.to_lowercase()))
}

/// `is_shared`: true if other versions of the name have the same number.
fn version_line(row: &VersionRow, ls: &Ls, is_shared: bool) -> String {
    let record = &row.record;
    let mut name = record.name.display();
    match record.kind {
        Kind::Directory => name.push('/'),
        Kind::DeletionMarker => name.push_str("  (deletion marker)"),
        Kind::File | Kind::SymbolicLink => {}
    }
    if is_shared {
        name.push_str(&format!("  (id {})", row.id));
    }
    let number = if ls.versions { format!("{:>5}  ", record.version) } else { String::new() };
    if !ls.long {
        return format!("{number}{name}");
    }
    let kind = match record.kind {
        Kind::File => '-',
        Kind::SymbolicLink => 'l',
        Kind::Directory => 'd',
        Kind::DeletionMarker => 'x',
    };
    let modified = record.modified.map_or_else(|| " ".repeat(19), |modified| time(modified.seconds));
    let state = if row.archived { "archived" } else { "staged  " };
    format!("{kind} {:>14}  {modified}  {state}  {}  {number}{name}", record.size, record.sha256)
}

/// A name for JSON: unchanged if it is UTF-8, otherwise as displayed to people.
pub(crate) fn name_json(name: &ObjectName) -> String {
    std::str::from_utf8(&name.0).map_or_else(|_| name.display(), str::to_owned)
}

/// A name as a JSON object, with its bytes if they aren't UTF-8.
pub(crate) fn name_value(name: &ObjectName) -> Value {
    let mut value = json!({ "name": name_json(name) });
    if std::str::from_utf8(&name.0).is_err() {
        value["name_bytes"] = json!(name.0);
    }
    value
}

fn version_json(row: &VersionRow) -> Value {
    let record = &row.record;
    let kind = match record.kind {
        Kind::File => "file",
        Kind::SymbolicLink => "link",
        Kind::Directory => "folder",
        Kind::DeletionMarker => "deletion-marker",
    };
    let mut value = json!({
        "name": name_json(&record.name), "version": record.version, "kind": kind, "size": record.size, "sha256": record.sha256.to_string(),
        "state": if row.archived { "archived" } else { "staged" }, "encrypted": row.sealed, "created_ms": record.created_ms, "id": row.id.to_string(),
    });
    if let Some(modified) = record.modified {
        value["modified"] = json!(modified.seconds);
    }
    if !record.attributes.is_empty() {
        // A string if the value is UTF-8, otherwise its bytes as numbers.
        let shown = |bytes: &Vec<u8>| std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text));
        value["attributes"] = record.attributes.0.iter().map(|(name, bytes)| (name.clone(), shown(bytes))).collect();
    }
    // The exact bytes of a name that isn't UTF-8.
    if std::str::from_utf8(&record.name.0).is_err() {
        value["name_bytes"] = json!(record.name.0);
    }
    value
}

/// A store as `status` reports it.
struct StoreStatus {
    name: String,
    place: String,
    free_bytes: Option<u64>,
    /// Why it can't be used.
    trouble: Option<StoreError>,
    /// Platters that the catalogue expects on this store.
    platters: u64,
}

fn outcome_of(standing: &Standing) -> Outcome {
    let Standing { unlisted, unseen, unknown_platters, missing_segments, staging, .. } = standing;
    // The rest of the sets of unknown platters may be in places that the rebuild did not read.
    let unknown = if unseen.is_empty() { *unknown_platters } else { 0 };
    let troubled = *unlisted + unknown + *missing_segments > 0;
    let absent = if unseen.is_empty() { Outcome::Good } else { Outcome::Absent };
    let staging = staging.as_ref().map_or(Outcome::Good, |error| match error.hindrance() {
        None => Outcome::Troubled,
        hindrance => Outcome::hindered(hindrance),
    });
    Outcome::troubled_if(troubled).worst(absent).worst(staging)
}

/// Prints problems other than those of stores and platters.
fn say_standing(session: &Session, standing: &Standing) {
    let Standing { unlisted, unseen, unknown_platters, missing_segments, staging, .. } = standing;
    if *unlisted > 0 {
        let count = count(*unlisted, "version", "versions");
        session.say(&format!("unlisted  {count} that can't be listed: `fulgurite verify` says why"));
    }
    if *unknown_platters > 0 {
        session.say(&format!(
            "unknown   {} on the stores that the catalogue doesn't know: {}. `fulgurite catalogue rebuild` brings it up to date",
            count(*unknown_platters, "platter is", "platters are"),
            if unseen.is_empty() { "it is an old copy" } else { "the rest of their sets was not seen" }
        ));
    }
    if !unseen.is_empty() {
        session.say(&format!("unseen    {}", unseen_text(unseen)));
    }
    if let Some(error) = staging {
        session.say(&format!("staging   {error}"));
    } else if *missing_segments > 0 {
        session
            .say(&format!("staging   {} missing: what was staged there is lost", count(*missing_segments, "segment is", "segments are")));
    }
}

/// Describes what the last rebuild did not see.
pub(crate) fn unseen_text(unseen: &[UnseenPlace]) -> String {
    let advice = match unseen {
        [UnseenPlace::Others] => "`fulgurite store add` what is missing, then run `fulgurite catalogue rebuild` again",
        _ => "when it is back, run `fulgurite catalogue rebuild` again",
    };
    format!("not read when the catalogue was rebuilt: {}; {advice}", names_of(unseen).join(", "))
}

pub(crate) fn names_of(unseen: &[UnseenPlace]) -> Vec<String> {
    unseen.iter().map(ToString::to_string).collect()
}

pub(crate) fn status(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let totals = archive.catalogue().totals()?;
    let mut platters = archive.catalogue().platters()?;
    let mut sets = archive.catalogue().sets()?;
    let all_sets = sets.len();
    // Sets that are being written are still staged, and count there.
    sets.retain(|set| set.state == SetState::Complete);
    platters.retain(|platter| platter.state == SetState::Complete);
    let writing = (all_sets - sets.len()) as u64;
    let on_disk: u64 = sets.iter().map(|set| set.description.geometry.file_bytes() * set.description.platters.len() as u64).sum();
    let stores: Vec<StoreStatus> = archive
        .stores()
        .iter()
        .map(|store| StoreStatus {
            name: store.name().to_owned(),
            place: store.place(),
            free_bytes: store.free_bytes(),
            trouble: store.check().err(),
            platters: platters.iter().filter(|platter| platter.place.store == store.name()).count() as u64,
        })
        .collect();
    let standing = Standing::of(&archive)?;
    let is_unsound =
        |row: &&PlatterRow| row.health.missing || row.health.lost_sectors > 0 || standing.missing_platters.contains(&row.place.platter);
    let unsound = platters.iter().filter(is_unsound).count() as u64;
    let outcome = stores
        .iter()
        .filter_map(|store| store.trouble.as_ref())
        .map(|trouble| Outcome::hindered(Some(trouble.hindrance())))
        .fold(Outcome::troubled_if(unsound > 0), Outcome::worst)
        .worst(outcome_of(&standing));
    let never = platters.iter().filter(|platter| platter.health.verified.is_none()).count() as u64;
    let oldest = platters.iter().filter_map(|platter| platter.health.verified).min();
    // A server that doesn't answer is left out: `status` is about the archive.
    let server = Connection::status(archive.home()).ok().flatten();
    if session.json {
        let stores: Vec<Value> = stores
            .iter()
            .map(|store| {
                let state = store.trouble.as_ref().map_or_else(|| "there".to_owned(), |trouble| trouble.hindrance().to_string());
                json!({
                    "name": store.name, "place": store.place, "state": state, "free_bytes": store.free_bytes,
                    "trouble": store.trouble.as_ref().map(ToString::to_string), "platters": store.platters,
                })
            })
            .collect();
        session.answer(
            &json!({
                "archive": archive.id().to_string(), "objects": totals.objects, "versions": totals.versions, "content_bytes": totals.content_bytes,
                "staged": { "versions": totals.staged.versions, "stored_bytes": totals.staged.stored_bytes, "tombstones": totals.staged.tombstones, "oldest_ms": totals.staged.oldest_ms },
                "sets": sets.len(), "sets_being_written": writing, "platters": platters.len(), "platter_bytes": on_disk, "unsound_platters": unsound,
                "unlisted": standing.unlisted, "unseen": names_of(&standing.unseen), "unknown_platters": standing.unknown_platters,
                "missing_platters": standing.missing_platters.len(), "missing_segments": standing.missing_segments, "staging_trouble": standing.staging.as_ref().map(ToString::to_string),
                "oldest_verified": oldest, "never_verified": never, "stores": stores,
                "server": server.as_ref().map(|working| json!({ "working": working })),
            })
        );
        return Ok(outcome);
    }
    session.say(&format!("archive   {} in {}", archive.id(), archive.home().display()));
    session.say(&format!(
        "stored    {} in {}, {}",
        count(totals.objects, "object", "objects"),
        count(totals.versions, "version", "versions"),
        bytes(totals.content_bytes)
    ));
    let removals = match totals.staged.tombstones {
        0 => String::new(),
        number => format!(", {}", count(number, "removal", "removals")),
    };
    session.say(&format!(
        "staged    {}, {}{removals}",
        count(totals.staged.versions, "version", "versions"),
        bytes(totals.staged.stored_bytes)
    ));
    session.say(&format!(
        "platters  {} in {}, {} on disk{}{}",
        count(platters.len() as u64, "platter", "platters"),
        count(sets.len() as u64, "set", "sets"),
        bytes(on_disk),
        if writing > 0 { format!("; {} being written", count(writing, "set is", "sets are")) } else { String::new() },
        if unsound > 0 { format!("; {unsound} damaged or missing: `fulgurite scrub`") } else { String::new() }
    ));
    if !platters.is_empty() {
        let oldest = oldest.map(|at| format!("the longest unverified platter was read {} UTC", time(at as i64)));
        let verb = if never == 1 { "was" } else { "were" };
        let never = (never > 0).then(|| format!("{} {verb} never verified", count(never, "platter", "platters")));
        let told: Vec<String> = oldest.into_iter().chain(never).collect();
        session.say(&format!("verified  {}", told.join("; ")));
    }
    say_standing(session, &standing);
    if let Some(working) = &server {
        let doing = working.as_ref().map(|working| format!("; `{}` since {} UTC", working.what, time(working.since as i64)));
        session.say(&format!("server    running{}", doing.unwrap_or_default()));
    }
    session.say(&format!(
        "new sets  {}, {}",
        archive.settings().shape(),
        if archive.settings().archive.encrypt { "encrypted" } else { "in the clear" }
    ));
    for StoreStatus { name, place, free_bytes, trouble, platters } in stores {
        let held = count(platters, "platter", "platters");
        let free = free_bytes.map_or_else(String::new, |free| format!(", {} free", bytes(free)));
        match trouble {
            None => session.say(&format!("store     {name}: {place}, {held}{free}")),
            Some(trouble) => {
                let state = trouble.hindrance().to_string().to_uppercase();
                session.say(&format!("store     {name}: {state}, {held} should be there: {trouble}"));
            }
        }
    }
    Ok(outcome)
}
