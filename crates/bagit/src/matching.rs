//! Matches the files of a bag with the lines of manifests and fetch.txt, by sorting both.
//!
//! Everything known of a path becomes a record: that the file is present, that line 7 of
//! `manifest-sha512.txt` lists it, that fetch.txt does. The records of paths that could mean one
//! file ([`path::key`]) come out of the sort together:
//!
//! ```text
//! key            path              kind
//! data/núñez     data/Nu´n˜ez      listed   manifest 0, line 3     decomposed, as on a Mac
//! data/núñez     data/Núñez        present  77 bytes               composed
//!                '-> neither is matched exactly, but they are equal after normalization: one file
//! ```
//!
//! Memory: the sort's buffer, and one key's paths. More than [`LARGEST_FAMILY`] unmatched paths
//! with one key are not compared after normalization.

use std::collections::VecDeque;
use std::io;

use fulgurite_digest::{Algorithm, Digest};

use crate::finding::{Finding, Place, Problem};
use crate::manifest::Manifest;
use crate::path;
use crate::sort::{Merge, Record, Sorter};

const LARGEST_FAMILY: usize = 256;

/// What is at a path of the bag's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Present {
    File { bytes: u64 },
    Link,
    Other,
}

impl Present {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::File { bytes } => bytes,
            Self::Link | Self::Other => 0,
        }
    }
}

/// A line of a manifest that lists a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Index of the manifest.
    pub(crate) manifest: usize,
    pub(crate) line: u64,
    /// `None` if the manifest lists the path again with another digest, or if its algorithm is
    /// unknown.
    pub(crate) digest: Option<Digest>,
}

/// A line of fetch.txt that lists a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) line: u64,
    pub(crate) bytes: Option<u64>,
}

/// All that is known of a file.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    /// As in the folder, or as listed if the file is missing.
    pub(crate) path: Vec<u8>,
    pub(crate) present: Option<Present>,
    /// One entry for each manifest that lists it.
    pub(crate) listed: Vec<Listed>,
    pub(crate) fetched: Option<Fetched>,
    /// True if these lines list, by another name, a file that has been returned already.
    pub(crate) is_alias: bool,
    pub(crate) notes: Vec<Finding>,
    /// Another spelling in a manifest, before decoding.
    spelled: Option<Vec<u8>>,
}

impl Matched {
    pub(crate) fn place(&self) -> Place {
        Place::file(String::from_utf8_lossy(&self.path))
    }

    fn is_listed(&self) -> bool {
        !self.listed.is_empty() || self.fetched.is_some()
    }
}

const PRESENT: u8 = 0;
const LISTED: u8 = 1;
const FETCHED: u8 = 2;

/// Takes what is known, in any order.
pub(crate) struct Facts {
    sorter: Sorter,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Facts {
    pub(crate) fn new(sorter: Sorter) -> Self {
        Self { sorter, key: Vec::new(), value: Vec::new() }
    }

    pub(crate) fn present(&mut self, path: &[u8], present: Present) -> io::Result<()> {
        self.value.clear();
        self.value.push(match present {
            Present::File { .. } => 0,
            Present::Link => 1,
            Present::Other => 2,
        });
        self.value.extend(present.bytes().to_le_bytes());
        self.push(path, PRESENT, 0, 0)
    }

    pub(crate) fn listed(
        &mut self,
        path: &str,
        spelled: Option<&str>,
        manifest: usize,
        line: u64,
        digest: Option<&Digest>,
    ) -> io::Result<()> {
        self.value.clear();
        let digest = digest.map(Digest::value).unwrap_or_default();
        self.value.push(digest.len() as u8);
        self.value.extend(digest);
        self.value.extend(spelled.unwrap_or_default().as_bytes());
        self.push(path.as_bytes(), LISTED, manifest as u16, line)
    }

    pub(crate) fn fetched(&mut self, path: &str, spelled: Option<&str>, line: u64, bytes: Option<u64>) -> io::Result<()> {
        self.value.clear();
        self.value.push(u8::from(bytes.is_some()));
        self.value.extend(bytes.unwrap_or(0).to_le_bytes());
        self.value.extend(spelled.unwrap_or_default().as_bytes());
        self.push(path.as_bytes(), FETCHED, 0, line)
    }

    /// Neither keys nor paths contain a zero byte, so zeros end them, and the shorter sorts first.
    fn push(&mut self, path: &[u8], kind: u8, manifest: u16, line: u64) -> io::Result<()> {
        self.key.clear();
        self.key.extend(path::key(path));
        self.key.push(0);
        self.key.extend(path);
        self.key.extend([0, kind]);
        self.key.extend(manifest.to_be_bytes());
        self.key.extend(line.to_be_bytes());
        self.sorter.push(&self.key, &self.value)
    }

    pub(crate) fn finish(self, manifests: &[Manifest]) -> io::Result<Matching> {
        Ok(Matching { records: self.sorter.finish()?, next: None, manifests: manifests.to_vec(), ready: VecDeque::new(), has_ended: false })
    }
}

struct Fact {
    key: Vec<u8>,
    path: Vec<u8>,
    kind: u8,
    manifest: usize,
    line: u64,
    value: Vec<u8>,
}

impl Fact {
    fn of(record: Record) -> Self {
        let mut key = record.key;
        // Written by `Facts::push`.
        let tail = key.split_off(key.len() - 11);
        let (kind, manifest, line) = (tail[0], u16::from_be_bytes([tail[1], tail[2]]), &tail[3..]);
        let line = line.iter().fold(0, |line, byte| (line << 8) | u64::from(*byte));
        key.pop();
        let separator = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
        let path = key.get(separator + 1..).unwrap_or_default().to_vec();
        key.truncate(separator);
        Self { key, path, kind, manifest: usize::from(manifest), line, value: record.value }
    }
}

/// Files with all that is known of them, ordered by [`path::key`].
pub(crate) struct Matching {
    records: Merge,
    next: Option<Fact>,
    manifests: Vec<Manifest>,
    ready: VecDeque<Matched>,
    has_ended: bool,
}

impl Iterator for Matching {
    type Item = io::Result<Matched>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && !self.has_ended {
            if let Err(error) = self.read_family() {
                self.has_ended = true;
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Matching {
    fn take_fact(&mut self) -> io::Result<Option<Fact>> {
        match self.next.take() {
            Some(fact) => Ok(Some(fact)),
            None => Ok(self.records.next().transpose()?.map(Fact::of)),
        }
    }

    /// Reads all paths of the next key.
    fn read_family(&mut self) -> io::Result<()> {
        let Some(first) = self.take_fact()? else {
            self.has_ended = true;
            return Ok(());
        };
        let key = first.key.clone();
        self.next = Some(first);
        let mut family = Family::default();
        while let Some(fact) = self.take_fact()? {
            if fact.key != key {
                self.next = Some(fact);
                break;
            }
            let matched = self.read_path(fact)?;
            family.add(matched, &mut self.ready);
        }
        family.finish(&mut self.ready);
        Ok(())
    }

    /// Reads all facts of a path, of which this is the first.
    fn read_path(&mut self, first: Fact) -> io::Result<Matched> {
        let mut matched = Matched { path: first.path.clone(), ..Matched::default() };
        let mut fact = first;
        // A manifest could list one path any number of times.
        let mut repeated: Option<(usize, u64, u64, bool)> = None;
        loop {
            match fact.kind {
                PRESENT => {
                    let bytes = little(fact.value.get(1..9));
                    matched.present = Some(match fact.value.first() {
                        Some(0) => Present::File { bytes },
                        Some(1) => Present::Link,
                        _ => Present::Other,
                    });
                }
                LISTED => {
                    let algorithm = self.manifests[fact.manifest].algorithm;
                    let (digest, spelled) = split_digest(&fact.value, algorithm);
                    if !spelled.is_empty() {
                        matched.spelled.get_or_insert_with(|| spelled.to_vec());
                    }
                    match matched.listed.last_mut() {
                        Some(last) if last.manifest == fact.manifest => {
                            let (_, _, times, conflicts) = repeated.get_or_insert((fact.manifest, fact.line, 1, false));
                            *times += 1;
                            if last.digest != digest {
                                *conflicts = true;
                                last.digest = None;
                            }
                        }
                        _ => {
                            self.note_repeats(&mut matched, repeated.take());
                            matched.listed.push(Listed { manifest: fact.manifest, line: fact.line, digest });
                        }
                    }
                }
                _ => {
                    if let Some(spelled) = fact.value.get(9..).filter(|spelled| !spelled.is_empty()) {
                        matched.spelled.get_or_insert_with(|| spelled.to_vec());
                    }
                    let has_bytes = fact.value.first() == Some(&1);
                    let bytes = has_bytes.then(|| little(fact.value.get(1..9)));
                    matched.fetched.get_or_insert(Fetched { line: fact.line, bytes });
                }
            }
            match self.take_fact()? {
                Some(next) if next.key == fact.key && next.path == matched.path => fact = next,
                next => {
                    self.next = next;
                    break;
                }
            }
        }
        self.note_repeats(&mut matched, repeated);
        Ok(matched)
    }

    fn note_repeats(&self, matched: &mut Matched, repeated: Option<(usize, u64, u64, bool)>) {
        let Some((manifest, line, times, conflicting)) = repeated else { return };
        let path = String::from_utf8_lossy(&matched.path).into_owned();
        let place = Place::line(self.manifests[manifest].name.clone(), line);
        let problem = Problem::Repeated { path, times, conflicting };
        matched.notes.push(if conflicting { Finding::error(place, problem) } else { Finding::warning(place, problem) });
    }
}

fn split_digest(value: &[u8], algorithm: Option<Algorithm>) -> (Option<Digest>, &[u8]) {
    let Some((length, rest)) = value.split_first() else { return (None, &[]) };
    let (digest, spelled) = rest.split_at_checked(usize::from(*length)).unwrap_or((&[], &[]));
    (algorithm.and_then(|algorithm| Digest::new(algorithm, digest)), spelled)
}

fn little(bytes: Option<&[u8]>) -> u64 {
    bytes.unwrap_or_default().iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

/// Paths with one key.
#[derive(Default)]
struct Family {
    /// Listed, and not in the folder by this spelling.
    listed: Vec<Matched>,
    /// In the folder, and not listed by this spelling.
    present: Vec<Matched>,
    /// In the folder, whether listed or not.
    found: Vec<(Vec<u8>, Present)>,
}

impl Family {
    fn add(&mut self, matched: Matched, ready: &mut VecDeque<Matched>) {
        if let Some(present) = matched.present
            && self.found.len() < LARGEST_FAMILY
        {
            self.found.push((matched.path.clone(), present));
        }
        let unmatched = match matched.present {
            None => &mut self.listed,
            Some(_) if !matched.is_listed() => &mut self.present,
            Some(_) => return ready.push_back(matched),
        };
        if unmatched.len() < LARGEST_FAMILY { unmatched.push(matched) } else { ready.push_back(matched) }
    }

    fn finish(mut self, ready: &mut VecDeque<Matched>) {
        for mut listed in self.listed {
            let spelled = listed.spelled.clone();
            let is_spelled = |path: &[u8]| spelled.as_deref() == Some(path);
            let is_equal = |path: &[u8]| path::is_same_normalized(path, &listed.path);
            // The exact spelling of the manifest comes first, then what normalization makes equal.
            let unlisted = self.present.iter().position(|file| is_spelled(&file.path));
            let unlisted = unlisted.or_else(|| self.present.iter().position(|file| is_equal(&file.path)));
            let other = match unlisted {
                Some(index) => {
                    let file = self.present.swap_remove(index);
                    Some((file.path, file.present))
                }
                None => {
                    let found = self.found.iter().find(|(path, _)| is_spelled(path) || is_equal(path));
                    listed.is_alias = found.is_some();
                    found.map(|(path, present)| (path.clone(), Some(*present)))
                }
            };
            if let Some((path, present)) = other {
                let was_spelled = is_spelled(&path);
                let name = spelled.unwrap_or_else(|| listed.path.clone());
                let name = String::from_utf8_lossy(&name).into_owned();
                listed.path = path;
                listed.present = present;
                let problem = if was_spelled { Problem::NotEncoded { listed: name } } else { Problem::OtherNormalization { listed: name } };
                listed.notes.push(Finding::warning(listed.place(), problem));
            }
            ready.push_back(listed);
        }
        ready.extend(self.present);
        let mut collisions: Vec<Finding> = Vec::new();
        for pair in self.found.windows(2) {
            let [(first, _), (second, _)] = pair else { continue };
            let other = String::from_utf8_lossy(first).into_owned();
            let (is_other_normalization, is_other_case) = (path::is_same_normalized(first, second), path::is_same_but_case(first, second));
            let problem = match (is_other_normalization, is_other_case) {
                (true, _) => Problem::OnlyNormalizationDiffers { other },
                (_, true) => Problem::OnlyCaseDiffers { other },
                _ => continue,
            };
            collisions.push(Finding::warning(Place::file(String::from_utf8_lossy(second)), problem));
        }
        if let Some(last) = ready.back_mut() {
            last.notes.append(&mut collisions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(byte: u8) -> Digest {
        Digest::new(Algorithm::Md5, &[byte; 16]).unwrap()
    }

    fn matched(fill: impl FnOnce(&mut Facts)) -> Vec<Matched> {
        let mut facts = Facts::new(Sorter::new(0, &std::env::temp_dir()));
        fill(&mut facts);
        let manifests = ["manifest-md5.txt", "tagmanifest-md5.txt"].map(|name| Manifest::of_name(name).unwrap());
        facts.finish(&manifests).unwrap().collect::<io::Result<_>>().unwrap()
    }

    fn problems(matched: &[Matched]) -> Vec<&Problem> {
        matched.iter().flat_map(|one| &one.notes).map(|note| &note.problem).collect()
    }

    const FILE: Present = Present::File { bytes: 7 };

    #[test]
    fn facts_of_one_path_come_together() {
        let all = matched(|facts| {
            facts.fetched("data/b", None, 9, Some(5)).unwrap();
            facts.listed("data/a", None, 0, 1, Some(&digest(1))).unwrap();
            facts.listed("data/b", None, 0, 2, Some(&digest(2))).unwrap();
            facts.present(b"data/a", FILE).unwrap();
            facts.present(b"data/ab", FILE).unwrap();
        });
        let paths: Vec<_> = all.iter().map(|one| (one.path.as_slice(), one.present, one.listed.len(), one.fetched)).collect();
        assert_eq!(
            paths,
            [
                (&b"data/a"[..], Some(FILE), 1, None),
                (b"data/ab", Some(FILE), 0, None),
                (b"data/b", None, 1, Some(Fetched { line: 9, bytes: Some(5) })),
            ]
        );
        assert_eq!(all[2].listed[0], Listed { manifest: 0, line: 2, digest: Some(digest(2)) });
        assert!(problems(&all).is_empty());
    }

    #[test]
    fn names_that_differ_in_normalization_are_matched_with_a_warning() {
        let all = matched(|facts| {
            facts.listed("data/e\u{301}", None, 0, 1, Some(&digest(1))).unwrap();
            facts.present("data/é".as_bytes(), FILE).unwrap();
        });
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].path.as_slice(), all[0].present, all[0].is_alias), ("data/é".as_bytes(), Some(FILE), false));
        assert!(matches!(problems(&all)[..], [Problem::OtherNormalization { .. }]));
    }

    #[test]
    fn a_file_listed_in_two_normalizations_is_checked_for_both() {
        let all = matched(|facts| {
            facts.listed("data/e\u{301}", None, 0, 1, Some(&digest(1))).unwrap();
            facts.listed("data/é", None, 0, 2, Some(&digest(2))).unwrap();
            facts.present("data/é".as_bytes(), FILE).unwrap();
        });
        assert_eq!(all.iter().map(|one| (one.present, one.is_alias)).collect::<Vec<_>>(), [(Some(FILE), false), (Some(FILE), true)]);
    }

    #[test]
    fn a_percent_sign_that_was_not_encoded_is_matched_with_a_warning() {
        let all = matched(|facts| {
            facts.listed("data/a%b", Some("data/a%25b"), 0, 1, Some(&digest(1))).unwrap();
            facts.present(b"data/a%25b", FILE).unwrap();
        });
        assert_eq!((all.len(), all[0].present), (1, Some(FILE)));
        assert!(matches!(problems(&all)[..], [Problem::NotEncoded { .. }]));
        // The right spelling wins.
        let all = matched(|facts| {
            facts.listed("data/a%b", Some("data/a%25b"), 0, 1, Some(&digest(1))).unwrap();
            facts.present(b"data/a%25b", FILE).unwrap();
            facts.present(b"data/a%b", FILE).unwrap();
        });
        assert_eq!(
            all.iter().map(|one| (one.path.as_slice(), one.listed.len())).collect::<Vec<_>>(),
            [(&b"data/a%b"[..], 1), (b"data/a%25b", 0)]
        );
    }

    #[test]
    fn names_that_some_systems_confuse_are_reported_and_not_confused() {
        let all = matched(|facts| {
            for (index, name) in ["data/A", "data/a", "data/é", "data/e\u{301}"].into_iter().enumerate() {
                facts.listed(name, None, 0, index as u64, Some(&digest(index as u8))).unwrap();
                facts.present(name.as_bytes(), FILE).unwrap();
            }
        });
        assert_eq!(all.len(), 4);
        assert!(all.iter().all(|one| one.present.is_some() && one.listed.len() == 1));
        assert!(matches!(problems(&all)[..], [Problem::OnlyCaseDiffers { .. }, Problem::OnlyNormalizationDiffers { .. }]));
        let all = matched(|facts| {
            facts.listed("data/A", None, 0, 1, Some(&digest(1))).unwrap();
            facts.present(b"data/a", FILE).unwrap();
        });
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn repeated_lines_are_counted_and_conflicting_digests_dropped() {
        let all = matched(|facts| {
            for line in 1..=1000 {
                facts.listed("data/a", None, 0, line, Some(&digest(1))).unwrap();
                facts.listed("data/b", None, 0, line, Some(&digest(u8::from(line == 500)))).unwrap();
            }
        });
        assert_eq!(
            problems(&all),
            [
                &Problem::Repeated { path: "data/a".into(), times: 1000, conflicting: false },
                &Problem::Repeated { path: "data/b".into(), times: 1000, conflicting: true }
            ]
        );
        assert_eq!(all[0].listed[0].digest, Some(digest(1)));
        assert_eq!(all[1].listed, [Listed { manifest: 0, line: 1, digest: None }]);
    }
}
