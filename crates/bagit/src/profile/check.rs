//! Checks a bag against a profile.

use std::collections::BTreeSet;

use super::pattern::Pattern;
use super::{Profile, Serialization, Violation};
use crate::bag::{Bag, FETCH};
use crate::finding::{Finding, Place, Problem, Report};
use crate::folder::{Entry, Walk};
use crate::info::BagInfo;
use crate::manifest::Scope;
use crate::matching::Present;
use crate::path::PAYLOAD;

const IDENTIFIER: &str = "BagIt-Profile-Identifier";

impl Profile {
    /// Checks that a bag conforms to this profile. The report's verdict is about the profile alone:
    /// a bag that conforms may still be invalid.
    ///
    /// `kept_findings` limits the findings that are kept, as in [`crate::Options`].
    #[must_use]
    pub fn check(&self, bag: &Bag, kept_findings: usize) -> Report {
        let mut report = Report::new(kept_findings);
        let info_name = bag.version().info_name();
        for name in &self.unknown {
            report.add(Finding::warning(Place::file(info_name), Problem::Profile(Violation::UnknownProperty { name: name.clone() })));
        }
        match bag.info() {
            Some(info) => self.check_info(info, info_name, &mut report),
            None => violation(&mut report, info_name, Violation::NoInfo),
        }
        self.check_manifests(bag, &mut report);
        if let Some(versions) = &self.document.versions
            && !versions.iter().any(|version| version == bag.version().name())
        {
            violation(&mut report, "bagit.txt", Violation::VersionNotAccepted { version: bag.version().name() });
        }
        match (bag.has_fetch(), self.document.allow_fetch, self.document.fetch_required) {
            (true, false, _) => violation(&mut report, FETCH, Violation::FetchNotAllowed),
            (false, _, true) => violation(&mut report, FETCH, Violation::FetchMissing),
            _ => {}
        }
        if self.document.serialization == Serialization::Required {
            report.add(Finding::warning(Place::file(""), Problem::Profile(Violation::SerializationNotChecked)));
        }
        self.check_files(bag, &mut report);
        report.sort();
        report
    }

    fn check_info(&self, info: &BagInfo, name: &str, report: &mut Report) {
        if !info.values(IDENTIFIER).any(|value| value == self.identifier) {
            violation(report, name, Violation::NotNamed { identifier: self.identifier.clone() });
        }
        for (label, field) in &self.document.fields {
            let found: Vec<(&str, &str)> = info.fields().filter(|(other, _)| other.eq_ignore_ascii_case(label)).collect();
            if let Some((other, _)) = found.iter().find(|(other, _)| other != label) {
                let problem = Violation::OtherCase { label: label.clone(), found: (*other).to_owned() };
                report.add(Finding::warning(Place::file(name), Problem::Profile(problem)));
            }
            if found.is_empty() && field.required {
                violation(report, name, Violation::FieldMissing { label: label.clone() });
            }
            if found.len() > 1 && !field.repeatable {
                violation(report, name, Violation::FieldRepeated { label: label.clone(), times: found.len() });
            }
            // An empty list allows any value.
            let Some(allowed) = field.values.as_ref().filter(|allowed| !allowed.is_empty()) else { continue };
            for (_, value) in found {
                if !allowed.iter().any(|one| one == value) {
                    violation(report, name, Violation::ValueNotAllowed { label: label.clone(), value: value.to_owned() });
                }
            }
        }
    }

    fn check_manifests(&self, bag: &Bag, report: &mut Report) {
        let document = &self.document;
        for (scope, prefix, required, allowed) in [
            (Scope::Payload, "manifest", &document.manifests_required, &document.manifests_allowed),
            (Scope::Tags, "tagmanifest", &document.tag_manifests_required, &document.tag_manifests_allowed),
        ] {
            let found: Vec<_> = bag.manifests().iter().filter(|manifest| manifest.scope == scope).collect();
            for algorithm in required {
                if !found.iter().any(|manifest| manifest.algorithm_name == *algorithm) {
                    let name = format!("{prefix}-{algorithm}.txt");
                    violation(report, &name, Violation::ManifestMissing { name: name.clone() });
                }
            }
            for manifest in found {
                if allowed.as_ref().is_some_and(|allowed| !allowed.contains(&manifest.algorithm_name)) {
                    violation(report, &manifest.name, Violation::ManifestNotAllowed);
                }
            }
        }
    }

    /// Walks through the folder once for all rules about files.
    fn check_files(&self, bag: &Bag, report: &mut Report) {
        let document = &self.document;
        let mut missing: BTreeSet<&str> =
            document.tag_files_required.iter().chain(&document.payload_files_required).map(String::as_str).collect();
        let (mut files, mut bytes) = (0_u64, 0_u64);
        for entry in Walk::new(bag.root()) {
            let (path, present) = match entry {
                Entry::Path { path, present } => (path, present),
                Entry::EmptyFolder { .. } => continue,
                Entry::Unreadable { path, error } => {
                    let problem = Problem::Unreadable { reason: error.to_string() };
                    report.add(Finding::error(Place::file(String::from_utf8_lossy(&path)), problem));
                    continue;
                }
            };
            let path = String::from_utf8_lossy(&path);
            missing.remove(&*path);
            missing.retain(|required| !(required.ends_with('/') && path.starts_with(required)));
            let is_payload = path.starts_with(PAYLOAD);
            if is_payload {
                files += 1;
                bytes = bytes.saturating_add(present.bytes());
                refuse(&path, &self.payload_files_allowed, "Payload-Files-Allowed", report);
            } else if !is_reserved(&path, bag) && matches!(present, Present::File { .. }) {
                refuse(&path, &self.tag_files_allowed, "Tag-Files-Allowed", report);
            }
        }
        for path in missing {
            violation(report, path, Violation::FileMissing { path: path.to_owned() });
        }
        if document.data_empty && (files > 1 || bytes > 0) {
            violation(report, "data", Violation::PayloadNotEmpty);
        }
    }
}

fn violation(report: &mut Report, file: &str, violation: Violation) {
    report.add(Finding::error(Place::file(file), Problem::Profile(violation)));
}

fn refuse(path: &str, allowed: &Option<Vec<Pattern>>, list: &'static str, report: &mut Report) {
    if allowed.as_ref().is_some_and(|allowed| !allowed.iter().any(|pattern| pattern.matches(path))) {
        violation(report, path, Violation::FileNotAllowed { list });
    }
}

/// Files that the format itself defines are always allowed.
fn is_reserved(path: &str, bag: &Bag) -> bool {
    ["bagit.txt", "bag-info.txt", "package-info.txt", FETCH].contains(&path) || bag.manifests().iter().any(|manifest| manifest.name == path)
}
