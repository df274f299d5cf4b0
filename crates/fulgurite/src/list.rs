//! The commands `ls` and `status`.

use std::ffi::OsStr;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::{Result, bail};
use fulgurite_archive::catalogue::{PlatterRow, SetState, Totals, VersionRow, Versions};
use fulgurite_archive::keystore::Exported;
use fulgurite_archive::paging::Pager;
use fulgurite_archive::reserved::is_reserved;
use fulgurite_archive::store::{PlatterStore, StoreError, check_all_and_list};
use fulgurite_archive::unread::store_names;
use fulgurite_archive::{Access, Archive, ArchiveStatus, UnseenPlace, check_decode_device, check_decode_folder};
use fulgurite_domain::{Kind, ObjectName};
use fulgurite_service::control::{Connection, ScrubStatus, ServerStatus};
use serde_json::{Value, json};

use crate::args::Ls;
use crate::gaps::{find_gaps, nothing_stored, say_gaps, unknown_staged_text};
use crate::own::OwnVersions;
use crate::standard_output::standard_output;
use crate::text::{bytes, count, phrase, time};
use crate::{Outcome, Session};

/// Rows of the catalogue that are read, or removed, at a time.
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
            Versions::Newest => {
                rows.into_iter().take(1).filter(|row| row.record.kind != Kind::DeletionMarker).try_for_each(&mut *each)?;
            }
        }
    }
    let below = if name.is_empty() { Vec::new() } else { [name, b"/"].concat() };
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.catalogue().list(&below, versions, after, PAGE))? {
        page.into_iter().filter(|row| !name.is_empty() || !is_reserved(&row.record.name)).try_for_each(&mut *each)?;
    }
    Ok(())
}

/// A name without leading and trailing slashes.
pub(crate) fn trimmed(name: &[u8]) -> &[u8] {
    let start = name.iter().position(|&byte| byte != b'/').unwrap_or(name.len());
    let end = name.iter().rposition(|&byte| byte != b'/').map_or(start, |last| last + 1);
    &name[start..end]
}

/// Parses an argument as a name, without leading and trailing slashes.
pub(crate) fn name_of(argument: &OsStr) -> Vec<u8> {
    trimmed(argument.as_bytes()).to_vec()
}

pub(crate) fn ls(session: &Session, ls: &Ls) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let versions = if ls.versions { Versions::All } else { Versions::Newest };
    let name = ls.name.as_deref().map_or_else(Vec::new, name_of);
    let mut out = BufWriter::new(standard_output());
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
        if archive.catalogue().newest(&name)?.is_some() {
            bail!("{}", deleted(&name.display()));
        }
        return Err(nothing_stored(&archive, &name)?);
    }
    Ok(say_gaps(&find_gaps(&archive, &name, versions)?, "the list may be too"))
}

/// The message for a name whose newest version is a deletion marker.
pub(crate) fn deleted(shown: &str) -> String {
    format!("{shown} was deleted; `fulgurite ls --versions` shows its earlier versions, and `fulgurite get --version` restores one")
}

/// The version of a name that `--version` or `--id` selects, if any. Fails if several match; the
/// message ends with `advice`.
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
    let mut value = json!({});
    add_name(&mut value, name);
    value
}

pub(crate) fn add_name(value: &mut Value, name: &ObjectName) {
    value["name"] = json!(name_json(name));
    if std::str::from_utf8(&name.0).is_err() {
        value["name_bytes"] = json!(name.0);
    }
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
        "version": record.version, "kind": kind, "size": record.size, "sha256": record.sha256.to_string(),
        "state": if row.archived { "archived" } else { "staged" }, "encrypted": row.sealed, "created_ms": record.created_ms,
        "id": row.id.to_string(),
    });
    add_name(&mut value, &record.name);
    if let Some(modified) = record.modified {
        value["modified"] = json!(modified.seconds);
    }
    if !record.attributes.is_empty() {
        // A string if the value is UTF-8, otherwise its bytes as numbers.
        let shown = |bytes: &Vec<u8>| std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text));
        value["attributes"] = record.attributes.0.iter().map(|(name, bytes)| (name.clone(), shown(bytes))).collect();
    }
    value
}

pub(crate) fn status(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let status = Status::of(&archive)?;
    session.answer(|| status.to_json());
    status.say(session);
    Ok(status.outcome())
}

struct Status<'a> {
    archive: &'a Archive,
    /// Without the archive's own versions.
    totals: Totals,
    /// Staged removals that are on no platter.
    removals: u64,
    own: OwnVersions,
    sets: u64,
    sets_being_written: u64,
    /// Bytes of the platters of all complete sets.
    on_disk: u64,
    /// Platters of complete sets.
    platters: Vec<PlatterRow>,
    /// Platters that are damaged or missing.
    unsound: u64,
    stores: Vec<StoreStatus<'a>>,
    status: ArchiveStatus,
    /// The GPU that decodes glass, if the settings name one, or why it can't.
    decode_device: Result<Option<String>, String>,
    /// The running server.
    server: Option<ServerStatus>,
}

struct StoreStatus<'a> {
    store: &'a dyn PlatterStore,
    /// Why it can't be used.
    trouble: Option<StoreError>,
    /// Why nothing can be written to it, though it can be read.
    read_only: Option<StoreError>,
    /// Platters that the catalogue expects on this store.
    platters: u64,
}

impl<'a> Status<'a> {
    fn of(archive: &'a Archive) -> Result<Self> {
        let mut platters = archive.catalogue().platters()?;
        // Sets that are being written are still staged, and count there.
        platters.retain(|platter| platter.state == SetState::Complete);
        let (sets, writing): (Vec<_>, Vec<_>) = archive.catalogue().sets()?.into_iter().partition(|set| set.state == SetState::Complete);
        let status = ArchiveStatus::of(archive)?;
        let own = OwnVersions::count(archive)?;
        let is_unsound = |row: &&PlatterRow| !row.health.is_sound() || status.missing_platters.contains(&row.place.platter);
        let removals = archive.catalogue().unwritten_tombstones()?.len() as u64;
        let store = |(store, checked): (&'a Arc<dyn PlatterStore>, Result<(), StoreError>)| StoreStatus {
            store: &**store,
            read_only: checked.as_ref().ok().and_then(|()| store.check_writable().err()),
            trouble: checked.err(),
            platters: platters.iter().filter(|platter| platter.place.store == store.name()).count() as u64,
        };
        Ok(Self {
            archive,
            totals: without_own(archive.catalogue().totals()?, &own),
            removals,
            own,
            sets: sets.len() as u64,
            sets_being_written: writing.len() as u64,
            on_disk: sets.iter().map(|set| set.description.platter_bytes() * set.description.platters.len() as u64).sum(),
            unsound: platters.iter().filter(is_unsound).count() as u64,
            stores: archive.stores().iter().zip(check_all_and_list(archive.stores())).map(store).collect(),
            platters,
            status,
            decode_device: check_decode_device(&archive.settings().decode).map_err(|error| error.to_string()),
            // A server that doesn't answer is left out: `status` is about the archive.
            server: Connection::status(archive.home()).ok().flatten(),
        })
    }

    fn outcome(&self) -> Outcome {
        let ArchiveStatus { unlisted, unseen, unknown_platters, unknown_staged, missing_segments, staging, .. } = &self.status;
        // The rest of the sets of unknown platters may be in places that the rebuild did not read.
        let unknown = if unseen.is_empty() { *unknown_platters } else { 0 };
        let troubled = self.unsound + unlisted + unknown + unknown_staged + missing_segments > 0;
        let absent = if unseen.is_empty() { Outcome::Good } else { Outcome::Absent };
        let staging = staging.as_ref().map_or(Outcome::Good, |error| match error.hindrance() {
            None => Outcome::Troubled,
            hindrance => Outcome::hindered(hindrance),
        });
        let stores = self.stores.iter().filter_map(|store| store.trouble.as_ref()).map(StoreError::hindrance).max();
        Outcome::troubled_if(troubled).worst(absent).worst(staging).worst(Outcome::hindered(stores))
    }

    fn never_verified(&self) -> u64 {
        self.platters.iter().filter(|platter| platter.health.verified().is_none()).count() as u64
    }

    /// When the platter whose last verification is the oldest was verified, in seconds since 1970.
    fn oldest_verified(&self) -> Option<u64> {
        self.platters.iter().filter_map(|platter| platter.health.verified()).min()
    }

    fn to_json(&self) -> Value {
        let Self { totals, status, .. } = self;
        let store = |StoreStatus { store, trouble, read_only, platters }: &StoreStatus<'_>| {
            let shown = trouble.as_ref().or(read_only.as_ref());
            let state = shown.map_or_else(|| "present".to_owned(), StoreError::state);
            // The free space of an empty mount point says nothing about the store.
            let free_bytes = if trouble.is_none() { store.free_bytes() } else { None };
            json!({
                "name": store.name(), "place": store.place(), "state": state, "free_bytes": free_bytes,
                "trouble": shown.map(ToString::to_string), "platters": platters,
            })
        };
        json!({
            "archive": self.archive.id().to_string(), "objects": totals.objects, "versions": totals.versions,
            "content_bytes": totals.content_bytes,
            "own": {
                "versions": self.own.versions, "content_bytes": self.own.content_bytes, "staged_versions": self.own.staged_versions,
            },
            "staged": {
                "versions": totals.staged.versions, "stored_bytes": totals.staged.stored_bytes,
                "tombstones": totals.staged.tombstones, "removals": self.removals, "oldest_ms": totals.staged.oldest_ms,
            },
            "sets": self.sets, "sets_being_written": self.sets_being_written, "platters": self.platters.len(),
            "platter_bytes": self.on_disk, "unsound_platters": self.unsound, "unlisted": status.unlisted,
            "unseen": names_of(&status.unseen), "unknown_platters": status.unknown_platters,
            "unknown_staged": status.unknown_staged,
            "keys_since_export": status.exported.map(|exported| exported.keys_since),
            "last_export_ms": status.exported.and_then(|exported| exported.last_ms),
            "missing_platters": status.missing_platters.len(), "missing_segments": status.missing_segments,
            "staging_trouble": status.staging.as_ref().map(ToString::to_string), "oldest_verified": self.oldest_verified(),
            "never_verified": self.never_verified(), "stores": self.stores.iter().map(store).collect::<Vec<_>>(),
            "decode_device": match &self.decode_device {
                Ok(gpu) => json!({ "gpu": gpu, "trouble": null }),
                Err(error) => json!({ "gpu": null, "trouble": error }),
            },
            "decode_folder": check_decode_folder(self.archive.home(), &self.archive.settings().decode)
                .map(|(folder, checked)| json!({ "path": folder, "trouble": checked.err().map(|error| error.to_string()) })),
            "server": self.server.as_ref().map(|server| json!({ "working": server.running_command, "scrub": server.scrub })),
        })
    }

    fn say(&self, session: &Session) {
        let (archive, totals) = (self.archive, &self.totals);
        session.say(&format!("archive   {} in {}", archive.id(), archive.home().display()));
        // A name counts even if its newest version is a deletion marker.
        let (names, versions) = (count(totals.objects, "name"), count(totals.versions, "version"));
        session.say(&format!("stored    {names} in {versions}, {}", bytes(totals.content_bytes)));
        let removals = match self.removals {
            0 => String::new(),
            number => format!(", {}", count(number, "removal")),
        };
        let versions = count(totals.staged.versions, "version");
        session.say(&format!("staged    {versions}, {}{removals}", bytes(totals.staged.stored_bytes)));
        if self.own.versions > 0 {
            let backups = phrase(self.own.versions, "backup of the service's state", "backups of the service's state");
            let staged = if self.own.staged_versions > 0 { format!(", {} staged", self.own.staged_versions) } else { String::new() };
            session.say(&format!("own       {backups}, {}{staged}", bytes(self.own.content_bytes)));
        }
        self.say_platters(session);
        self.say_problems(session);
        if let Some(server) = &self.server {
            let command = server.running_command.as_ref();
            let doing = command.map(|command| format!("; `{}` since {} UTC", command.what, time(command.since as i64)));
            session.say(&format!("server    running{}", doing.unwrap_or_default()));
            server.scrub.iter().for_each(|scrub| session.say(&scrub_text(scrub)));
        }
        match &self.decode_device {
            Ok(None) => {}
            Ok(Some(gpu)) => session.say(&format!("decoding  on the GPU {gpu}")),
            Err(error) => session.say(&format!("decoding  on the CPU: {error}")),
        }
        match check_decode_folder(archive.home(), &archive.settings().decode) {
            None => {}
            Some((folder, Ok(()))) => session.say(&format!("decoding  here, and by the workers of {}", folder.display())),
            Some((_, Err(error))) => session.say(&format!("decoding  here, without workers: {error}")),
        }
        let encryption = if archive.settings().archive.encrypt { "encrypted" } else { "unencrypted" };
        session.say(&format!("new sets  {}, {encryption}", archive.settings().shape()));
        for StoreStatus { store, trouble, read_only, platters } in &self.stores {
            let held = count(*platters, "platter");
            session.say(&match trouble {
                None if let Some(why) = read_only => format!("store     {}: {}, {held}: {why}", store.name(), why.state().to_uppercase()),
                None => {
                    let free = store.free_bytes().map_or_else(String::new, |free| format!(", {} free", bytes(free)));
                    format!("store     {}: {}, {held}{free}", store.name(), store.place())
                }
                Some(trouble) => {
                    let state = trouble.state().to_uppercase();
                    format!("store     {}: {state}, {held} should be there: {trouble}", store.name())
                }
            });
        }
    }

    fn say_platters(&self, session: &Session) {
        session.say(&format!(
            "platters  {} in {}, {} on disk{}{}",
            count(self.platters.len() as u64, "platter"),
            count(self.sets, "set"),
            bytes(self.on_disk),
            match self.sets_being_written {
                0 => String::new(),
                writing => format!("; {} being written", phrase(writing, "set is", "sets are")),
            },
            match self.unsound {
                0 => String::new(),
                unsound => format!("; {unsound} damaged or missing: `fulgurite scrub`"),
            }
        ));
        let oldest = self.oldest_verified().map(|at| format!("the longest unverified platter was read {} UTC", time(at as i64)));
        let never = match self.never_verified() {
            0 => None,
            never => Some(format!("{} never verified", phrase(never, "platter was", "platters were"))),
        };
        let verified: Vec<String> = oldest.into_iter().chain(never).collect();
        if !verified.is_empty() {
            session.say(&format!("verified  {}", verified.join("; ")));
        }
    }

    /// Prints problems other than those of stores and platters.
    fn say_problems(&self, session: &Session) {
        let ArchiveStatus { unlisted, unseen, unknown_platters, unknown_staged, missing_segments, staging, .. } = &self.status;
        if *unlisted > 0 {
            let versions = count(*unlisted, "version");
            session.say(&format!("unlisted  {versions} that can't be listed: `fulgurite verify` says why"));
        }
        if *unknown_platters > 0 {
            session.say(&format!(
                "unknown   {} on the stores that the catalogue doesn't know: {}",
                phrase(*unknown_platters, "platter is", "platters are"),
                match unseen.is_empty() {
                    true => "`fulgurite verify` tells more; `fulgurite catalogue rebuild` updates an old catalogue",
                    false => "the rest of their sets was not seen when the catalogue was rebuilt",
                }
            ));
        }
        if *unknown_staged > 0 {
            session.say(&format!("unknown   {}", unknown_staged_text(*unknown_staged)));
        }
        if !unseen.is_empty() {
            session.say(&format!("unseen    {}", unseen_text(unseen)));
        }
        if let Some(Exported { last_ms, keys_since: keys @ 1.. }) = self.status.exported {
            let keys = count(keys, "key");
            session.say(&match last_ms {
                Some(at) => format!("keys      {keys} added since the last `fulgurite keys export`, of {} UTC", time((at / 1_000) as i64)),
                None => format!("keys      {keys} added, and no copy made of this key store: see `fulgurite keys export`"),
            });
        }
        if let Some(error) = staging {
            session.say(&format!("staging   {error}"));
        } else if *missing_segments > 0 {
            let segments = phrase(*missing_segments, "segment is", "segments are");
            session.say(&format!("staging   {segments} missing: what was staged there is lost"));
        }
    }
}

/// The totals without the archive's own versions.
fn without_own(mut totals: Totals, own: &OwnVersions) -> Totals {
    // A server may store or remove versions between the two counts.
    totals.objects = totals.objects.saturating_sub(own.objects);
    totals.versions = totals.versions.saturating_sub(own.versions);
    totals.content_bytes = totals.content_bytes.saturating_sub(own.content_bytes);
    totals.staged.versions = totals.staged.versions.saturating_sub(own.staged_versions);
    totals.staged.stored_bytes = totals.staged.stored_bytes.saturating_sub(own.staged_bytes);
    totals
}

/// How far the server's scrub is, and whether it is fast enough.
fn scrub_text(scrub: &ScrubStatus) -> String {
    let ScrubStatus { every_days, bytes_per_s, bytes_per_s_max, verified, due, due_bytes, out_of_reach, due_end, .. } = scrub;
    let rate = bytes_per_s.map_or(*bytes_per_s_max, |rate| rate as u64);
    let due = match due {
        0 => "none is due".to_owned(),
        due => format!("{due} with {} due, read by {} UTC", bytes(*due_bytes), time(*due_end as i64)),
    };
    let out_of_reach = if *out_of_reach > 0 { format!("; {out_of_reach} out of reach") } else { String::new() };
    let slow = if scrub.is_too_slow() {
        format!("; TOO SLOW: all platters take {} days, raise scrub.mib_per_s", scrub.cycle_s.div_ceil(86_400))
    } else {
        String::new()
    };
    let verified = count(*verified, "platter");
    format!("scrubbing {verified} verified within {every_days} days, {due}{out_of_reach}; {}/s{slow}", bytes(rate))
}

/// Describes what the last rebuild of the catalogue did not read, with advice.
pub(crate) fn unseen_text(unseen: &[UnseenPlace]) -> String {
    let (goal, what) = match unseen {
        [UnseenPlace::Others] => ("`fulgurite store add` what is missing", "it"),
        [_] => ("when it can be read", "it"),
        _ => ("when they can be read", "them"),
    };
    format!(
        "not read when the catalogue was rebuilt: {}; {goal}, run `fulgurite catalogue rebuild` again, or give {what} up with \
         `fulgurite catalogue forget --unseen`",
        places_text(unseen)
    )
}

/// Names unseen places: "stores d1, d2 and the staging folder".
pub(crate) fn places_text(unseen: &[UnseenPlace]) -> String {
    let names: Vec<&str> = unseen
        .iter()
        .filter_map(|place| match place {
            UnseenPlace::Store(name) => Some(name.as_str()),
            UnseenPlace::Staging | UnseenPlace::Others => None,
        })
        .collect();
    let mut parts = if names.is_empty() { Vec::new() } else { vec![store_names(names)] };
    parts.extend(unseen.iter().filter(|place| !matches!(place, UnseenPlace::Store(_))).map(ToString::to_string));
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{} and {last}", parts.join(", ")),
        last => last.unwrap_or_default(),
    }
}

pub(crate) fn names_of(unseen: &[UnseenPlace]) -> Vec<String> {
    unseen.iter().map(ToString::to_string).collect()
}
