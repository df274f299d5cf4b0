//! The commands `verify`, `scrub`, `platters`, `recover` and `inspect`.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use fulgurite_archive::catalogue::{PlatterRow, SetDescription, SetState};
use fulgurite_archive::inspect::{Inspection, inspect as inspect_file};
use fulgurite_archive::store_snapshot::{locate_platters, unavailable_stores};
use fulgurite_archive::unread::{Hindrance, NoPlatter, UnavailableStore, absent_text, store_names};
use fulgurite_archive::watch::OutOfReach;
use fulgurite_archive::{
    Access, Irreparable, IrreparableSet, MisnamedPlatter, ObjectsReport, PlatterFinding, PlatterState, Replace, ScrubReport, UNKNOWN_STORE,
    UnknownPlatter,
};
use fulgurite_domain::{Geometry, Medium, SetShape};
use fulgurite_format::{Entry, Frames, decode_record};
use fulgurite_glass::GlassMedium;
use serde_json::{Value, json};

use crate::gaps::unknown_staged_text;
use crate::get::repairs_text;
use crate::list::{names_of, unseen_text};
use crate::own::OwnVersions;
use crate::progress::Progress;
use crate::setup::shared_text;
use crate::standard_output::standard_output;
use crate::text::{bytes, count, harmless, phrase, time};
use crate::{Outcome, Session};

pub(crate) fn verify(session: &Session, objects: bool) -> Result<Outcome> {
    // Verifying records the health of platters in the catalogue, so it needs access for changes.
    let archive = session.executor("verify", Access::Repair)?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    // Each loss is named once. If objects are verified, that pass looks closer and names it.
    progress.mute_losses(objects);
    let report = archive.scrub(None, &progress)?;
    progress.mute_losses(false);
    let objects = if objects { Some(archive.verify_objects(&progress)?) } else { None };
    progress.finish();
    say_report(session, &report, None, objects, &progress);
    if let Some(ObjectsReport { versions, wrong, out_of_reach }) = objects {
        session.say(&format!(
            "Opened {}: {}.",
            count(versions - out_of_reach.total(), "version"),
            match wrong {
                0 => "each matches what was stored".to_owned(),
                wrong => format!("{} lost or different from what was stored", phrase(wrong, "is", "are")),
            }
        ));
        OwnVersions::count(&session.open(Access::Read)?)?.included().inspect(|text| session.say(text));
        if let Some(text) = out_of_reach_text(out_of_reach) {
            session.say(&text);
        }
    }
    let hindrance = report.hindrance().max(objects.and_then(|objects| objects.out_of_reach.hindrance()));
    let is_wrong = objects.is_some_and(|objects| objects.wrong > 0);
    Ok(outcome(&report, report.unsound.iter().any(is_known_bad) || is_wrong, hindrance.max(unavailable(&report, Replace::default()))))
}

/// The worst hindrance of a configured store, even if the catalogue expects no platters on it: if
/// it is an old copy, the store may hold newer ones. A scrub that replaces the platters of such
/// stores doesn't count them.
fn unavailable(report: &ScrubReport, replace: Replace) -> Option<Hindrance> {
    let counts = |hindrance: &Hindrance| match hindrance {
        Hindrance::Absent => !replace.absent,
        Hindrance::Unreadable => !replace.unreadable,
    };
    report.unavailable.iter().map(|store| store.hindrance).filter(counts).max()
}

/// The outcome of a pass over all platters; `troubled` is true if something else is wrong.
fn outcome(report: &ScrubReport, troubled: bool, hindrance: Option<Hindrance>) -> Outcome {
    // Stores that the last rebuild did not read may contain unknown versions.
    let unseen = if report.unseen.is_empty() { Outcome::Good } else { Outcome::Absent };
    Outcome::troubled_if(troubled || !report.nothing_is_lost() || has_unknown(report)).worst(Outcome::hindered(hindrance)).worst(unseen)
}

/// True if a finding is certain: the platter is neither absent nor unreadable.
fn is_known_bad(finding: &PlatterFinding) -> bool {
    finding.hindrance().is_none()
}

fn out_of_reach_text(out_of_reach: OutOfReach) -> Option<String> {
    let because = match (out_of_reach.absent, out_of_reach.unreadable) {
        (0, 0) => return None,
        (_, 0) => "stores are absent".to_owned(),
        (0, _) => "something is unreadable".to_owned(),
        (absent, unreadable) => format!("stores are absent ({absent}) or something is unreadable ({unreadable})"),
    };
    Some(format!("{} can't be read now, because {because}.", count(out_of_reach.total(), "version")))
}

pub(crate) fn scrub(session: &Session, replace: Replace) -> Result<Outcome> {
    let archive = session.executor("scrub", Access::Repair)?;
    let progress = Progress::keeping_lost(session.quiet, session.json);
    let report = archive.scrub(Some(replace), &progress)?;
    progress.finish();
    say_report(session, &report, Some(replace), None, &progress);
    let not_rebuilt = report.still_unsound().any(|finding| replace.includes(finding));
    let hindrance = report.hindrance();
    // A platter that wasn't recovered only because stores are absent is not known to be damaged.
    let troubled = not_rebuilt && (hindrance.is_none() || report.still_unsound().any(is_known_bad));
    Ok(outcome(&report, troubled, hindrance.max(unavailable(&report, replace))))
}

/// True if platters unknown to the catalogue are a defect, since some are damaged or the catalogue
/// is an old copy, or if staging has versions or removals that it doesn't know.
fn has_unknown(report: &ScrubReport) -> bool {
    report.unknown_staged > 0
        || report.unknown.iter().any(|platter| !platter.is_refused && (report.unseen.is_empty() || is_damaged(platter)))
}

fn is_damaged(platter: &UnknownPlatter) -> bool {
    platter.lost_sectors > 0 || (platter.why_unreadable.is_some() && !platter.is_refused)
}

fn report_json(report: &ScrubReport, objects: Option<ObjectsReport>, lost: Vec<Value>) -> Value {
    let unsound = |finding: &PlatterFinding| {
        json!({
            "platter": finding.platter.to_string(), "store": finding.store, "position": finding.position,
            "state": finding.state().word(), "why": why(finding), "missing": finding.state() == PlatterState::Missing,
            "elsewhere": finding.elsewhere, "unreadable": finding.unreadable,
            "lost_sectors": finding.lost_sectors, "lost_tracks": finding.lost_tracks, "bad_headers": finding.bad_headers,
        })
    };
    let unknown = |UnknownPlatter { platter, store, lost_sectors, unreadable, why_unreadable, .. }: &UnknownPlatter| {
        json!({
            "platter": platter.to_string(), "store": store, "lost_sectors": lost_sectors, "unreadable": unreadable,
            "readable": why_unreadable.is_none(), "why": why_unreadable,
        })
    };
    let mut value = json!({
        "platters": report.platters_read, "platters_expected": report.platters, "bytes": report.bytes, "expected_losses": report.expected_losses,
        "unsound": report.unsound.iter().map(unsound).collect::<Vec<_>>(), "rebuilt": report.rebuilt, "left": report.left,
        "lost_versions": report.lost_versions, "lost": lost, "out_of_reach": report.out_of_reach,
        "staged_versions": report.staged_versions, "repairs": report.repairs, "unlisted_versions": report.unlisted,
        "shared_numbers": report.shared_numbers, "unseen": names_of(&report.unseen),
        "unavailable_stores": report.unavailable, "later_keys": report.later_keys,
        "unknown_staged": report.unknown_staged,
        "unknown_platters": report.unknown.iter().map(unknown).collect::<Vec<_>>(),
        "misnamed": report.misnamed, "irreparable": report.irreparable,
    });
    if let Some(ObjectsReport { versions, wrong, out_of_reach }) = objects {
        value["objects"] = json!(out_of_reach);
        value["objects"]["read"] = json!(versions - out_of_reach.total());
        value["objects"]["wrong"] = json!(wrong);
    }
    value
}

/// `replace` is what a scrub replaced in addition to damaged and missing platters; `None` if the
/// pass only read.
fn say_report(session: &Session, report: &ScrubReport, replace: Option<Replace>, objects: Option<ObjectsReport>, progress: &Progress) {
    session.answer(|| report_json(report, objects, progress.take_lost()));
    session.say(&format!(
        "Read {} ({}) and {}.",
        match report.platters - report.platters_read {
            0 => count(report.platters, "platter"),
            _ => format!("{} of {}", report.platters_read, count(report.platters, "platter")),
        },
        bytes(report.bytes),
        count(report.staged_versions, "staged version")
    ));
    if report.expected_losses > 0 {
        let sectors =
            phrase(report.expected_losses, "sector of glass was rebuilt by its track", "sectors of glass were rebuilt by their tracks");
        session.say(&format!("{sectors}: no more than any glass loses."));
    }
    say_unsound(session, report);
    if report.repairs.tracks() > 0 {
        session.say(&repairs_text(report.repairs));
    }
    if report.rebuilt > 0 {
        session.say(&format!("Recovered {}, and read back what was written.", count(report.rebuilt, "platter")));
    }
    if let Some(text) = out_of_reach_text(report.out_of_reach) {
        session.say(&text);
    }
    say_unknown(session, report);
    session.say(&verdict(report, replace));
}

/// Prints unsound platters: one line per store and reason for those that can't be reached, and one
/// line for each of the others.
fn say_unsound(session: &Session, report: &ScrubReport) {
    let unsound = &report.unsound;
    let mut unavailable: BTreeMap<(&str, &NoPlatter), u64> = BTreeMap::new();
    for finding in unsound {
        if let Some(reason) = finding.unavailable.as_ref().filter(|reason| reason.hindrance().is_some()) {
            *unavailable.entry((&finding.store, reason)).or_default() += 1;
        }
    }
    for ((store, reason), platters) in unavailable {
        let place = match reason {
            NoPlatter::OnOneOf(stores) => format!("one of {}", store_names(stores.iter().map(|store| store.store.as_str()))),
            _ if store == UNKNOWN_STORE => "a store that is not in the settings".to_owned(),
            _ => format!("store {store}"),
        };
        let on = format!("{} on {place}", count(platters, "platter"));
        session.warn(&match reason {
            // A note says what was found in the store's place.
            reason if reason.hindrance() == Some(Hindrance::Absent) => format!("{on}: absent"),
            NoPlatter::Unavailable(store) => format!("{on}: unreadable: {}", store.why),
            reason => format!("{on}: unreadable: {reason}"),
        });
    }
    for finding in unsound.iter().filter(|finding| finding.unavailable.as_ref().is_none_or(|reason| reason.hindrance().is_none())) {
        let damage = || {
            format!(
                "{}, {} beyond their own code, {}",
                count(finding.lost_sectors, "lost sector"),
                count(finding.lost_tracks.into(), "track"),
                phrase(finding.bad_headers.into(), "bad header copy", "bad header copies")
            )
        };
        let refused = || {
            format!("{} ({})", phrase(finding.unreadable, "part can't be read", "parts can't be read"), why(finding).unwrap_or_default())
        };
        let on = finding.elsewhere.as_ref().map_or_else(String::new, |other| format!("it is on store {other}, and "));
        let what = match finding.state() {
            PlatterState::Damaged if let Some(file) = report.misnamed_file_of(finding) => file.to_string(),
            PlatterState::Missing => "missing".to_owned(),
            PlatterState::Absent | PlatterState::Unreadable => format!("{on}unreadable: {}", refused()),
            PlatterState::Elsewhere if let Some(why) = finding.own_store => format!("{on}whole; its own store is {why}"),
            PlatterState::Elsewhere | PlatterState::Sound => format!("{on}whole"),
            PlatterState::Damaged if finding.unreadable > 0 => format!("{on}damaged: {}; {}", damage(), refused()),
            PlatterState::Damaged => format!("{on}damaged: {}", damage()),
        };
        let on = if finding.store == UNKNOWN_STORE { String::new() } else { format!(" on store {}", finding.store) };
        session.warn(&format!("platter {}{on}: {what}", finding.platter));
    }
    let is_named = |file: &&MisnamedPlatter| unsound.iter().any(|finding| finding.platter == file.platter && finding.store == file.store);
    for file in report.misnamed.iter().filter(|file| !is_named(file) && !file.is_foreign) {
        session.warn(&format!("platter {} on store {}: {file}", file.platter, file.store));
    }
    for IrreparableSet { set, platters, why } in &report.irreparable {
        let cannot = phrase(*platters, "platter can't be recovered", "platters can't be recovered");
        session.warn(&match why {
            Irreparable::Lost => format!(
                "set {set}: {cannot}, because more of the set is lost than its redundancy can rebuild. `fulgurite catalogue forget --set \
                 {set}` gives it up once no object needs it"
            ),
            Irreparable::Noise => format!(
                "set {set}: {cannot} as they are read now: `noise` in [medium] is \"harsh\", for reading as well as for writing. With the noise \
                 with which they were written, they may be whole"
            ),
            Irreparable::NoHeader => format!(
                "set {set}: {cannot}, because none of them has a good header, and a rebuild of the catalogue wouldn't find it. Store its \
                 objects again (`fulgurite get`, then `put --again`), remove the old versions, and give the set up with `fulgurite catalogue \
                 forget --set {set}`"
            ),
            Irreparable::NoStore => {
                format!(
                    "set {set}: {cannot}, because each store has another of its platters, or no room: `fulgurite store add` adds a store"
                )
            }
        });
    }
}

/// Why a platter, or some of it, can't be read.
fn why(finding: &PlatterFinding) -> Option<String> {
    finding.unavailable.as_ref().map(ToString::to_string).or_else(|| finding.why_unreadable.clone())
}

fn say_unknown(session: &Session, report: &ScrubReport) {
    let (unread, known): (Vec<_>, Vec<_>) = report.unknown.iter().partition(|platter| platter.why_unreadable.is_some());
    for UnknownPlatter { platter, store, why_unreadable, .. } in &unread {
        let why = why_unreadable.as_deref().unwrap_or_default();
        session.warn(&format!("unknown  {platter} on store {store}: {}", harmless(why)));
    }
    if !unread.is_empty() {
        session.warn(&format!(
            "{} named above can't be read. `fulgurite catalogue rebuild` looks again; remove {} only if the archive doesn't need {1}.",
            phrase(unread.len() as u64, "platter", "platters"),
            if unread.len() == 1 { "it" } else { "them" },
        ));
    }
    if !known.is_empty() {
        let unknown = count(known.len() as u64, "platter");
        let damaged = known.iter().filter(|platter| is_damaged(platter)).count();
        session.warn(&format!(
            "Found {unknown} that the catalogue doesn't know, {damaged} of them damaged: {}.",
            match report.unseen.is_empty() {
                true => "the catalogue is an old copy. `fulgurite catalogue rebuild` brings it up to date",
                false => "the rest of their sets was not seen when the catalogue was rebuilt",
            }
        ));
    }
    if report.unknown_staged > 0 {
        session.warn(&format!("The catalogue doesn't know {}.", unknown_staged_text(report.unknown_staged)));
    }
    if !report.unseen.is_empty() {
        session.warn(&format!("The catalogue may not be complete: {}.", unseen_text(&report.unseen)));
    }
    // The others were named with their platters.
    let has_none = |store: &&UnavailableStore| !report.unsound.iter().any(|finding| finding.store == store.store);
    for UnavailableStore { store, hindrance, why } in report.unavailable.iter().filter(has_none) {
        session.warn(&match hindrance {
            Hindrance::Absent => format!(
                "store {store}: absent; platters that the catalogue doesn't know may be on it. If its disk is gone for good, mount a new \
                 one and run `fulgurite store replace {store}`, or remove the store from fulgurite.toml"
            ),
            Hindrance::Unreadable => format!("store {store}: unreadable: {}", harmless(why)),
        });
    }
    if report.later_keys > 0 && report.unseen.is_empty() {
        // Every kill during a put leaves some, so they don't count as a problem.
        session.say(&format!(
            "{} newer than all versions that the catalogue knows: a put was cut short, or the catalogue is an old copy. \
             `fulgurite catalogue rebuild` looks for the versions.",
            phrase(report.later_keys, "key is", "keys are")
        ));
    }
    if report.shared_numbers > 0 {
        session.say(&shared_text(report.shared_numbers));
    }
    if report.unlisted > 0 {
        session.warn(&format!("{} can't be listed, named above.", count(report.unlisted, "version")));
    }
}

/// The closing line. It claims only what was checked.
fn verdict(report: &ScrubReport, replace: Option<Replace>) -> String {
    if report.lost_versions > 0 {
        return format!("{} lost, named above.", phrase(report.lost_versions, "version is", "versions are"));
    }
    if report.unlisted > 0 || has_unknown(report) {
        return "Problems were found: see above.".to_owned();
    }
    let knows_all = report.unknown.iter().all(|platter| !platter.is_refused && platter.unreadable == 0);
    let can_read_all = report.out_of_reach.total() == 0 && knows_all && report.unavailable.is_empty();
    let left = report.still_unsound().count() as u64;
    if left == 0 {
        return match (can_read_all, report.unseen.is_empty()) {
            (false, _) => "Nothing is known to be lost.".to_owned(),
            (true, true) => "Nothing is lost.".to_owned(),
            (true, false) => "Nothing that the catalogue knows is lost.".to_owned(),
        };
    }
    // Platters that the scrub was to replace and couldn't: the same scrub again would not help.
    let is_left_alone = |finding: &&PlatterFinding| replace.is_none_or(|replace| !replace.includes(finding));
    let with_state = |state| report.still_unsound().filter(is_left_alone).filter(|finding| finding.state() == state).count() as u64;
    let (absent, unreadable) = (with_state(PlatterState::Absent), with_state(PlatterState::Unreadable));
    let mut parts = Vec::new();
    let displaced = report.still_unsound().filter(is_left_alone);
    let displaced = displaced.filter(|finding| finding.state() == PlatterState::Elsewhere && finding.hindrance().is_some()).count() as u64;
    if let Some(not_rebuilt @ 1..) = replace.map(|_| left - absent - unreadable - displaced) {
        parts.push(phrase(not_rebuilt, "platter was not rebuilt, see above", "platters were not rebuilt, see above"));
    }
    if absent > 0 {
        parts.push(format!(
            "{} not read because {}: mount what is absent. If it is gone for good, `fulgurite scrub --replace-absent` recovers these platters",
            phrase(absent, "platter was", "platters were"),
            absent_text(report.absent_stores()).unwrap_or_default(),
        ));
    }
    if displaced > 0 {
        parts.push(format!(
            "{} can't be used: mount it, or check the disk. If it is gone for good, `fulgurite scrub --replace-absent` writes {} to a \
             store that has none of the set",
            phrase(displaced, "platter is on another store, and its own", "platters are on other stores, and their own"),
            if displaced == 1 { "it" } else { "them" },
        ));
    }
    if unreadable > 0 {
        parts.push(format!(
            "{} unreadable: check permissions and disks. If they stay unreadable, `fulgurite scrub --replace-unreadable` recovers these platters",
            phrase(unreadable, "platter is", "platters are")
        ));
    }
    let misnamed = report.still_unsound().filter(|finding| report.misnamed_file_of(finding).is_some()).count() as u64;
    if misnamed > 0 && replace.is_none() {
        parts.push(format!(
            "{}, see above: rename or move {}, and verify again",
            phrase(misnamed, "platter's file is another platter", "platters' files are other platters"),
            if misnamed == 1 { "it" } else { "them" },
        ));
    }
    let irreparable = report.irreparable_platters();
    let wrong = report.still_unsound().filter(|finding| Replace::default().includes(finding)).count() as u64;
    let remedy = match (irreparable, wrong.saturating_sub(irreparable)) {
        (0, _) => "`fulgurite scrub` recovers those platters".to_owned(),
        (irreparable, 0) => phrase(irreparable, "platter can't be recovered, see above", "platters can't be recovered, see above"),
        (irreparable, others) => format!(
            "`fulgurite scrub` recovers {}, and {}, see above",
            count(others, "platter"),
            phrase(irreparable, "platter can't be recovered", "platters can't be recovered")
        ),
    };
    match (parts.is_empty(), can_read_all) {
        (true, true) => format!("Nothing is lost, but redundancy is reduced: {remedy}."),
        (true, false) => format!("Nothing is known to be lost, but redundancy is reduced: {remedy}."),
        (false, _) => format!("Nothing is known to be lost. {}.", parts.join(". ")),
    }
}

pub(crate) fn platters(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let rows = archive.catalogue().platters()?;
    let sets = archive.catalogue().sets()?;
    let found = locate_platters(&archive, rows.iter().map(|row| &row.place));
    let unavailable = unavailable_stores(&archive);
    let hindrance_of = |name: &str| unavailable.iter().find(|store| store.store == name).map(|store| store.hindrance);
    let mut outcome = Outcome::Good;
    let mut out = BufWriter::new(standard_output());
    if !session.json && !rows.is_empty() {
        writeln!(out, "{:32}  {:8}  {:12}  {:9}  {:>10}  health", "platter", "set", "role", "store", "size")?;
    }
    for (row, found) in rows.iter().zip(found) {
        let set = sets.iter().find(|set| set.description.id == row.set).map(|set| &set.description);
        let state = state(row, &found);
        // Nothing is wrong with a platter that is elsewhere while its own store can't be used.
        let of_store = if state == PlatterState::Elsewhere { hindrance_of(&row.place.store) } else { None };
        outcome = outcome.worst(match state.hindrance().or(of_store) {
            None => Outcome::troubled_if(state != PlatterState::Sound),
            hindrance => Outcome::hindered(hindrance),
        });
        if session.json {
            writeln!(out, "{}", platter_json(row, set, state))?;
        } else {
            let role = set.map_or_else(|| "?".to_owned(), |set| role(row.position, set.shape));
            let (set_name, size) = (row.set.to_string(), bytes(set.map_or(0, file_bytes)));
            let health = health(row, state, found.as_deref().unwrap_or_default());
            writeln!(out, "{}  {}  {role:12}  {:9}  {size:>10}  {health}", row.place.platter, &set_name[..8], row.place.store)?;
        }
    }
    out.flush()?;
    Ok(outcome)
}

/// The state of a platter; `found` is the store that it is on now.
fn state(row: &PlatterRow, found: &Result<String, NoPlatter>) -> PlatterState {
    match found {
        // The content of this platter is still staged, so nothing depends on the platter: it need
        // not exist.
        _ if row.state != SetState::Complete => PlatterState::Sound,
        Err(reason) => reason.into(),
        Ok(store) if *store != row.place.store && row.place.store != UNKNOWN_STORE => PlatterState::Elsewhere,
        Ok(_) if row.health.is_damaged() => PlatterState::Damaged,
        // Also a platter that was missing when last looked for, and has come back since.
        Ok(_) => PlatterState::Sound,
    }
}

fn role(position: u16, shape: SetShape) -> String {
    match position.checked_sub(shape.information) {
        None => format!("i{} of {shape}", position + 1),
        Some(redundancy) => format!("r{} of {shape}", redundancy + 1),
    }
}

fn file_bytes(set: &SetDescription) -> u64 {
    set.platter_bytes()
}

fn health(row: &PlatterRow, state: PlatterState, store: &str) -> String {
    let health = row.health;
    if row.state != SetState::Complete {
        return "being written".to_owned();
    }
    let what = match state {
        PlatterState::Absent | PlatterState::Unreadable | PlatterState::Missing => state.word().to_uppercase(),
        PlatterState::Elsewhere => format!("ELSEWHERE, on store {store}"),
        PlatterState::Damaged => {
            let (sectors, tracks) = (count(health.lost_sectors, "lost sector"), count(health.lost_tracks.into(), "track"));
            match health.bad_headers {
                0 => format!("{sectors}, {tracks} beyond their code"),
                headers => format!("{sectors}, {tracks} beyond their code, {}", count(headers.into(), "damaged header")),
            }
        }
        PlatterState::Sound => "sound".to_owned(),
    };
    let read = health.checked.map_or_else(|| "never read".to_owned(), |at| format!("read {}", time(at as i64)));
    format!("{what}, {read}")
}

fn platter_json(row: &PlatterRow, set: Option<&SetDescription>, state: PlatterState) -> Value {
    let PlatterRow { place, health, .. } = row;
    let word = if row.state == SetState::Complete { state.word() } else { "being written" };
    json!({
        "platter": place.platter.to_string(), "set": row.set.to_string(), "position": row.position,
        "shape": set.map(|set| set.shape.to_string()), "store": place.store, "bytes": set.map_or(0, file_bytes), "state": word,
        "missing": state == PlatterState::Missing, "lost_sectors": health.lost_sectors, "lost_tracks": health.lost_tracks,
        "verified": health.verified(), "checked": health.checked, "bad_headers": health.bad_headers,
    })
}

pub(crate) fn recover(session: &Session, named: &str, store: Option<&str>) -> Result<Outcome> {
    let executor = session.executor("recover", Access::Repair)?;
    let rows = session.open(Access::Read)?.catalogue().platters()?;
    let mut matching = rows.iter().filter(|row| row.place.platter.to_string().starts_with(&named.to_lowercase()));
    let platter = match (matching.next(), matching.next()) {
        (Some(row), None) if row.state == SetState::Writing => {
            bail!(
                "the set of platter {} is not complete, and everything on it is still staged: `fulgurite flush` writes it",
                row.place.platter
            )
        }
        (Some(row), None) => row.place.platter,
        (Some(_), Some(_)) => bail!("the identifiers of several platters begin with {named:?}; give more of it"),
        (None, _) => bail!("no platter's identifier begins with {named:?}; `fulgurite platters` lists them"),
    };
    let progress = Progress::new(session.quiet);
    let store = executor.recover(platter, store, &progress)?;
    progress.finish();
    session.answer(|| json!({ "platter": platter.to_string(), "store": store }));
    session.say(&format!("Recovered platter {platter} on store {store}, and read it back."));
    Ok(Outcome::Good)
}

#[derive(Default)]
struct Entries {
    objects: u64,
    tombstones: u64,
    stored_bytes: u64,
}

pub(crate) fn inspect(session: &Session, file: &Path, files: bool) -> Result<Outcome> {
    let mut out = BufWriter::new(standard_output());
    let mut printed = Ok(());
    let mut entries = Entries::default();
    let inspection = inspect_file(file, &mut |entry| {
        entries.objects += u64::from(!entry.tombstone);
        entries.tombstones += u64::from(entry.tombstone);
        entries.stored_bytes = entries.stored_bytes.saturating_add(entry.stored_bytes);
        if files && printed.is_ok() {
            printed = write_entry(&mut out, session.json, entry);
        }
    })?;
    printed?;
    if session.json {
        writeln!(out, "{}", inspection_json(&inspection, &entries))?;
    } else {
        write_inspection(&mut out, &inspection, &entries)?;
    }
    out.flush()?;
    // What could not be read may be intact.
    let sound = inspection.lost_sectors == inspection.unreadable_sectors + inspection.expected_losses
        && inspection.bad_heads == 0
        && inspection.found.copies == [true; 3]
        && inspection.file_bytes == inspection.expected_file_bytes()
        && (inspection.unreadable_sectors > 0 || !matches!(inspection.entries, Some(Err(_))));
    let hindrance = (inspection.unreadable_sectors > 0).then_some(Hindrance::Unreadable);
    Ok(Outcome::troubled_if(!sound).worst(Outcome::hindered(hindrance)))
}

fn write_entry(out: &mut dyn Write, json: bool, entry: &Entry) -> io::Result<()> {
    // Without an archive there are no keys, so the names of encrypted objects are unknown.
    let name = match (entry.tombstone, entry.sealed) {
        (true, _) => "(deleted)".to_owned(),
        (_, true) => "(encrypted)".to_owned(),
        _ => {
            let record = Frames::new(entry.version, None).open_record(&entry.record).ok();
            let record = record.and_then(|record| decode_record(&record).ok());
            record.map_or_else(|| "(unreadable record)".to_owned(), |record| record.name.display())
        }
    };
    let Entry { version, stored_bytes, offset, sealed, tombstone, .. } = entry;
    if json {
        let value = json!({
            "version": version.to_string(), "stored_bytes": stored_bytes, "offset": offset, "encrypted": sealed,
            "tombstone": tombstone, "name": name,
        });
        return writeln!(out, "{value}");
    }
    writeln!(out, "{version}  {stored_bytes:>14}  {name}")
}

fn write_inspection(out: &mut dyn Write, inspection: &Inspection, entries: &Entries) -> io::Result<()> {
    let Inspection { lost_sectors, unreadable_sectors, tracks_by_track, tracks_by_group, .. } = inspection;
    let header = &inspection.found.header;
    let Geometry { track_information, track_redundancy, group_information, group_redundancy, information_tracks, .. } = header.geometry;
    let role = match header.position.checked_sub(header.shape.information) {
        None => format!("information {} of {}", header.position + 1, header.shape.information),
        Some(redundancy) => format!("redundancy {} of {}", redundancy + 1, header.shape.redundancy),
    };
    writeln!(out, "platter   {}", header.platter)?;
    writeln!(out, "archive   {}", header.archive)?;
    writeln!(out, "set       {}, {}, this is {role}", header.set, header.shape)?;
    writeln!(out, "written   {} by {}", time(header.written as i64), harmless(&header.writer).replace('\n', " "))?;
    writeln!(
        out,
        "geometry  sectors of {}, tracks of {track_information}+{track_redundancy} sectors, \
         groups of {group_information}+{group_redundancy} tracks, {information_tracks} information tracks",
        bytes(header.geometry.sector_bytes.into())
    )?;
    let length = if inspection.file_bytes == inspection.expected_file_bytes() { "" } else { ", WRONG LENGTH" };
    if let Some(glass) = &inspection.glass {
        let GlassMedium { rows, columns, alphabet, parity_columns, .. } = &glass.medium;
        let rate = 80 - parity_columns;
        writeln!(
            out,
            "medium    glass, sectors of {rows} x {columns} voxels of {} bits, code of rate {rate}/80",
            alphabet.bits_per_voxel()
        )?;
    }
    writeln!(out, "file      {}{length}", bytes(inspection.file_bytes))?;
    if inspection.bad_heads > 0 {
        writeln!(out, "heads     {} of the 2 heads of the glass are DAMAGED", inspection.bad_heads)?;
    }
    writeln!(out, "headers   {} of 3 copies are good", good_headers(inspection))?;
    writeln!(out, "sectors   {lost_sectors} of {} are lost", inspection.sectors)?;
    if inspection.expected_losses > 0 {
        writeln!(out, "          {} of them are normal: some sectors of glass can never be read", inspection.expected_losses)?;
    }
    if *unreadable_sectors > 0 {
        writeln!(out, "          {unreadable_sectors} of them UNREADABLE: the system reported errors, and they may be intact")?;
    }
    if *lost_sectors > 0 {
        let lost = inspection.lost_information_tracks - tracks_by_group;
        writeln!(
            out,
            "tracks    {tracks_by_track} can be rebuilt by their own code, {tracks_by_group} by their large group; \
             {lost} only by the platter-set"
        )?;
    }
    match &inspection.entries {
        None => writeln!(out, "files     none: a redundancy platter"),
        Some(Ok(_)) => {
            let (objects, tombstones) = (phrase(entries.objects, "entry", "entries"), count(entries.tombstones, "tombstone"));
            writeln!(out, "files     {objects} with {}, {tombstones}", bytes(entries.stored_bytes))
        }
        Some(Err(why)) => writeln!(out, "files     UNKNOWN, the file table can't be read from this platter alone: {why}"),
    }
}

fn good_headers(inspection: &Inspection) -> usize {
    inspection.found.copies.iter().filter(|good| **good).count()
}

fn inspection_json(inspection: &Inspection, entries: &Entries) -> Value {
    let header = &inspection.found.header;
    let geometry = header.geometry;
    json!({
        "platter": header.platter.to_string(), "archive": header.archive.to_string(), "set": header.set.to_string(),
        "position": header.position, "set_information": header.shape.information, "set_redundancy": header.shape.redundancy,
        "written": header.written, "writer": header.writer,
        "medium": if inspection.glass.is_some() { Medium::Glass.name() } else { Medium::Disk.name() },
        "voxels": inspection.glass.as_ref().map(|glass| json!({
            "rows": glass.medium.rows, "columns": glass.medium.columns, "bits": glass.medium.alphabet.bits_per_voxel(),
            "parity_columns": glass.medium.parity_columns,
        })),
        "geometry": {
            "sector_bytes": geometry.sector_bytes,
            "track_information": geometry.track_information, "track_redundancy": geometry.track_redundancy,
            "group_information": geometry.group_information, "group_redundancy": geometry.group_redundancy,
            "information_tracks": geometry.information_tracks,
        },
        "file_bytes": inspection.file_bytes, "good_headers": good_headers(inspection), "sectors": inspection.sectors,
        "lost_sectors": inspection.lost_sectors, "unreadable_sectors": inspection.unreadable_sectors,
        "expected_losses": inspection.expected_losses, "bad_heads": inspection.bad_heads,
        "tracks_by_track": inspection.tracks_by_track, "lost_tracks": inspection.lost_tracks,
        "tracks_by_group": inspection.tracks_by_group,
        "entries": entries.objects, "tombstones": entries.tombstones, "stored_bytes": entries.stored_bytes,
        "table_error": inspection.entries.as_ref().and_then(|entries| entries.as_ref().err()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_does_not_vouch_for_versions_that_could_not_be_read() {
        let mut report = ScrubReport::default();
        assert_eq!(verdict(&report, None), "Nothing is lost.");
        // As with a staging segment whose disk reports errors.
        report.out_of_reach.unreadable = 1;
        assert_eq!(verdict(&report, None), "Nothing is known to be lost.");
    }
}
