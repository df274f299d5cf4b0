//! Platters: how they are, and making them whole.

use std::io::Write;

use anyhow::{Result, bail};
use fulgurite_archive::inspect::{Inspection, inspect as inspect_file};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{Access, ScrubReport};
use fulgurite_format::{Frames, decode_record};
use serde_json::{Value, json};

use crate::args::{Inspect, Recover, Verify};
use crate::get::{repairs_json, repairs_text};
use crate::progress::Progress;
use crate::text::{bytes, count, harmless, time};
use crate::{Outcome, Session};

pub(crate) fn verify(session: &Session, verify: &Verify) -> Result<Outcome> {
    // Health is noted in the catalogue, so this takes part in changing it.
    let archive = session.open(Access::Write)?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    // What is lost is named once: by whoever looks closest.
    let report = if verify.objects { archive.scrub(false, &NamingNothingLost(&progress))? } else { archive.scrub(false, &progress)? };
    let objects = if verify.objects { Some(archive.verify_objects(&progress)?) } else { None };
    progress.finish();
    say_report(session, &report, objects, progress.lost());
    if let Some((read, wrong)) = objects {
        session.say(&format!("Opened {}; {} differ from what came in.", count(read, "version", "versions"), wrong));
    }
    let wrong = objects.is_some_and(|(_, wrong)| wrong > 0);
    Ok(Outcome::troubled_if(!report.unsound.is_empty() || !report.nothing_is_lost() || wrong))
}

/// Passes on all but the names of what is lost.
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
        if !matches!(trouble, Trouble::Lost { .. }) {
            self.0.trouble(trouble);
        }
    }
}

pub(crate) fn scrub(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Write)?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    let report = archive.scrub(true, &progress)?;
    progress.finish();
    say_report(session, &report, None, progress.lost());
    let left = report.unsound.len() as u64 > report.rebuilt;
    Ok(Outcome::troubled_if(left || !report.nothing_is_lost()))
}

fn say_report(session: &Session, report: &ScrubReport, objects: Option<(u64, u64)>, lost: Vec<Value>) {
    if session.json {
        let unsound: Vec<_> = report
            .unsound
            .iter()
            .map(|finding| {
                json!({
                    "platter": finding.platter.to_string(), "store": finding.store, "position": finding.position, "missing": finding.missing,
                    "elsewhere": finding.elsewhere,
                    "lost_sectors": finding.lost_sectors, "lost_tracks": finding.lost_tracks, "bad_headers": finding.bad_headers,
                })
            })
            .collect();
        let mut value = json!({
            "platters": report.platters, "bytes": report.bytes, "unsound": unsound, "rebuilt": report.rebuilt, "lost_versions": report.lost_versions, "lost": lost,
            "staged_versions": report.staged_versions, "repairs": repairs_json(report.repairs),
        });
        if let Some((read, wrong)) = objects {
            value["objects"] = json!({ "read": read, "wrong": wrong });
        }
        session.answer(&value);
        return;
    }
    session.say(&format!(
        "Read {} ({}) and {}.",
        count(report.platters, "platter", "platters"),
        bytes(report.bytes),
        count(report.staged_versions, "staged version", "staged versions")
    ));
    for finding in &report.unsound {
        let damage = || {
            format!(
                "{}, {} beyond their own code, {}",
                count(finding.lost_sectors, "lost sector", "lost sectors"),
                count(finding.lost_tracks.into(), "track", "tracks"),
                count(finding.bad_headers.into(), "bad header copy", "bad header copies")
            )
        };
        let what = match (finding.missing, &finding.elsewhere) {
            (true, _) => "missing".to_owned(),
            (_, Some(other)) if finding.lost_sectors == 0 && finding.bad_headers == 0 => format!("it is on store {other}, and whole"),
            (_, Some(other)) => format!("it is on store {other}, and damaged: {}", damage()),
            (false, None) => damage(),
        };
        let text = format!("platter {} on store {}: {what}", finding.platter, finding.store);
        // Quiet is for summaries; what is wrong is told by whatever runs this at night.
        if session.quiet { eprintln!("{text}") } else { session.say(&text) }
    }
    if report.repairs.tracks() > 0 {
        session.say(&repairs_text(report.repairs));
    }
    if report.rebuilt > 0 {
        session.say(&format!("Wrote {} anew, and read back what was written.", count(report.rebuilt, "platter", "platters")));
    }
    match (report.lost_versions, report.unsound.len() as u64 > report.rebuilt) {
        (0, false) => session.say("Nothing is lost."),
        (0, true) => {
            session.say("Nothing is lost, but there is less redundancy than there should be: `fulgurite scrub` writes those platters anew.")
        }
        (lost, _) => session.say(&format!("{} lost, named above.", count(lost, "version is", "versions are"))),
    }
}

pub(crate) fn platters(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let rows = archive.catalogue().platters()?;
    let sets = archive.catalogue().sets()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if !session.json && !rows.is_empty() {
        writeln!(out, "{:32}  {:8}  {:12}  {:9}  {:>10}  health", "platter", "set", "role", "store", "size")?;
    }
    for row in &rows {
        let set = sets.iter().find(|set| set.description.id == row.set);
        let shape = set.map(|set| set.description.shape);
        let size = set.map_or(0, |set| set.description.geometry.file_bytes());
        let role = match shape {
            Some(shape) if row.position < shape.information => format!("i{} of {shape}", row.position + 1),
            Some(shape) => format!("r{} of {shape}", row.position - shape.information + 1),
            None => "?".to_owned(),
        };
        let health = match row.health {
            health if health.missing => "MISSING".to_owned(),
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
                    "bytes": size, "missing": row.health.missing, "lost_sectors": row.health.lost_sectors, "lost_tracks": row.health.lost_tracks, "verified": row.health.verified,
                })
            )?;
        } else {
            let set = row.set.to_string();
            writeln!(out, "{}  {}  {role:12}  {:9}  {:>10}  {health}, {read}", row.place.platter, &set[..8], row.place.store, bytes(size))?;
        }
    }
    out.flush()?;
    Ok(Outcome::Good)
}

pub(crate) fn recover(session: &Session, recover: &Recover) -> Result<Outcome> {
    let archive = session.open(Access::Write)?;
    let rows = archive.catalogue().platters()?;
    let mut matching = rows.iter().filter(|row| row.place.platter.to_string().starts_with(&recover.platter.to_lowercase()));
    let platter = match (matching.next(), matching.next()) {
        (Some(row), None) => row.place.platter,
        (Some(_), Some(_)) => bail!("several platters begin with {}; give more of the identifier", recover.platter),
        (None, _) => bail!("no platter of this archive begins with {}; `fulgurite platters` lists them", recover.platter),
    };
    let progress = Progress::new(session.quiet);
    let store = archive.recover(platter, recover.store.as_deref(), &progress)?;
    progress.finish();
    if session.json {
        session.answer(&json!({ "platter": platter.to_string(), "store": store }));
    }
    session.say(&format!("Wrote platter {platter} anew on store {store}, and read it back."));
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
            // Without an archive there are no keys, so names of encrypted objects can't be told.
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
    let sound = inspection.lost_sectors == 0
        && inspection.found.copies == [true; 3]
        && inspection.file_bytes == inspection.found.header.geometry.file_bytes()
        && !matches!(inspection.entries, Some(Err(_)));
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
        if inspection.lost_sectors > 0 {
            writeln!(
                out,
                "tracks    {} can be rebuilt from themselves, {} by their large group; {} only by the platter-set",
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
    Ok(Outcome::troubled_if(!sound))
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
        "sectors": inspection.sectors, "lost_sectors": inspection.lost_sectors, "tracks_by_track": inspection.tracks_by_track,
        "lost_tracks": inspection.lost_tracks, "tracks_by_group": inspection.tracks_by_group,
        "entries": objects, "tombstones": tombstones, "stored_bytes": stored,
        "table_error": inspection.entries.as_ref().and_then(|entries| entries.as_ref().err()),
    })
}
