//! Scrubbing: reads every platter in full, and rewrites damaged or missing platters from the
//! erasure codes.
//!
//! Absent and unreadable platters may be intact. They are left alone unless the operator asks to
//! replace them, and nothing on them is reported as lost.
//!
//! Platters are never patched (I2). A damaged platter is replaced by an identical one with the same
//! identifier, after the new one has been written and read back.

mod finding;
mod losses;
mod misnamed;
mod objects;
mod reading;
mod replacing;
mod shared;
mod staged;
mod unlisted;

use std::collections::BTreeMap;

use fulgurite_domain::{Medium, PlatterId};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{PlatterRow, SetDescription, SetState, UNKNOWN_STORE, VersionRow, Versions};
use crate::keystore::KeyStoreError;
use crate::paging::Pager;
use crate::rebuild::{keys_of_later_versions, unseen_stores};
use crate::set_reader::{OpenSet, SetReader};
use crate::store::{check_all, distinct_texts};
use crate::store_snapshot::StoreSnapshot;
use crate::uncatalogued::{count_unknown_staged, find_missing};
use crate::unread::{Hindrance, store_names};
use crate::watch::{Trouble, Watcher, WithoutProgress};

use misnamed::find_misnamed;
use objects::was_removed;
use reading::{read_platter, record};
use replacing::{Targets, find_set_header, replace};
use shared::SharedNumbers;

pub use finding::{Irreparable, IrreparableSet, PlatterFinding, PlatterState, Replace, ScrubReport};
pub use misnamed::MisnamedPlatter;
pub use objects::ObjectsReport;
pub use shared::count_shared_numbers;
pub use staged::StagedReport;
pub use unlisted::UnknownPlatter;

const PAGE: usize = 1_000;

impl Archive {
    /// Checks the catalogue, and reads all platters and all of staging. With `repair`, missing or
    /// damaged platters, and those that it selects in addition, are written anew: to their own
    /// store or, if that is unusable, to one without a platter of the set.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue is damaged, if catalogue or key store fail, or if the
    /// watcher stops the scrub. Problems with platters are in the report.
    pub fn scrub(&self, repair: Option<Replace>, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        Scrub::new(self, repair, watcher).run()
    }

    /// Platters of complete sets that are missing from stores that are present. Lists the stores,
    /// and reads no platter.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue can't be read.
    pub fn missing_platters(&self) -> Result<Vec<PlatterRow>, ArchiveError> {
        find_missing(self)
    }

    /// Reads a platter in full and records the result.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::Stopped`], or an error of the catalogue.
    pub fn verify_platter(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<PlatterFinding, ArchiveError> {
        let (set, position) = set_with(self, platter)?;
        let (finding, _) = read_platter(self, &OpenSet::for_verification(self, &set), position, watcher)?;
        record(self, &set, &finding, None)?;
        note_reread(&finding, watcher);
        Ok(finding)
    }

    /// Reads all platters of the set that contains `platter`, and reports what is lost. Replaces
    /// nothing.
    ///
    /// # Errors
    /// [`ArchiveError::UnknownPlatter`], [`ArchiveError::Stopped`], or an error of the catalogue.
    pub fn verify_set_of(&self, platter: PlatterId, watcher: &dyn Watcher) -> Result<ScrubReport, ArchiveError> {
        let mut scrub = Scrub::new(self, None, watcher);
        scrub.set(&set_with(self, platter)?.0)?;
        Ok(scrub.report)
    }
}

/// The set of a platter, and the platter's position in it.
fn set_with(archive: &Archive, platter: PlatterId) -> Result<(SetDescription, u16), ArchiveError> {
    let set = archive.catalogue().set_of(platter)?.ok_or(ArchiveError::UnknownPlatter(platter))?.description;
    let position = set.platters.iter().position(|place| place.platter == platter).expect("a set names its platters");
    Ok((set, position as u16))
}

struct Scrub<'a> {
    archive: &'a Archive,
    /// The platters to replace; `None` replaces nothing.
    repair: Option<Replace>,
    watcher: &'a dyn Watcher,
    report: ScrubReport,
    has_looked_for_misnamed: bool,
}

/// How often a platter is replaced in one scrub.
const REPLACE_ATTEMPTS: u32 = 2;

impl<'a> Scrub<'a> {
    fn new(archive: &'a Archive, repair: Option<Replace>, watcher: &'a dyn Watcher) -> Self {
        Self { archive, repair, watcher, report: ScrubReport::default(), has_looked_for_misnamed: false }
    }

    fn run(mut self) -> Result<ScrubReport, ArchiveError> {
        self.archive.check_in_place()?;
        for text in distinct_texts(check_all(self.archive.stores()).iter().filter_map(|checked| checked.as_ref().err())) {
            self.watcher.trouble(Trouble::Note(&text));
        }
        // First, because everything below relies on it. A reader, so that others can commit.
        self.watcher.stage("checking the catalogue", None);
        self.archive.reading().check()?;
        let sets = self.archive.catalogue().sets()?;
        let sets: Vec<SetDescription> = sets.into_iter().filter(|set| set.state == SetState::Complete).map(|set| set.description).collect();
        for (index, set) in sets.iter().enumerate() {
            let bytes = set.geometry.file_bytes() * u64::from(set.shape.platters());
            let waits = set.medium == Medium::Glass && self.archive.settings().decode.prices.is_some();
            let when = if waits { " when computing is cheap" } else { "" };
            self.watcher.stage(&format!("reading set {} of {}{when}", index + 1, sets.len()), Some(bytes));
            self.set(set)?;
        }
        self.staging()?;
        self.report.unknown_staged = count_unknown_staged(self.archive)?;
        self.keys()?;
        self.unlisted()?;
        self.find_uncatalogued()?;
        self.report.unavailable = unseen_stores(self.archive);
        self.archive.check_in_place()?;
        Ok(self.report)
    }

    /// Reads a set, replaces platters of it, and reports what is lost.
    fn set(&mut self, set: &SetDescription) -> Result<(), ArchiveError> {
        let mut open = OpenSet::for_verification(self.archive, set);
        let mut findings = Vec::new();
        for position in 0..set.shape.platters() {
            let (finding, bytes) = read_platter(self.archive, &open, position, self.watcher)?;
            self.report.bytes += set.stored_bytes(bytes);
            record(self.archive, set, &finding, None)?;
            note_reread(&finding, self.watcher);
            findings.push(finding);
        }
        note_shared_stores(set, self.watcher);
        self.report.platters += findings.len() as u64;
        self.report.platters_read += findings.iter().filter(|finding| finding.was_read(set.geometry)).count() as u64;
        self.report.expected_losses += findings.iter().map(|finding| finding.expected_losses).sum::<u64>();
        self.report.unsound.extend(findings.iter().filter(|finding| !finding.is_sound()).cloned());
        let mut reader = SetReader::new(&self.archive.rebuilding, self.archive.threads());
        if let Some(replace) = self.repair {
            self.replace(set, replace, &mut findings, &mut open, &mut reader)?;
        }
        note_copies(self.archive, set, self.watcher);
        if !self.has_looked_for_misnamed && findings.iter().any(is_wrong) {
            self.watcher.stage("looking for platters under wrong names", None);
            self.report.misnamed = find_misnamed(self.archive);
            self.has_looked_for_misnamed = true;
        }
        let is_lost = self.report_lost(&open, &findings, &mut reader)?;
        self.find_irreparable(set, &findings, is_lost);
        self.report.repairs.add(reader.repairs());
        Ok(())
    }

    /// Notes which unsound platters of a set a scrub can't replace as things are.
    fn find_irreparable(&mut self, set: &SetDescription, findings: &[PlatterFinding], is_lost: bool) {
        // Those under wrong names can be renamed.
        let is_left = |finding: &&PlatterFinding| is_wrong(finding) && self.report.misnamed_file_of(finding).is_none();
        let wrong: Vec<u16> = findings.iter().filter(is_left).map(|finding| finding.position).collect();
        let without_store = || wrong.iter().filter(|&&position| !Targets::find(self.archive, set, position).has_one()).count();
        let (platters, why) = match wrong.len() {
            0 => return,
            wrong if is_lost && set.medium == Medium::Glass && self.archive.settings().medium.is_harsh() => (wrong, Irreparable::Noise),
            wrong if is_lost => (wrong, Irreparable::Lost),
            // One that is out of reach may have a header.
            wrong if findings.iter().all(|of| of.hindrance().is_none()) && find_set_header(self.archive, set).is_err() => {
                (wrong, Irreparable::NoHeader)
            }
            _ => (without_store(), Irreparable::NoStore),
        };
        if platters > 0 {
            self.report.irreparable.push(IrreparableSet { set: set.id, platters: platters as u64, why });
        }
    }

    fn replace(
        &mut self,
        set: &SetDescription,
        selection: Replace,
        findings: &mut [PlatterFinding],
        open: &mut OpenSet,
        reader: &mut SetReader<'_>,
    ) -> Result<(), ArchiveError> {
        let archive = self.archive;
        if findings.iter().any(|finding| selection.includes(finding)) {
            self.watcher.stage("writing replacement platters", None);
        }
        self.report.left += findings.iter().filter(|finding| !finding.is_sound() && !selection.includes(finding)).count() as u64;
        // Every repair may move a platter, and its new store must not get another one of the set
        // (I3).
        let mut set = set.clone();
        // A disk that fails may need a second attempt; more would never end.
        let mut attempts = vec![0; set.platters.len()];
        // A repaired platter may provide what another one needs, so repeat until nothing changes.
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for position in 0..set.shape.platters() {
                let finding = &mut findings[usize::from(position)];
                if !selection.includes(finding) || attempts[usize::from(position)] == REPLACE_ATTEMPTS {
                    continue;
                }
                let found = (finding.state(), finding.lost_sectors);
                let targets = Targets::find(archive, &set, position);
                match replace(archive, &set, position, found, targets, reader, &WithoutProgress(self.watcher)) {
                    Ok(_) => {
                        self.report.rebuilt += u64::from(attempts[usize::from(position)] == 0);
                        attempts[usize::from(position)] += 1;
                        changed = true;
                        reader.forget_damage();
                        if let Some(row) = archive.catalogue().set_of(finding.platter)? {
                            set = row.description;
                        }
                        *open = OpenSet::for_verification(archive, &set);
                        (*finding, _) = read_platter(archive, open, position, &WithoutProgress(self.watcher))?;
                        let reported = self.report.unsound.iter_mut().find(|reported| reported.platter == finding.platter);
                        reported.into_iter().for_each(|reported| reported.replaced = finding.is_sound());
                        record(archive, &set, finding, None)?;
                    }
                    Err(error) => {
                        let text = format!("platter {} was not rebuilt: {error}", finding.platter);
                        self.watcher.trouble(Trouble::Note(&text));
                    }
                }
            }
        }
        Ok(())
    }

    fn staging(&mut self) -> Result<(), ArchiveError> {
        let totals = self.archive.catalogue().staged_totals()?;
        self.watcher.stage("reading staging", Some(totals.stored_bytes));
        let report = self.archive.verify_staged(&|_| true, self.watcher)?;
        self.report.staged_versions += report.versions;
        self.report.lost_versions += report.damaged;
        self.report.out_of_reach.absent += report.out_of_reach.absent;
        self.report.out_of_reach.unreadable += report.out_of_reach.unreadable;
        Ok(())
    }

    /// Unwraps the key of every encrypted version: without its key a version is lost even if its
    /// platters are intact. Also collects shared version numbers.
    fn keys(&mut self) -> Result<(), ArchiveError> {
        self.watcher.stage("opening keys", None);
        let mut shared = SharedNumbers::default();
        let mut pages = Pager::default();
        while let Some(page) = pages.next(|after| self.archive.catalogue().list(b"", Versions::All, after, PAGE))? {
            page.iter().for_each(|row| shared.take(row, self.watcher));
            for row in page.iter().filter(|row| row.sealed) {
                let why = match self.archive.keys().get(row.id) {
                    Ok(None) => "no key: it is not in the key store. `fulgurite keys import` brings keys back from a copy".to_owned(),
                    Ok(Some(key)) if self.archive.master_key().unwrap(&key).is_err() => "the master key can't unwrap its key".to_owned(),
                    Ok(Some(_)) => continue,
                    Err(error @ KeyStoreError::Damaged { .. }) => error.to_string(),
                    Err(error) => return Err(error.into()),
                };
                // Keys are destroyed after the catalogue has removed their versions.
                if !was_removed(self.archive, row)? {
                    self.report_version(row, None, &why);
                }
            }
        }
        self.report.shared_numbers = shared.count;
        match self.archive.later_keys.map_or_else(|| keys_of_later_versions(self.archive), Ok) {
            Ok(keys) => self.report.later_keys = keys,
            // Versions without a key were reported above.
            Err(ArchiveError::Keys(error @ KeyStoreError::Damaged { .. })) => {
                self.watcher.trouble(Trouble::Note(&format!("keys that no version needs can't be counted: {error}")));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Counts and reports a version that is lost or, with a hindrance, can't be read now.
    fn report_version(&mut self, row: &VersionRow, hindrance: Option<Hindrance>, why: &str) {
        match hindrance {
            None => self.report.lost_versions += 1,
            Some(hindrance) => self.report.out_of_reach.add(hindrance),
        }
        self.watcher.trouble(Trouble::unread(row, hindrance, why));
    }
}

/// True if a platter is neither sound nor merely out of reach.
fn is_wrong(finding: &PlatterFinding) -> bool {
    Replace::default().includes(finding)
}

/// Reports parts of a platter that were good only when they were read again.
fn note_reread(finding: &PlatterFinding, watcher: &dyn Watcher) {
    if finding.good_when_reread > 0 {
        let PlatterFinding { platter, store, good_when_reread, .. } = finding;
        let text = format!(
            "platter {platter}: {good_when_reread} of its tracks and headers were wrong when first read and good when read again, so they don't \
             count as damaged; the disk of store {store}, or the way to it, may be failing"
        );
        watcher.trouble(Trouble::Note(&text));
    }
}

/// Reports platters that are on several stores. Only one copy of each was read in full.
fn note_copies(archive: &Archive, set: &SetDescription, watcher: &dyn Watcher) {
    let snapshot = StoreSnapshot::take(archive);
    for place in &set.platters {
        let mut found = snapshot.find_all(place);
        // What is another platter is no copy, and may be the only one of that.
        found.retain(|found| MisnamedPlatter::of(&*found.file, place.platter, &found.store, archive.id()).is_none());
        if let [first, others @ ..] = &found[..]
            && !others.is_empty()
        {
            let text = format!(
                "platter {} is on store {}, and copies of it are on {}: they are read only where it is damaged. Remove the copies when it is sound",
                place.platter,
                first.store,
                store_names(others.iter().map(|other| other.store.as_str()))
            );
            watcher.trouble(Trouble::Note(&text));
        }
    }
}

/// Reports stores with several platters of a set (I3). A catalogue can list such stores if it was
/// rebuilt after platters were moved.
fn note_shared_stores(set: &SetDescription, watcher: &dyn Watcher) {
    let mut platters: BTreeMap<&str, u64> = BTreeMap::new();
    set.platters.iter().filter(|place| place.store != UNKNOWN_STORE).for_each(|place| *platters.entry(&place.store).or_default() += 1);
    for (store, count) in platters.into_iter().filter(|(_, count)| *count > 1) {
        let text = format!(
            "store {store} has {count} platters of set {}, so losing the store loses all of them: move all but one to stores without any, then \
             run `fulgurite catalogue rebuild`",
            set.id
        );
        watcher.trouble(Trouble::Note(&text));
    }
}
