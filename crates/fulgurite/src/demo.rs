//! The command `demo`: fills an archive on six folders that stand for disks, damages it as far as
//! its codes allow, and restores every byte.
//!
//! ```text
//! input -> put -> flush -> [overhead] -> destroy -> restore -> compare -> scrub -> verify
//! ```
//!
//! The damage exercises each level of the codes: sector labels detect changes, the track code
//! repairs scattered sectors, the large group repairs whole tracks, and the platter-set replaces
//! missing platters. On glass, it also shows one sector on its way to the platter and back.

mod compare;
mod damage;
mod glass;
mod input;
mod overhead;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use fulgurite_archive::catalogue::{SetDescription, VersionRow, Versions};
use fulgurite_archive::paging::Pager;
use fulgurite_archive::set_reader::Repairs;
use fulgurite_archive::settings::{GlassPreset, GlassSettings, MediumSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::volume::free_bytes;
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{Access, Archive, Existing, GetReport, ScrubReport};
use fulgurite_domain::{Kind, Medium, SetShape};
use fulgurite_glass::emulator::Preset;
use serde_json::{Value, json};

use crate::diagnostics;
use crate::get::restore_folder;
use crate::progress::Progress;
use crate::setup::new_settings;
use crate::text::{bytes, count, phrase, rate};
use crate::{Outcome, Session};
use compare::Comparison;
use damage::DamagedPlatter;
use glass::GlassShown;
use input::Input;
use overhead::Overhead;

const DISKS: u16 = 6;
const INFORMATION: u16 = 4;
const REDUNDANCY: u16 = DISKS - INFORMATION;
const DIFFERENCES_SHOWN: usize = 20;

pub(crate) fn demo(session: &Session, folder: Option<&Path>, into: &Path, medium: Medium) -> Result<Outcome> {
    if into.symlink_metadata().is_ok() {
        let shown = quoted(into);
        bail!("{} already exists: remove it (rm -r {shown}), or name another folder with --into", into.display());
    }
    let mut input = Input::choose(folder, into, medium)?;
    // During the flush, staging holds the content once and platters of 4+2 hold 1.8 times the
    // content. Generated files take their size once more.
    let needed = input.bytes * 14 / 5 + (64 << 20) + if input.is_generated { input.bytes } else { 0 };
    // On glass, small tracks and groups, the codes of sectors and repeated headers take more.
    let needed = needed + if medium == Medium::Glass { input.bytes * 2 + (4 << 20) } else { 0 };
    std::fs::create_dir_all(into).with_context(|| into.display().to_string())?;
    if let Some(free) = free_bytes(into).filter(|free| *free < needed) {
        // Removes only the folder just created, which is empty.
        let _ = std::fs::remove_dir(into);
        bail!(
            "{} has {} free, but the demonstration takes {}: name another folder with --into",
            into.display(),
            bytes(free),
            bytes(needed)
        );
    }
    if input.is_generated {
        session.say(match medium {
            Medium::Disk => "Generating some files to store with the source tree.",
            Medium::Glass => "Generating some files to store with the project's decisions.",
        });
        input.generate(&into.join("generated"))?;
    }
    let started = SystemTime::now();
    session.say(&format!(
        "Archiving {} ({}) into {}, on {DISKS} folders that stand for disks, in sets of {INFORMATION}+{REDUNDANCY} platters{}. \
         This takes up to {} of disk.",
        input.text,
        bytes(input.bytes),
        into.display(),
        if medium == Medium::Glass { " of emulated glass" } else { "" },
        bytes(needed)
    ));
    Archive::init(into, &settings(medium))?;
    let mut report = DemoReport::default();
    report.run(session, into, &input, started)?;
    session.answer(|| report.to_json(into));
    if !session.json && !session.quiet {
        report.say_speed(session);
        print_next_steps(session, into)?;
    }
    Ok(Outcome::troubled_if(report.has_trouble()))
}

fn settings(medium: Medium) -> Settings {
    let disk = |number| StoreSettings { name: format!("disk{number}"), path: format!("disk{number}").into() };
    let shape = SetShape { information: INFORMATION, redundancy: REDUNDANCY };
    let medium = match medium {
        Medium::Disk => MediumSettings::default(),
        // Small sectors and tracks, so that each platter has several tracks; and little noise,
        // because the damage leaves no redundancy for sectors that glass itself loses.
        Medium::Glass => {
            MediumSettings::Glass(GlassSettings { preset: GlassPreset::Tiny, noise: Preset::Clean, ..GlassSettings::default() })
        }
    };
    let settings = new_settings((1..=DISKS).map(disk).collect(), shape, medium, None, true);
    // Staging reserves space one segment at a time; smaller segments keep the demonstration from
    // reserving more than it needs.
    Settings { staging: StagingSettings { segment_mib: 64, ..settings.staging }, ..settings }
}

struct Stage {
    name: String,
    bytes: u64,
    took: Duration,
}

/// Everything that the demonstration reports.
#[derive(Default)]
struct DemoReport {
    objects: u64,
    content_bytes: u64,
    not_stored: u64,
    overhead: Overhead,
    /// What was shown of glass.
    glass: Option<GlassShown>,
    damaged_platters: Vec<DamagedPlatter>,
    restored: GetReport,
    comparison: Comparison,
    scrub: ScrubReport,
    verified: ScrubReport,
    stages: Vec<Stage>,
}

impl DemoReport {
    fn run(&mut self, session: &Session, into: &Path, input: &Input, started: SystemTime) -> Result<()> {
        let archive = Archive::open(into, Access::Write)?;
        let sets = self.store(session, &archive, input)?;
        let is_glass = sets.iter().any(|set| set.medium == Medium::Glass);
        if is_glass {
            self.glass = Some(glass::show_sector(session, &archive, &sets[0], into)?);
        }
        self.destroy(session, &archive, &sets)?;
        if is_glass {
            let map = glass::show_damage(session, &archive, &sets[0], into)?;
            self.glass.iter_mut().for_each(|shown| shown.pictures.push(map.clone()));
        }
        // Open the archive again, so that nothing is known of the damage.
        drop(archive);
        let archive = Archive::open(into, Access::Write)?;
        let progress = Progress::of_restore(session.quiet);
        let restored = into.join("restored");
        self.restore(session, &archive, &restored, &progress)?;

        progress.stage("comparing", Some(input.bytes));
        let start = Instant::now();
        self.comparison = compare::compare(input, &restored, started, &progress);
        self.stage("compare with what was put", self.comparison.bytes, start);
        progress.finish();
        self.comparison.say(session, DIFFERENCES_SHOWN);

        self.scrub(session, &archive, &progress)
    }

    /// Puts the input, and writes it to platters. Returns the sets.
    fn store(&mut self, session: &Session, archive: &Archive, input: &Input) -> Result<Vec<SetDescription>> {
        let progress = Progress::new(session.quiet);
        progress.stage("storing", Some(input.bytes));
        let start = Instant::now();
        let put = archive.put(input.sources(), &progress)?;
        self.stage("store: read, hash, encrypt, sync", put.bytes, start);
        (self.objects, self.content_bytes, self.not_stored) = (put.objects, put.bytes, put.failed);
        if put.objects == 0 {
            bail!("nothing could be stored, see above");
        }
        let watch = FlushWatch { progress: &progress, stages: Mutex::new(Vec::new()) };
        let flushed = archive.flush(&watch)?;
        self.stages.extend(watch.stages());
        let sets: Vec<SetDescription> = archive.catalogue().sets()?.into_iter().map(|set| set.description).collect();
        self.overhead = Overhead::of(archive, &sets, put.bytes, flushed.stored_bytes)?;
        progress.finish();
        session.say(&format!(
            "Stored {}, {}. Wrote {} in {}, read them back, and released the staged copies.\n",
            count(put.objects, "object"),
            bytes(put.bytes),
            count(flushed.platters, "platter"),
            count(flushed.sets, "set"),
        ));
        self.overhead.say(session);
        Ok(sets)
    }

    fn destroy(&mut self, session: &Session, archive: &Archive, sets: &[SetDescription]) -> Result<()> {
        self.damaged_platters = damage::destroy(archive, sets)?;
        session.say("\nDestroyed as much as the codes can repair");
        for damaged in &self.damaged_platters {
            session.say(&format!("  {damaged}"));
        }
        Ok(())
    }

    fn restore(&mut self, session: &Session, archive: &Archive, folder: &Path, progress: &Progress) -> Result<()> {
        let start = Instant::now();
        self.restored = restore_folder(archive, b"", folder, Existing::Keep, progress)?;
        self.stage("restore what is damaged", self.restored.bytes, start);
        progress.finish();
        let restored = &self.restored;
        session.say(&format!("\nRestored {}, {}, into {}", count(restored.objects, "object"), bytes(restored.bytes), folder.display()));
        say_repairs(session, restored.repairs);
        if restored.failed > 0 {
            diagnostics::trouble(&format!("{} not restored, see above.", phrase(restored.failed, "object was", "objects were")));
        }
        Ok(())
    }

    /// Repairs the platters, and verifies them.
    fn scrub(&mut self, session: &Session, archive: &Archive, progress: &Progress) -> Result<()> {
        let start = Instant::now();
        let scrub = archive.scrub(Some(Default::default()), progress)?;
        self.stage("scrub: read all, write anew", scrub.bytes, start);
        progress.finish();
        session.say(&format!(
            "\nScrubbed: of {}, {} missing or damaged; {} rewritten from the surviving sectors",
            count(scrub.platters, "platter"),
            phrase(scrub.unsound.len() as u64, "was", "were"),
            phrase(scrub.rebuilt, "was", "were"),
        ));
        say_repairs(session, scrub.repairs);
        self.scrub = scrub;

        let start = Instant::now();
        let verified = archive.scrub(None, progress)?;
        self.stage("verify", verified.bytes, start);
        progress.finish();
        match remaining_trouble(&verified) {
            None => session.say(&format!("Verified: all {} are whole again.", count(verified.platters, "platter"))),
            Some(trouble) => diagnostics::trouble(&trouble),
        }
        self.verified = verified;
        Ok(())
    }

    fn has_trouble(&self) -> bool {
        self.not_stored + self.restored.failed > 0
            || !self.comparison.is_same()
            || !self.verified.unsound.is_empty()
            || !self.verified.nothing_is_lost()
    }

    fn stage(&mut self, name: &str, bytes: u64, start: Instant) {
        self.stages.push(Stage { name: name.to_owned(), bytes, took: start.elapsed() });
    }

    fn say_speed(&self, session: &Session) {
        session.say("\nHow fast");
        for stage in &self.stages {
            session.say(&format!(
                "  {:39} {:>10} {:>7.2} s {:>14}",
                stage.name,
                bytes(stage.bytes),
                stage.took.as_secs_f64(),
                rate(stage.bytes, stage.took)
            ));
        }
    }

    fn to_json(&self, into: &Path) -> Value {
        let Self { restored, scrub, .. } = self;
        let stage = |Stage { name, bytes, took }: &Stage| json!({ "stage": name, "bytes": bytes, "seconds": took.as_secs_f64() });
        json!({
            "archive": into, "objects": self.objects, "content_bytes": self.content_bytes, "not_stored": self.not_stored,
            "overhead": self.overhead.to_json(),
            "destroyed": self.damaged_platters.iter().map(DamagedPlatter::to_json).collect::<Vec<_>>(),
            "restore": {
                "objects": restored.objects, "bytes": restored.bytes, "failed": restored.failed, "repairs": restored.repairs,
            },
            "comparison": self.comparison.to_json(),
            "scrub": {
                "platters": scrub.platters, "unsound": scrub.unsound.len(), "rebuilt": scrub.rebuilt, "repairs": scrub.repairs,
            },
            "unsound_after_scrub": self.verified.unsound.len(),
            "glass": self.glass.as_ref().map(GlassShown::to_json),
            "stages": self.stages.iter().map(stage).collect::<Vec<_>>(),
        })
    }
}

fn say_repairs(session: &Session, repairs: Repairs) {
    session.say(&format!("  {:>7}  lost sectors met", repairs.lost_sectors));
    session.say(&format!("  {:>7}  tracks rebuilt by their own code", repairs.by_track));
    session.say(&format!("  {:>7}  tracks rebuilt by their large group", repairs.by_group));
    session.say(&format!("  {:>7}  tracks rebuilt from the other platters of the set", repairs.by_set));
}

/// Measures the stages of a flush, and forwards events to the progress bar.
struct FlushWatch<'a> {
    progress: &'a Progress,
    /// Name, bytes and start of each stage.
    stages: Mutex<Vec<(String, u64, Instant)>>,
}

impl FlushWatch<'_> {
    fn stages(self) -> Vec<Stage> {
        let end = Instant::now();
        let started = self.stages.into_inner().expect("no panic holds this lock");
        let ends: Vec<Instant> = started.iter().skip(1).map(|(_, _, started)| *started).chain([end]).collect();
        let mut stages: Vec<Stage> = Vec::new();
        // A large input fills several sets, and each goes through all stages.
        for ((what, bytes, started), end) in started.into_iter().zip(ends) {
            let name = match &what[..] {
                "writing" => "write information platters".to_owned(),
                "verifying, coding" => "read back, compute and write redundancy".to_owned(),
                "verifying redundancy" => "read redundancy back".to_owned(),
                _ => what,
            };
            match stages.iter_mut().find(|stage| stage.name == name) {
                Some(stage) => (stage.bytes, stage.took) = (stage.bytes + bytes, stage.took + (end - started)),
                None => stages.push(Stage { name, bytes, took: end - started }),
            }
        }
        stages
    }
}

impl Watcher for FlushWatch<'_> {
    fn stage(&self, what: &str, bytes: Option<u64>) {
        self.stages.lock().expect("no panic holds this lock").push((what.to_owned(), bytes.unwrap_or(0), Instant::now()));
        self.progress.stage(what, bytes);
    }

    fn done(&self, objects: u64, bytes: u64) {
        self.progress.done(objects, bytes);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.progress.trouble(trouble);
    }
}

fn print_next_steps(session: &Session, into: &Path) -> Result<()> {
    let archive = Archive::open(into, Access::Read)?;
    let call = format!("{} -A {}", caller(), quoted(into));
    session.say(&format!("\nThe archive stays in {} and takes {}. To go on:", into.display(), bytes(disk_usage(into))));
    session.say(&format!("  {call} status"));
    session.say(&format!("  {call} ls --long"));
    match something_to_read(&archive)? {
        Some(name) => session.say(&format!("  {call} get {} -", quote(&name))),
        None => session.say(&format!("  {call} get --all {}", quoted(&into.join("again")))),
    }
    let is_glass = archive.catalogue().sets()?.iter().any(|set| set.description.medium == Medium::Glass);
    if let Some(row) = archive.catalogue().platters()?.first() {
        let platters = into.join(&row.place.store).join("platters");
        session.say(&format!("  {call} inspect {}", quoted(&platters.join(format!("{}.platter", row.place.platter)))));
        if is_glass {
            let platter = quoted(&platters.join(format!("{}.platter", row.place.platter)));
            session.say(&format!("  {call} inspect {platter} --health {}", quoted(&into.join("health.png"))));
        }
        session.say(&format!("  rm {}/*", quoted(&platters)));
        session.say(&format!("  {call} verify --objects"));
        session.say(&format!("  {call} scrub"));
    }
    session.say(&format!("  rm -r {}", quoted(into)));
    Ok(())
}

fn disk_usage(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = walkdir::WalkDir::new(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
}

/// The name of a short text that can be typed as it is; prefers texts written for people.
fn something_to_read(archive: &Archive) -> Result<Option<String>> {
    let mut found = None;
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.catalogue().list(b"", Versions::Newest, after, 1_000))? {
        let short = |row: &&VersionRow| row.record.kind == Kind::File && (1..16_384).contains(&row.record.size);
        for row in page.iter().filter(short) {
            let name = &row.record.name.0;
            if !name.iter().all(|byte| matches!(byte, b' '..=b'~')) {
                continue;
            }
            let ends = |endings: [&str; 3]| endings.iter().any(|end| name.ends_with(end.as_bytes()));
            if ends([".md", ".txt", ".rst"]) {
                return Ok(Some(row.record.name.display()));
            }
            if found.is_none() && ends([".toml", ".rs", ".py"]) {
                found = Some(row.record.name.display());
            }
        }
    }
    Ok(found)
}

/// How this program was called, so that the printed commands can be pasted.
fn caller() -> String {
    match std::env::var_os("CARGO") {
        Some(_) if cfg!(debug_assertions) => "cargo run --".to_owned(),
        Some(_) => "cargo run --release --".to_owned(),
        None => std::env::args_os().next().map_or_else(|| "fulgurite".to_owned(), |name| quoted(&PathBuf::from(name))),
    }
}

fn quoted(path: &Path) -> String {
    quote(&path.display().to_string())
}

/// What the last pass over all platters found wrong.
fn remaining_trouble(verified: &ScrubReport) -> Option<String> {
    let unsound = phrase(verified.unsound.len() as u64, "platter is still damaged", "platters are still damaged");
    let lost = phrase(verified.lost_versions + verified.unlisted, "version is lost", "versions are lost");
    match (verified.unsound.is_empty(), verified.nothing_is_lost()) {
        (true, true) => None,
        (false, true) => Some(format!("{unsound}.")),
        (true, false) => Some(format!("{lost}.")),
        (false, false) => Some(format!("{unsound}, and {lost}.")),
    }
}

/// Quotes text so that a shell takes it as one word.
fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_versions_are_named_even_if_all_platters_are_whole() {
        let mut verified = ScrubReport::default();
        assert_eq!(remaining_trouble(&verified), None);
        verified.lost_versions = 2;
        assert_eq!(remaining_trouble(&verified).as_deref(), Some("2 versions are lost."));
    }

    #[test]
    fn quoted_text_is_one_word_for_the_shell() {
        assert_eq!(quote("demo-archive/disk1"), "demo-archive/disk1");
        assert_eq!(quote("my demo"), "'my demo'");
        assert_eq!(quote("it's"), "'it'\\''s'");
        assert_eq!(quote(""), "''");
    }
}
