//! Findings: what is wrong with a bag, or unusual, and where.
//!
//! A [`Finding`] has a severity, a place and a [`Problem`], whose sentence tells the operator what
//! to do. A [`Report`] counts all findings and keeps a limited number, so that a bag with millions
//! of missing files doesn't fill the memory.

use std::fmt;

use fulgurite_digest::{Algorithm, Digest};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The bag is incomplete or invalid, or could not be checked.
    Error,
    /// The bag may be valid, but other software could read it differently.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// Where a finding is: a file of the bag, and a line of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Path relative to the bag's folder. Bytes that aren't UTF-8 are shown as U+FFFD.
    pub file: String,
    /// Line of the file, from 1.
    pub line: Option<u64>,
}

impl Place {
    /// A file as a whole.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None }
    }

    /// A line of a file.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { file: file.into(), line: Some(line) }
    }
}

impl fmt::Display for Place {
    /// Escapes control characters, so that a name can't forge lines of a report.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.file.chars() {
            if character.is_control() { write!(f, "{}", character.escape_default())? } else { write!(f, "{character}")? }
        }
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// Something wrong or unusual at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// What it is.
    pub problem: Problem,
}

impl Finding {
    pub(crate) fn error(place: Place, problem: Problem) -> Self {
        Self { severity: Severity::Error, place, problem }
    }

    pub(crate) fn warning(place: Place, problem: Problem) -> Self {
        Self { severity: Severity::Warning, place, problem }
    }
}

fn not_listed_by(manifest: Option<&str>) -> String {
    manifest.map_or_else(|| "no payload manifest lists".to_owned(), |manifest| format!("{manifest} doesn't list"))
}

impl Finding {
    /// What it is, and where, without its severity.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}: {}", self.place, self.problem)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity, self.place, self.problem)
    }
}

/// What a finding says. Sections are those of RFC 8493.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Section 2.1.1.
    #[error("the folder has no bagit.txt, so it is not a bag")]
    NoDeclaration,
    /// Section 2.1.1.
    #[error("begins with a byte-order mark, which bagit.txt must not have")]
    MarkInDeclaration,
    /// Section 2.1.1.
    #[error("the line must be {expected:?}, exactly")]
    MalformedDeclaration {
        /// The line's form.
        expected: &'static str,
    },
    /// Lines after the two that bagit.txt has.
    #[error("bagit.txt must have exactly two lines")]
    LongDeclaration,
    /// A version that this crate doesn't know.
    #[error("BagIt version {version:?} is not supported: supported are 0.93 to 0.97 and 1.0")]
    UnsupportedVersion {
        /// The version in bagit.txt.
        version: String,
    },
    /// An encoding that this crate can't decode.
    #[error("tag files in the encoding {name:?} can't be read: supported are UTF-8, UTF-16, US-ASCII and ISO-8859-1")]
    UnsupportedEncoding {
        /// The encoding in bagit.txt.
        name: String,
    },
    /// Section 2.1.2.
    #[error("the bag has no payload folder \"data\"")]
    NoPayloadFolder,
    /// Section 2.1.3.
    #[error("the bag has no payload manifest")]
    NoPayloadManifest,
    /// The manifest's digests were not checked.
    #[error("digests of the algorithm {name:?} can't be computed, so only the paths in this manifest were checked")]
    UnsupportedAlgorithm {
        /// The algorithm in the manifest's name.
        name: String,
    },
    /// Symbolic links are never followed: they could lead out of the bag.
    #[error("is a {kind}, not a regular file, and was not read")]
    NotAFile {
        /// What it is.
        kind: &'static str,
    },
    /// A file or folder that the system refused to read.
    #[error("could not be read, so it was not checked: {reason}")]
    Unreadable {
        /// What the system said.
        reason: String,
    },
    /// A byte sequence that the declared encoding doesn't have.
    #[error("the line is not in the encoding that bagit.txt declares")]
    Undecodable,
    /// A line beyond the limit.
    #[error("the line is longer than {limit_bytes} bytes")]
    LongLine {
        /// The limit.
        limit_bytes: usize,
    },
    /// A tag file beyond the limit.
    #[error("the file is larger than {limit_bytes} bytes, and only its beginning was read")]
    LongFile {
        /// The limit.
        limit_bytes: u64,
    },
    /// UTF-8 needs no byte-order mark.
    #[error("begins with a byte-order mark, which other software takes for part of the first line")]
    Mark,
    /// Section 2.1.3 allows it, but few programs expect it.
    #[error("has lines that end with a carriage return alone")]
    CarriageReturns,
    /// An empty line between others.
    #[error("the line is empty and was ignored")]
    EmptyLine,
    /// Section 2.1.3.
    #[error("the line must consist of a digest, white space and a path")]
    MalformedManifestLine,
    /// Section 2.1.3.
    #[error("{digits:?} is not a digest of {algorithm}: {} hexadecimal digits are required", 2 * algorithm.bytes())]
    MalformedDigest {
        /// The algorithm of the manifest.
        algorithm: Algorithm,
        /// The beginning of what stands in its place.
        digits: String,
    },
    /// md5sum and its relatives mark binary mode with an asterisk.
    #[error("the path begins with an asterisk, as written by md5sum and the like; it was ignored")]
    Asterisk,
    /// A path such as `./data/file`.
    #[error("the path begins with \"./\", which was ignored")]
    DotSlash,
    /// A path that could lead out of the bag, or can't exist.
    #[error("the path {path:?} was refused: {reason}")]
    RefusedPath {
        /// The path as it was listed.
        path: String,
        /// Why it was refused.
        reason: PathRefusal,
    },
    /// Section 2.1.3: a percent sign must be written as `%25`.
    #[error("the path is listed as {listed:?}, without the percent-encoding that the format requires")]
    NotEncoded {
        /// The path as it was listed.
        listed: String,
    },
    /// The names are equal after Unicode normalization only.
    #[error("the path is listed as {listed:?}, in another Unicode normalization; the names were taken for equal")]
    OtherNormalization {
        /// The path as it was listed.
        listed: String,
    },
    /// Section 6.2.1 warns of systems that ignore case.
    #[error("the name differs from {other:?} only in case; on some systems one file would replace the other")]
    OnlyCaseDiffers {
        /// The other file.
        other: String,
    },
    /// Section 6.2.1 warns of systems that normalize names.
    #[error("the name differs from {other:?} only in Unicode normalization; on some systems one file would replace the other")]
    OnlyNormalizationDiffers {
        /// The other file.
        other: String,
    },
    /// A path that one manifest lists again.
    #[error("{path:?} is listed {times} times in this manifest, with {}", if *conflicting { "different digests" } else { "the same digest" })]
    Repeated {
        /// The path.
        path: String,
        /// How often.
        times: u64,
        /// True if the digests differ.
        conflicting: bool,
    },
    /// A file that a manifest lists and the bag doesn't contain.
    #[error("the file is missing: {manifest} lists it in line {line}")]
    Missing {
        /// Name of the manifest.
        manifest: String,
        /// Line of the manifest.
        line: u64,
    },
    /// A file that fetch.txt lists and the bag doesn't contain yet.
    #[error("the file is still to be fetched (line {line} of fetch.txt), so the bag is incomplete")]
    ToFetch {
        /// Line of fetch.txt.
        line: u64,
    },
    /// Section 2.2.3.
    #[error("fetch.txt lists a file that {}", not_listed_by(manifest.as_deref()))]
    FetchNotListed {
        /// The manifest, or none if no manifest lists it.
        manifest: Option<String>,
    },
    /// Section 2.2.3.
    #[error("the line must consist of a URL, a length in bytes or \"-\", and a path")]
    MalformedFetchLine,
    /// The length in fetch.txt isn't the file's.
    #[error("the file has {found} bytes, but fetch.txt states {stated}")]
    OtherLength {
        /// Bytes of the file.
        found: u64,
        /// Bytes stated.
        stated: u64,
    },
    /// A payload file that no manifest lists.
    #[error("the file is not listed in any payload manifest")]
    Unlisted,
    /// Section 3: every payload file must be in every payload manifest; before 1.0, in any.
    #[error("the file is not listed in {manifest}")]
    NotInEvery {
        /// The manifest that lacks it.
        manifest: String,
    },
    /// Section 2.2.1: should be listed.
    #[error("the file is not listed in any tag manifest, so its content was not checked")]
    UnlistedTagFile,
    /// Section 2.2.1: must be listed.
    #[error("{manifest} doesn't list this payload manifest")]
    ManifestNotListed {
        /// The tag manifest that lacks it.
        manifest: String,
    },
    /// Section 2.2.1.
    #[error("a tag manifest must not list {path:?}: it is a {kind}")]
    NotForTagManifests {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A file whose content isn't what the manifest says.
    #[error("the content doesn't match {manifest}: {} was computed, {listed:?} is listed", found.hex())]
    OtherDigest {
        /// Name of the manifest.
        manifest: String,
        /// The digest in the manifest.
        listed: Box<Digest>,
        /// The digest of the content.
        found: Box<Digest>,
    },
    /// A folder that manifests can't describe.
    #[error("the folder is empty; manifests don't list folders, so a copy may lose it")]
    EmptyFolder,
    /// Section 2.2.2.
    #[error("the line must consist of a label, a colon, a space or tab, and a value")]
    MalformedInfoLine,
    /// Section 2.2.2 before 1.0 allowed white space there.
    #[error("the label {label:?} begins or ends with white space")]
    SpaceInLabel {
        /// The label.
        label: String,
    },
    /// Section 2.2.2.
    #[error("a colon must be followed by a space or tab")]
    NoSpaceAfterColon,
    /// Section 2.2.2.
    #[error("{value:?} is not a Payload-Oxum: it must be a number of bytes, a dot and a number of files")]
    MalformedOxum {
        /// The value.
        value: String,
    },
    /// Section 2.2.2.
    #[error("Payload-Oxum must not be repeated")]
    RepeatedOxum,
    /// The payload isn't as large as stated.
    #[error("Payload-Oxum states {stated_bytes} bytes in {stated_files} files, but the payload has {bytes} bytes in {files} files")]
    OtherOxum {
        /// Bytes stated.
        stated_bytes: u64,
        /// Files stated.
        stated_files: u64,
        /// Bytes of the payload.
        bytes: u64,
        /// Files of the payload.
        files: u64,
    },
    /// A quick check without Payload-Oxum.
    #[error("bag-info.txt has no Payload-Oxum, so only the presence of files was checked")]
    NoOxum,
    /// The bag doesn't conform to a profile.
    #[error("profile: {0}")]
    Profile(crate::profile::Violation),
}

/// Why a path in a manifest or in fetch.txt is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// It has no bytes.
    #[error("it is empty")]
    Empty,
    /// It begins with a slash, a drive or a URL scheme.
    #[error("it is absolute")]
    Absolute,
    /// It has a part `.` or `..`, or two slashes in a row.
    #[error("it has a part that is empty, \".\" or \"..\"")]
    Dots,
    /// A character that no file name has.
    #[error("it contains U+0000")]
    Nul,
    /// It is not in `data/`.
    #[error("it is outside of \"data/\"")]
    OutsideOfPayload,
    /// No file has a path of this length.
    #[error("it is longer than 4096 bytes")]
    TooLong,
    /// File systems have no such names.
    #[error("a part of it is longer than 255 bytes")]
    LongName,
    /// It names `data` or a folder.
    #[error("it names a folder")]
    Folder,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Complete, and all digests match.
    Valid,
    /// Complete as far as a check without reading content can tell.
    Complete,
    /// Nothing is wrong except that files are still to be fetched.
    ToFetch,
    /// Something is wrong, or could not be checked.
    Invalid,
}

/// All findings of a check, counted; and the first ones, up to a limit.
#[derive(Debug, Clone)]
pub struct Report {
    findings: Vec<Finding>,
    limit: usize,
    /// Warnings among the kept findings.
    kept_warnings: usize,
    errors: u64,
    warnings: u64,
    pub(crate) to_fetch: u64,
    pub(crate) payload_files: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) digests_checked: u64,
    pub(crate) has_read_content: bool,
}

impl Report {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            findings: Vec::new(),
            limit,
            kept_warnings: 0,
            errors: 0,
            warnings: 0,
            to_fetch: 0,
            payload_files: 0,
            payload_bytes: 0,
            digests_checked: 0,
            has_read_content: false,
        }
    }

    pub(crate) fn add(&mut self, finding: Finding) {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
        }
        if matches!(finding.problem, Problem::ToFetch { .. }) {
            self.to_fetch += 1;
        }
        if self.findings.len() < self.limit {
            self.kept_warnings += usize::from(finding.severity == Severity::Warning);
            self.findings.push(finding);
        } else if finding.severity == Severity::Error
            && self.kept_warnings > 0
            && let Some(weakest) = self.findings.iter_mut().rev().find(|kept| kept.severity == Severity::Warning)
        {
            // A flood of warnings must not hide the errors.
            *weakest = finding;
            self.kept_warnings -= 1;
        }
    }

    /// Puts the kept findings into an order that doesn't depend on threads.
    pub(crate) fn sort(&mut self) {
        self.findings.sort_by(|a, b| (a.severity, &a.place, a.problem.to_string()).cmp(&(b.severity, &b.place, b.problem.to_string())));
    }

    /// The findings that were kept: errors first, then by place.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many errors there are, kept or not.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// How many warnings there are, kept or not.
    #[must_use]
    pub fn warnings(&self) -> u64 {
        self.warnings
    }

    /// How many files fetch.txt lists that are not in the bag yet.
    #[must_use]
    pub fn to_fetch(&self) -> u64 {
        self.to_fetch
    }

    /// Files in the payload folder.
    #[must_use]
    pub fn payload_files(&self) -> u64 {
        self.payload_files
    }

    /// Bytes of the files in the payload folder.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// Digests that were computed from content and compared, of payload and tag files.
    #[must_use]
    pub fn digests_checked(&self) -> u64 {
        self.digests_checked
    }

    /// What became of the check.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.errors {
            0 if self.has_read_content => Verdict::Valid,
            0 => Verdict::Complete,
            errors if errors == self.to_fetch => Verdict::ToFetch,
            _ => Verdict::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_file_is_listed_by_no_manifest_or_not_by_one() {
        let text = |manifest: Option<&str>| Problem::FetchNotListed { manifest: manifest.map(str::to_owned) }.to_string();
        assert_eq!(text(None), "fetch.txt lists a file that no payload manifest lists");
        assert_eq!(text(Some("manifest-md5.txt")), "fetch.txt lists a file that manifest-md5.txt doesn't list");
    }

    #[test]
    fn the_severity_of_a_finding_can_be_left_out() {
        let finding = Finding::error(Place::file("fetch.txt"), Problem::NoDeclaration);
        assert_eq!(finding.to_string(), format!("error: {}", finding.text()));
        assert!(finding.text().starts_with("fetch.txt: "), "{}", finding.text());
    }
}
