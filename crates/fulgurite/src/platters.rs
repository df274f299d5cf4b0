//! The commands `verify`, `scrub`, `platters`, `recover` and `inspect`.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Result, bail};
use fulgurite_archive::catalogue::SetState;
use fulgurite_archive::content::look_for;
use fulgurite_archive::inspect::{Inspection, inspect as inspect_file};
use fulgurite_archive::unread::{AwayStore, Hindrance, NoPlatter};
use fulgurite_archive::watch::{OutOfReach, Trouble, Watcher};
use fulgurite_archive::{Access, NOWHERE, ObjectsReport, PlatterFinding, PlatterState, Replace, ScrubReport, UnknownPlatter};
use fulgurite_format::{Frames, decode_record};
use serde_json::{Value, json};

use crate::args::{Inspect, Recover, Scrub, Verify};
use crate::diagnostics;
use crate::get::{repairs_json, repairs_text};
use crate::list::{names_of, unseen_text};
use crate::progress::Progress;
use crate::setup::shared_text;
use crate::text::{bytes, count, harmless, time};
use crate::{Outcome, Session};

pub(crate) fn verify(session: &Session, verify: &Verify) -> Result<Outcome> {
    // Verifying records the health of platters in the catalogue, so it needs access for changes.
    let archive = session.engine("verify", Access::Repair)?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    // Each loss is named once. If objects are verified, that pass looks closer and names it.
    let report = if verify.objects { archive.scrub(None, &NamingNothingLost(&progress))? } else { archive.scrub(None, &progress)? };
    let objects = if verify.objects { Some(archive.verify_objects(&progress)?) } else { None };
    progress.finish();
    say_report(session, &report, objects, progress.lost());
    if let Some(ObjectsReport { versions, wrong, out_of_reach }) = objects {
        session.say(&format!(
            "Opened {}: {}.",
            count(versions - out_of_reach.total(), "version", "versions"),
            match wrong {
                0 => "each matches what was stored".to_owned(),
                wrong => format!("{} lost or different from what was stored", count(wrong, "is", "are")),
            }
        ));
        if let Some(text) = out_of_reach_text(out_of_reach) {
            session.say(&text);
        }
    }
    let hindrance = report.hindrance().max(objects.and_then(|objects| objects.out_of_reach.hindrance()));
    let troubled = report.unsound.iter().any(is_known_bad)
        || !report.nothing_is_lost()
        || has_unknown(&report)
        || objects.is_some_and(|objects| objects.wrong > 0);
    Ok(Outcome::troubled_if(troubled).worst(Outcome::hindered(hindrance)).worst(unseen(&report)))
}

/// True if a finding is certain: the platter is neither absent nor unreadable.
fn is_known_bad(finding: &PlatterFinding) -> bool {
    finding.state().hindrance().is_none()
}

/// How many versions can't be read now, if any.
fn out_of_reach_text(out_of_reach: OutOfReach) -> Option<String> {
    let because = match (out_of_reach.absent, out_of_reach.unreadable) {
        (0, 0) => return None,
        (_, 0) => "stores are absent".to_owned(),
        (0, _) => "something is unreadable".to_owned(),
        (absent, unreadable) => format!("stores are absent ({absent}) or something is unreadable ({unreadable})"),
    };
    Some(format!("{} can't be read now, because {because}.", count(out_of_reach.total(), "version", "versions")))
}

/// Forwards everything except the names of versions that are lost or can't be read now.
struct NamingNothingLost<'a>(&'a Progress);

impl Watcher for NamingNothingLost<'_> {
    fn stage(&self, what: &str, bytes: Option<u64>) {
        self.0.stage(what, bytes);
    }

    fn expect(&self, objects: u64, bytes: u64) {
        self.0.expect(objects, bytes);
    }

    fn done(&self, objects: u64, bytes: u64) {
        self.0.done(objects, bytes);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        if !matches!(trouble, Trouble::Lost { .. } | Trouble::Unreachable { .. }) {
            self.0.trouble(trouble);
        }
    }
}

pub(crate) fn scrub(session: &Session, scrub: &Scrub) -> Result<Outcome> {
    let archive = session.engine("scrub", Access::Repair)?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    let replace = Replace { absent: scrub.replace_absent, unreadable: scrub.replace_unreadable };
    let report = archive.scrub(Some(replace), &progress)?;
    progress.finish();
    say_report(session, &report, None, progress.lost());
    let not_rebuilt = report.unsound.len() as u64 > report.rebuilt + report.left;
    // Recovered platters are no longer absent or unreadable.
    let hindrance = if report.left == 0 && !not_rebuilt { report.out_of_reach.hindrance() } else { report.hindrance() };
    // A platter that wasn't recovered only because stores are absent is not known to be damaged.
    let troubled = not_rebuilt && (hindrance.is_none() || report.unsound.iter().any(is_known_bad));
    let troubled = troubled || !report.nothing_is_lost() || has_unknown(&report);
    Ok(Outcome::troubled_if(troubled).worst(Outcome::hindered(hindrance)).worst(unseen(&report)))
}

/// True if platters unknown to the catalogue are a defect: some are damaged, or the catalogue is an
/// old copy.
fn has_unknown(report: &ScrubReport) -> bool {
    let is_damaged = |platter: &UnknownPlatter| platter.lost_sectors > 0 || !platter.is_readable;
    report.unknown.iter().any(|platter| report.unseen.is_empty() || is_damaged(platter))
}

/// Stores that the last rebuild did not read may contain unknown versions.
fn unseen(report: &ScrubReport) -> Outcome {
    if report.unseen.is_empty() { Outcome::Good } else { Outcome::Absent }
}

fn unknown_json(unknown: &UnknownPlatter) -> Value {
    json!({
        "platter": unknown.platter.to_string(), "store": unknown.store, "lost_sectors": unknown.lost_sectors, "unreadable": unknown.unreadable,
        "readable": unknown.is_readable,
    })
}

fn say_report(session: &Session, report: &ScrubReport, objects: Option<ObjectsReport>, lost: Vec<Value>) {
    if session.json {
        let unsound: Vec<_> = report
            .unsound
            .iter()
            .map(|finding| {
                json!({
                    "platter": finding.platter.to_string(), "store": finding.store, "position": finding.position,
                    "state": finding.state().word(), "why": why(finding), "missing": finding.state() == PlatterState::Missing,
                    "elsewhere": finding.elsewhere, "unreadable": finding.unreadable,
                    "lost_sectors": finding.lost_sectors, "lost_tracks": finding.lost_tracks, "bad_headers": finding.bad_headers,
                })
            })
            .collect();
        let mut value = json!({
            "platters": report.platters_read, "platters_expected": report.platters, "bytes": report.bytes, "unsound": unsound, "rebuilt": report.rebuilt, "left": report.left,
            "lost_versions": report.lost_versions, "lost": lost,
            "out_of_reach": { "absent": report.out_of_reach.absent, "unreadable": report.out_of_reach.unreadable },
            "staged_versions": report.staged_versions, "repairs": repairs_json(report.repairs),
            "unlisted_versions": report.unlisted, "shared_numbers": report.shared_numbers, "unseen": names_of(&report.unseen),
            "unknown_platters": report.unknown.iter().map(unknown_json).collect::<Vec<_>>(),
        });
        if let Some(ObjectsReport { versions, wrong, out_of_reach }) = objects {
            let read = versions - out_of_reach.total();
            value["objects"] =
                json!({ "read": read, "wrong": wrong, "absent": out_of_reach.absent, "unreadable": out_of_reach.unreadable });
        }
        session.answer(&value);
        return;
    }
    session.say(&format!(
        "Read {} ({}) and {}.",
        match report.platters - report.platters_read {
            0 => count(report.platters, "platter", "platters"),
            _ => format!("{} of {}", report.platters_read, count(report.platters, "platter", "platters")),
        },
        bytes(report.bytes),
        count(report.staged_versions, "staged version", "staged versions")
    ));
    say_unsound(session, &report.unsound);
    if report.repairs.tracks() > 0 {
        session.say(&repairs_text(report.repairs));
    }
    if report.rebuilt > 0 {
        session.say(&format!("Recovered {}, and read back what was written.", count(report.rebuilt, "platter", "platters")));
    }
    if let Some(text) = out_of_reach_text(report.out_of_reach) {
        session.say(&text);
    }
    say_unknown(session, report);
    session.say(&verdict(report));
}

/// Prints unsound platters: one line per store and reason for those that can't be reached, and one
/// line for each of the others.
fn say_unsound(session: &Session, unsound: &[PlatterFinding]) {
    // `--quiet` suppresses only summaries: a nightly job must still report problems.
    let say = |text: &str| if session.quiet { diagnostics::trouble(text) } else { session.say(text) };
    let mut away: BTreeMap<(&str, &NoPlatter), u64> = BTreeMap::new();
    for finding in unsound {
        if let Some(gone) = finding.gone.as_ref().filter(|gone| gone.hindrance().is_some()) {
            *away.entry((&finding.store, gone)).or_default() += 1;
        }
    }
    for ((store, gone), platters) in away {
        let platters = count(platters, "platter", "platters");
        say(&match gone {
            // A note says what was found in the store's place.
            NoPlatter::Away(AwayStore { hindrance: Hindrance::Absent, .. }) => format!("{platters} on store {store}: absent"),
            gone => format!("{platters} on store {store}: unreadable: {gone}"),
        });
    }
    for finding in unsound.iter().filter(|finding| finding.gone.as_ref().is_none_or(|gone| gone.hindrance().is_none())) {
        let damage = || {
            format!(
                "{}, {} beyond their own code, {}",
                count(finding.lost_sectors, "lost sector", "lost sectors"),
                count(finding.lost_tracks.into(), "track", "tracks"),
                count(finding.bad_headers.into(), "bad header copy", "bad header copies")
            )
        };
        let refused =
            || format!("{} ({})", count(finding.unreadable, "part can't be read", "parts can't be read"), why(finding).unwrap_or_default());
        let on = finding.elsewhere.as_ref().map_or_else(String::new, |other| format!("it is on store {other}, and "));
        let what = match finding.state() {
            PlatterState::Missing => "missing".to_owned(),
            PlatterState::Absent | PlatterState::Unreadable => format!("{on}unreadable: {}", refused()),
            PlatterState::Elsewhere | PlatterState::Sound => format!("{on}whole"),
            PlatterState::Damaged if finding.unreadable > 0 => format!("{on}damaged: {}; {}", damage(), refused()),
            PlatterState::Damaged => format!("{on}damaged: {}", damage()),
        };
        say(&format!("platter {} on store {}: {what}", finding.platter, finding.store));
    }
}

/// Why a platter, or some of it, can't be read.
fn why(finding: &PlatterFinding) -> Option<String> {
    finding.gone.as_ref().map(ToString::to_string).or_else(|| finding.why_unreadable.clone())
}

/// Prints what the catalogue doesn't know or can't list.
fn say_unknown(session: &Session, report: &ScrubReport) {
    if !report.unknown.is_empty() {
        let unknown = count(report.unknown.len() as u64, "platter", "platters");
        let damaged = report.unknown.iter().filter(|platter| platter.lost_sectors > 0 || !platter.is_readable).count();
        session.warn(&format!(
            "Found {unknown} that the catalogue doesn't know, {damaged} of them damaged: {}. \
             `fulgurite catalogue rebuild` brings it up to date.",
            if report.unseen.is_empty() { "the catalogue is an old copy" } else { "the rest of their sets was not seen" }
        ));
    }
    if !report.unseen.is_empty() {
        session.warn(&format!("The catalogue may not be complete: {}.", unseen_text(&report.unseen)));
    }
    if report.shared_numbers > 0 {
        session.say(&shared_text(report.shared_numbers));
    }
    if report.unlisted > 0 {
        session.warn(&format!("{} can't be listed, named above.", count(report.unlisted, "version", "versions")));
    }
}

/// The closing line. It claims only what was checked.
fn verdict(report: &ScrubReport) -> String {
    if report.lost_versions > 0 {
        return format!("{} lost, named above.", count(report.lost_versions, "version is", "versions are"));
    }
    if report.unlisted > 0 || has_unknown(report) {
        return "Problems were found: see above.".to_owned();
    }
    let left = report.unsound.len() as u64 - report.rebuilt;
    let with_state = |state| report.unsound.iter().filter(|finding| finding.state() == state).count() as u64;
    if left == 0 {
        return match report.unseen.is_empty() {
            true => "Nothing is lost.".to_owned(),
            false => "Nothing that the catalogue knows is lost.".to_owned(),
        };
    }
    let (absent, unreadable) = (with_state(PlatterState::Absent), with_state(PlatterState::Unreadable));
    let mut parts = Vec::new();
    if absent > 0 {
        let stores: Vec<&str> = report.absent_stores().into_iter().collect();
        parts.push(format!(
            "{} not read because {}: mount what is absent. If it is gone for good, `fulgurite scrub --replace-absent` recovers these platters",
            count(absent, "platter was", "platters were"),
            match stores[..] {
                [store] => format!("store {store} is absent"),
                _ => format!("stores {} are absent", stores.join(", ")),
            }
        ));
    }
    if unreadable > 0 {
        parts.push(format!(
            "{} unreadable: check permissions and disks. If they stay unreadable, `fulgurite scrub --replace-unreadable` recovers these platters",
            count(unreadable, "platter is", "platters are")
        ));
    }
    match parts.is_empty() {
        true => "Nothing is lost, but redundancy is reduced: `fulgurite scrub` recovers those platters.".to_owned(),
        false => format!("Nothing is known to be lost. {}.", parts.join(". ")),
    }
}

pub(crate) fn platters(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let rows = archive.catalogue().platters()?;
    let sets = archive.catalogue().sets()?;
    let found = look_for(&archive, rows.iter().map(|row| &row.place));
    let mut outcome = Outcome::Good;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if !session.json && !rows.is_empty() {
        writeln!(out, "{:32}  {:8}  {:12}  {:9}  {:>10}  health", "platter", "set", "role", "store", "size")?;
    }
    for (row, found) in rows.iter().zip(found) {
        let set = sets.iter().find(|set| set.description.id == row.set);
        let shape = set.map(|set| set.description.shape);
        let size = set.map_or(0, |set| set.description.geometry.file_bytes());
        let role = match shape {
            Some(shape) if row.position < shape.information => format!("i{} of {shape}", row.position + 1),
            Some(shape) => format!("r{} of {shape}", row.position - shape.information + 1),
            None => "?".to_owned(),
        };
        // The content of this platter is still staged, so nothing depends on the platter: it need
        // not exist.
        let is_written = row.state == SetState::Complete;
        let state = match &found {
            _ if !is_written => PlatterState::Sound,
            Err(gone) => gone.into(),
            Ok(store) if *store != row.place.store && row.place.store != NOWHERE => PlatterState::Elsewhere,
            Ok(_) if row.health.lost_sectors > 0 => PlatterState::Damaged,
            // The platter was missing when last looked for, and has come back since.
            Ok(_) => PlatterState::Sound,
        };
        outcome = outcome.worst(match state.hindrance() {
            Some(hindrance) => Outcome::hindered(Some(hindrance)),
            None => Outcome::troubled_if(state != PlatterState::Sound),
        });
        let health = match row.health {
            _ if !is_written => "being written".to_owned(),
            _ if matches!(state, PlatterState::Absent | PlatterState::Unreadable | PlatterState::Missing) => state.word().to_uppercase(),
            _ if state == PlatterState::Elsewhere => format!("ELSEWHERE, on store {}", found.as_deref().unwrap_or_default()),
            health if health.lost_sectors > 0 => format!(
                "{}, {} beyond their code",
                count(health.lost_sectors, "lost sector", "lost sectors"),
                count(health.lost_tracks.into(), "track", "tracks")
            ),
            _ => "sound".to_owned(),
        };
        let read = row.health.verified.map_or_else(|| "never read".to_owned(), |at| format!("read {}", time(at as i64)));
        if session.json {
            writeln!(
                out,
                "{}",
                json!({
                    "platter": row.place.platter.to_string(), "set": row.set.to_string(), "position": row.position, "shape": shape.map(|shape| shape.to_string()), "store": row.place.store,
                    "bytes": size, "state": if is_written { state.word() } else { "being written" }, "missing": state == PlatterState::Missing, "lost_sectors": row.health.lost_sectors, "lost_tracks": row.health.lost_tracks, "verified": row.health.verified,
                })
            )?;
        } else {
            let set = row.set.to_string();
            let health = if is_written { format!("{health}, {read}") } else { health };
            writeln!(out, "{}  {}  {role:12}  {:9}  {:>10}  {health}", row.place.platter, &set[..8], row.place.store, bytes(size))?;
        }
    }
    out.flush()?;
    Ok(outcome)
}

pub(crate) fn recover(session: &Session, recover: &Recover) -> Result<Outcome> {
    let engine = session.engine("recover", Access::Repair)?;
    let rows = session.open(Access::Read)?.catalogue().platters()?;
    let mut matching = rows.iter().filter(|row| row.place.platter.to_string().starts_with(&recover.platter.to_lowercase()));
    let platter = match (matching.next(), matching.next()) {
        (Some(row), None) if row.state == SetState::Writing => {
            bail!(
                "the set of platter {} is not complete, and everything on it is still staged: `fulgurite flush` writes it",
                row.place.platter
            )
        }
        (Some(row), None) => row.place.platter,
        (Some(_), Some(_)) => bail!("the identifiers of several platters begin with {:?}; give more of it", recover.platter),
        (None, _) => bail!("no platter's identifier begins with {:?}; `fulgurite platters` lists them", recover.platter),
    };
    let progress = Progress::new(session.quiet);
    let store = engine.recover(platter, recover.store.as_deref(), &progress)?;
    progress.finish();
    if session.json {
        session.answer(&json!({ "platter": platter.to_string(), "store": store }));
    }
    session.say(&format!("Recovered platter {platter} on store {store}, and read it back."));
    Ok(Outcome::Good)
}

pub(crate) fn inspect(session: &Session, inspect: &Inspect) -> Result<Outcome> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut printed = Ok(());
    let (mut objects, mut tombstones, mut stored) = (0_u64, 0_u64, 0_u64);
    let inspection = inspect_file(&inspect.file, &mut |entry| {
        objects += u64::from(!entry.tombstone);
        tombstones += u64::from(entry.tombstone);
        stored = stored.saturating_add(entry.stored_bytes);
        if inspect.files && printed.is_ok() {
            // Without an archive there are no keys, so the names of encrypted objects are unknown.
            let name = match (entry.tombstone, entry.sealed) {
                (true, _) => "(deleted)".to_owned(),
                (_, true) => "(encrypted)".to_owned(),
                _ => Frames::new(entry.version, None)
                    .open_record(&entry.record)
                    .ok()
                    .and_then(|record| decode_record(&record).ok())
                    .map_or_else(|| "(unreadable record)".to_owned(), |record| record.name.display()),
            };
            printed = match session.json {
                true => writeln!(
                    out,
                    "{}",
                    json!({ "version": entry.version.to_string(), "stored_bytes": entry.stored_bytes, "offset": entry.offset, "encrypted": entry.sealed, "tombstone": entry.tombstone, "name": name })
                ),
                false => writeln!(out, "{}  {:>14}  {name}", entry.version, entry.stored_bytes),
            };
        }
    })?;
    printed?;
    let lost = inspection.lost_information_tracks - inspection.tracks_by_group;
    // What could not be read may be intact.
    let sound = inspection.lost_sectors == inspection.unreadable_sectors
        && inspection.found.copies == [true; 3]
        && inspection.file_bytes == inspection.found.header.geometry.file_bytes()
        && (inspection.unreadable_sectors > 0 || !matches!(inspection.entries, Some(Err(_))));
    let hindrance = (inspection.unreadable_sectors > 0).then_some(Hindrance::Unreadable);
    if session.json {
        writeln!(out, "{}", inspection_json(&inspection, objects, tombstones, stored))?;
    } else {
        let header = &inspection.found.header;
        let geometry = header.geometry;
        let role = match header.carries_information() {
            true => format!("information {} of {}", header.position + 1, header.shape.information),
            false => format!("redundancy {} of {}", header.position - header.shape.information + 1, header.shape.redundancy),
        };
        writeln!(out, "platter   {}", header.platter)?;
        writeln!(out, "archive   {}", header.archive)?;
        writeln!(out, "set       {}, {}, this is {role}", header.set, header.shape)?;
        writeln!(out, "written   {} by {}", time(header.written as i64), harmless(&header.writer).replace('\n', " "))?;
        writeln!(
            out,
            "geometry  sectors of {}, tracks of {}+{} sectors, groups of {}+{} tracks, {} information tracks",
            bytes(geometry.sector_bytes.into()),
            geometry.track_information,
            geometry.track_redundancy,
            geometry.group_information,
            geometry.group_redundancy,
            geometry.information_tracks
        )?;
        writeln!(
            out,
            "file      {}{}",
            bytes(inspection.file_bytes),
            if inspection.file_bytes == geometry.file_bytes() { "" } else { ", WRONG LENGTH" }
        )?;
        writeln!(out, "headers   {} of 3 copies are good", inspection.found.copies.iter().filter(|good| **good).count())?;
        writeln!(out, "sectors   {} of {} are lost", inspection.lost_sectors, inspection.sectors)?;
        if inspection.unreadable_sectors > 0 {
            writeln!(
                out,
                "          {} of them UNREADABLE: the system reported errors, and they may be intact",
                inspection.unreadable_sectors
            )?;
        }
        if inspection.lost_sectors > 0 {
            writeln!(
                out,
                "tracks    {} can be rebuilt by their own code, {} by their large group; {} only by the platter-set",
                inspection.tracks_by_track, inspection.tracks_by_group, lost
            )?;
        }
        match &inspection.entries {
            None => writeln!(out, "files     none: a redundancy platter")?,
            Some(Ok(_)) => writeln!(
                out,
                "files     {} with {}, {}",
                count(objects, "entry", "entries"),
                bytes(stored),
                count(tombstones, "tombstone", "tombstones")
            )?,
            Some(Err(why)) => writeln!(out, "files     UNKNOWN, the file table can't be read from this platter alone: {why}")?,
        }
    }
    out.flush()?;
    Ok(Outcome::troubled_if(!sound).worst(Outcome::hindered(hindrance)))
}

fn inspection_json(inspection: &Inspection, objects: u64, tombstones: u64, stored: u64) -> serde_json::Value {
    let header = &inspection.found.header;
    let geometry = header.geometry;
    json!({
        "platter": header.platter.to_string(), "archive": header.archive.to_string(), "set": header.set.to_string(), "position": header.position,
        "set_information": header.shape.information, "set_redundancy": header.shape.redundancy, "written": header.written, "writer": header.writer,
        "geometry": {
            "sector_bytes": geometry.sector_bytes, "track_information": geometry.track_information, "track_redundancy": geometry.track_redundancy,
            "group_information": geometry.group_information, "group_redundancy": geometry.group_redundancy, "information_tracks": geometry.information_tracks,
        },
        "file_bytes": inspection.file_bytes, "good_headers": inspection.found.copies.iter().filter(|good| **good).count(),
        "sectors": inspection.sectors, "lost_sectors": inspection.lost_sectors, "unreadable_sectors": inspection.unreadable_sectors, "tracks_by_track": inspection.tracks_by_track,
        "lost_tracks": inspection.lost_tracks, "tracks_by_group": inspection.tracks_by_group,
        "entries": objects, "tombstones": tombstones, "stored_bytes": stored,
        "table_error": inspection.entries.as_ref().and_then(|entries| entries.as_ref().err()),
    })
}
