//! Validates storage roots: their own files, the folders between objects, and every object.

use std::collections::{BTreeMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};

use fulgurite_digest::Algorithm;

use super::{digest_of, validate_object};
use crate::findings::Findings;
use crate::folder::{Entry, Kind, ReadFault, declaration_is, list};
use crate::layout::Layout;
use crate::problem::Problem;
use crate::report::{Report, Unreadable, ValidateOptions, Verdict, verdict};
use crate::root::{LAYOUT, RootError, layout_name, read_layout, read_text};
use crate::spec::{EXTENSIONS, SpecVersion, is_registered_extension};
use crate::walk::{Met, Walk, place_of};

/// Identifiers that are remembered to notice repeated ones, where no layout excludes them: 16 bytes
/// each.
const IDS_MAX: usize = 4 << 20;
/// Objects under way for each thread, so that one large object doesn't stop the others at once.
const OBJECTS_PER_THREAD: usize = 16;

/// The result of the validation of a storage root.
#[derive(Debug)]
pub struct RootReport {
    /// The specification that it declares.
    pub spec: Option<SpecVersion>,
    /// What is wrong with the storage root itself, without its objects.
    pub findings: Findings,
    /// What could not be read outside of objects.
    pub unreadable: Vec<Unreadable>,
    /// How many files and folders outside of objects could not be read.
    pub unreadable_count: u64,
    /// Objects without errors.
    pub valid: u64,
    /// Objects with errors.
    pub invalid: u64,
    /// Objects without known errors, but with something unreadable.
    pub unknown: u64,
    /// Errors of all objects.
    pub object_errors: u64,
    /// Warnings of all objects.
    pub object_warnings: u64,
    /// Content files that were read.
    pub files_read: u64,
    /// Bytes of these.
    pub bytes_read: u64,
    /// Objects whose identifier was not compared with all others, for lack of memory.
    pub ids_unchecked: u64,
    /// True if the caller stopped the validation.
    pub is_stopped: bool,
    keep: usize,
}

impl RootReport {
    /// What the findings amount to, those of objects included.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match verdict(&self.findings, self.unreadable_count) {
            Verdict::Invalid => Verdict::Invalid,
            _ if self.invalid > 0 => Verdict::Invalid,
            Verdict::Valid if self.unknown == 0 && !self.is_stopped => Verdict::Valid,
            _ => Verdict::Unknown,
        }
    }

    fn add_unreadable(&mut self, place: &str, fault: impl Into<ReadFault>) {
        self.unreadable_count += 1;
        if self.unreadable.len() < self.keep {
            self.unreadable.push(Unreadable { place: place.to_owned(), fault: fault.into() });
        }
    }
}

/// Validates a storage root and all of its objects.
///
/// `each` receives the folder of every object, relative to the storage root, and its report, in the
/// order of the folders' names; the validation stops when it returns false. Different threads work
/// on different objects. Memory depends on the largest objects and folders, not on the number of
/// objects.
pub fn validate_root(folder: &Path, options: &ValidateOptions, each: &mut dyn FnMut(&Path, &Report) -> bool) -> RootReport {
    let report = RootReport {
        spec: None,
        findings: Findings::keeping(options.keep),
        unreadable: Vec::new(),
        unreadable_count: 0,
        valid: 0,
        invalid: 0,
        unknown: 0,
        object_errors: 0,
        object_warnings: 0,
        files_read: 0,
        bytes_read: 0,
        ids_unchecked: 0,
        is_stopped: false,
        keep: options.keep,
    };
    let mut check = RootCheck { folder, report, layout: None, ids: HashSet::new(), first_levels: None, is_mixed: false };
    if check.root_files() {
        check.objects(options, each);
    }
    check.report
}

struct RootCheck<'a> {
    folder: &'a Path,
    report: RootReport,
    layout: Option<Layout>,
    ids: HashSet<[u8; 16]>,
    first_levels: Option<usize>,
    is_mixed: bool,
}

impl RootCheck<'_> {
    fn add(&mut self, place: &str, problem: Problem) {
        self.report.findings.add(place, problem);
    }

    /// Checks what is in the storage root's own folder. Returns false if it can't be listed.
    fn root_files(&mut self) -> bool {
        let entries = match list(self.folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.report.add_unreadable("", error);
                return false;
            }
        };
        self.declarations(&entries);
        let has = |name: &str, kind| entries.iter().any(|entry| entry.kind == kind && entry.name == name);
        if has(LAYOUT, Kind::File) {
            self.layout();
        }
        if has(EXTENSIONS, Kind::Folder) {
            self.extensions();
        }
        true
    }

    fn declarations(&mut self, entries: &[Entry]) {
        let mut count = 0;
        for entry in entries.iter().filter(|entry| entry.kind == Kind::File) {
            let name = entry.text();
            let Some(number) = name.strip_prefix("0=ocfl_").filter(|number| !number.starts_with("object_")) else { continue };
            count += 1;
            match SpecVersion::of_number(number) {
                None => self.add("", Problem::UnknownRootDeclaration { name: (&*name).into() }),
                Some(spec) => self.report.spec = self.report.spec.max(Some(spec)),
            }
            let value = &name["0=".len()..];
            match declaration_is(&self.folder.join(&entry.name), value) {
                Ok(true) => {}
                Ok(false) => self.add(&name, Problem::RootDeclarationText { expected: value.to_owned() }),
                Err(fault) => self.report.add_unreadable(&name, fault),
            }
        }
        match count {
            0 => self.add("", Problem::NoRootDeclaration),
            1 => {}
            count => self.add("", Problem::SeveralRootDeclarations { count }),
        }
    }

    fn layout(&mut self) {
        let name = match read_text(&self.folder.join(LAYOUT)) {
            Ok(text) => text.as_deref().and_then(layout_name),
            Err(RootError::Read { fault, .. }) if !matches!(fault, ReadFault::TooLarge { .. }) => {
                return self.report.add_unreadable(LAYOUT, fault);
            }
            Err(_) => None,
        };
        let Some(name) = name else { return self.add(LAYOUT, Problem::LayoutForm) };
        // Registered names begin with a number, and a validator can't know those of the future.
        let is_registrable = name.len() > 5 && name.as_bytes()[4] == b'-' && name.bytes().take(4).all(|digit| digit.is_ascii_digit());
        if !is_registrable && !is_registered_extension(&name) {
            self.add(LAYOUT, Problem::LayoutName { value: name.as_str().into() });
        }
        // A layout that can't be used isn't compared with the objects' places.
        self.layout = read_layout(self.folder).ok().and_then(Result::ok);
    }

    fn extensions(&mut self) {
        match list(&self.folder.join(EXTENSIONS)) {
            Err(error) => self.report.add_unreadable(EXTENSIONS, error),
            Ok(entries) => {
                for entry in entries {
                    let text = entry.text();
                    let name = (&*text).into();
                    match entry.kind {
                        Kind::Folder if is_registered_extension(&text) => {}
                        Kind::Folder => self.add(EXTENSIONS, Problem::UnregisteredRootExtension { name }),
                        Kind::File => self.add(EXTENSIONS, Problem::FileInRootExtensions { name }),
                        Kind::Link => self.add(EXTENSIONS, Problem::SymbolicLink { name }),
                        Kind::Special => self.add(EXTENSIONS, Problem::SpecialFile { name }),
                    }
                }
            }
        }
    }

    /// Validates all objects. This thread walks and reports; others validate.
    fn objects(&mut self, options: &ValidateOptions, each: &mut dyn FnMut(&Path, &Report) -> bool) {
        let threads = options.threads.max(1);
        let window = threads * OBJECTS_PER_THREAD;
        let one_thread = ValidateOptions { threads: 1, ..options.clone() };
        let (jobs, job_queue) = mpsc::channel::<(usize, PathBuf)>();
        let mut jobs = Some(jobs);
        let (results, result_queue) = mpsc::channel::<(usize, PathBuf, std::thread::Result<Report>)>();
        let job_queue = Mutex::new(job_queue);
        let root = self.folder;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (results, job_queue, one_thread) = (results.clone(), &job_queue, &one_thread);
                scope.spawn(move || {
                    loop {
                        let job = job_queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok((index, folder)) = job else { return };
                        // A panic must reach the thread that waits for this result.
                        let validate = || validate_object(&root.join(&folder), one_thread);
                        let report = catch_unwind(AssertUnwindSafe(validate));
                        if results.send((index, folder, report)).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(results);
            let mut walk = Walk::new(root);
            let mut levels_of = BTreeMap::new();
            let mut finished = BTreeMap::new();
            let (mut sent, mut reported) = (0, 0);
            let mut is_walking = true;
            while is_walking || reported < sent {
                while is_walking && sent - reported < window {
                    match walk.next() {
                        None => is_walking = false,
                        Some(Met::Problem(place, problem)) => self.add(&place, problem),
                        Some(Met::Unreadable(place, fault)) => self.report.add_unreadable(&place, fault),
                        Some(Met::Object { folder, levels }) => {
                            levels_of.insert(sent, levels);
                            // Workers only end when this sender is dropped.
                            let _ = jobs.as_ref().map(|jobs| jobs.send((sent, folder)));
                            sent += 1;
                        }
                    }
                }
                if reported == sent {
                    continue;
                }
                let Ok((index, folder, report)) = result_queue.recv() else { break };
                let report = report.unwrap_or_else(|panic| {
                    // So that the other workers end.
                    drop(jobs.take());
                    resume_unwind(panic)
                });
                finished.insert(index, (folder, report));
                while let Some((folder, report)) = finished.remove(&reported) {
                    let levels = levels_of.remove(&reported).unwrap_or_default();
                    reported += 1;
                    self.object(&folder, levels, &report);
                    if !each(&folder, &report) {
                        self.report.is_stopped = true;
                        drop(jobs.take());
                        // Jobs that are queued already are given up.
                        job_queue.lock().unwrap_or_else(PoisonError::into_inner).try_iter().for_each(drop);
                        return;
                    }
                }
            }
            drop(jobs.take());
        });
    }

    /// Takes an object's result into account.
    fn object(&mut self, folder: &Path, levels: usize, report: &Report) {
        match report.verdict() {
            Verdict::Valid => self.report.valid += 1,
            Verdict::Invalid => self.report.invalid += 1,
            Verdict::Unknown => self.report.unknown += 1,
        }
        self.report.object_errors += report.findings.errors();
        self.report.object_warnings += report.findings.warnings();
        self.report.files_read += report.files_read;
        self.report.bytes_read += report.bytes_read;
        let place = place_of(folder);
        if let (Some(object), Some(root)) = (report.spec, self.report.spec)
            && object > root
        {
            self.add(&place, Problem::ObjectNewerThanRoot { object, root });
        }
        let first = *self.first_levels.get_or_insert(levels);
        if levels != first {
            self.add(&place, Problem::DepthDiffers { levels, first });
            if (levels == 1 || first == 1) && !self.is_mixed {
                self.is_mixed = true;
                self.add("", Problem::MixedDepths);
            }
        }
        let Some(id) = report.id.as_deref().filter(|id| !id.is_empty()) else { return };
        if let Some(layout) = &self.layout {
            // Objects at the places of their identifiers can't have one identifier.
            let expected = layout.place(id).unwrap_or_else(|error| error.to_string());
            if expected != place {
                self.add(&place, Problem::ObjectMisplaced { id: id.into(), expected: expected.as_str().into() });
            }
            return;
        }
        let digest = digest_of(id.as_bytes(), Algorithm::Sha256);
        let mut short = [0; 16];
        short.copy_from_slice(&digest.value()[..16]);
        if self.ids.contains(&short) {
            self.add(&place, Problem::IdRepeated { id: id.into() });
        } else if self.ids.len() < IDS_MAX {
            self.ids.insert(short);
        } else {
            self.report.ids_unchecked += 1;
        }
    }
}
