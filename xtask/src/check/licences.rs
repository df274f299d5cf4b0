//! Licences: users of the archive must be able to use, change and redistribute all of it, for as
//! long as the glass lasts.

use super::spdx::{Expression, Licence};
use super::{Report, Repository};
use crate::workspace::Package;

/// Licences that require no more than attribution, each with the reason for its entry.
const ALLOWED: &[(&str, &str)] = &[
    ("0BSD", "asks for nothing"),
    ("Apache-2.0", "the project's own"),
    ("Apache-2.0 WITH LLVM-exception", "asks for less than Apache-2.0"),
    ("BSD-2-Clause", "asks for the notice"),
    ("BSD-3-Clause", "asks for the notice, and forbids advertising with names"),
    ("BlueOak-1.0.0", "asks for its text or a link; gives the patents too; OSI approved"),
    ("CC0-1.0", "gives up all rights"),
    ("ISC", "asks for the notice"),
    ("MIT", "asks for the notice"),
    ("MIT-0", "asks for nothing"),
    ("Unicode-3.0", "asks for the notice; covers the Unicode tables"),
    ("Unlicense", "gives up all rights"),
    ("Zlib", "asks that changed versions say so"),
];

/// Licences allowed for a single package: package, licence, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

pub(super) fn check(repository: &Repository) -> Report {
    judge(&repository.workspace.packages, EXCEPTIONS)
}

fn judge(packages: &[Package], exceptions: &[(&str, &str, &str)]) -> Report {
    let mut report = Report::default();
    for Package { name, version, licence } in packages {
        let place = format!("{name} {version}");
        let Some(licence) = licence else {
            report.fault(place, "declares no licence");
            continue;
        };
        let expression = match Expression::parse(licence) {
            Ok(expression) => expression,
            Err(error) => {
                report.fault(place, format!("can't parse its licence `{licence}`: {error}"));
                continue;
            }
        };
        let excepted = |wanted: &str| exceptions.iter().any(|(package, licence, _)| package == name && *licence == wanted);
        let allowed = |term: &Licence<'_>| {
            let term = term.to_string();
            ALLOWED.iter().any(|(id, _)| *id == term) || excepted(&term)
        };
        let refused = expression.refused(&allowed);
        if !refused.is_empty() {
            let refused: Vec<String> = refused.iter().map(Licence::to_string).collect();
            report.fault(
                place,
                format!("its licence `{licence}` requires {}, which isn't on the list of permissive licences", refused.join(", ")),
            );
        }
    }
    for (package, licence, _) in exceptions {
        if !packages.iter().any(|other| other.name == *package) {
            report.note(*package, format!("has an exception for `{licence}` but is no longer used"));
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(licence: Option<&str>) -> Vec<String> {
        let package = Package { name: "p".into(), version: "1.0.0".into(), licence: licence.map(String::from) };
        judge(&[package], &[("q", "MPL-2.0", "a test")]).lines()
    }

    #[test]
    fn permissive_licences_pass_in_every_notation() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "ISC AND (Apache-2.0 OR ISC) AND Apache-2.0 AND MIT AND BSD-3-Clause AND (Apache-2.0 OR ISC OR MIT-0)",
        ] {
            assert_eq!(faults(Some(licence)), [""; 0], "{licence}");
        }
    }

    #[test]
    fn licences_that_are_not_permissive_are_named() {
        let faults = faults(Some("ISC AND (Apache-2.0 OR ISC) AND OpenSSL AND MPL-2.0"));
        assert!(faults[0].contains("requires OpenSSL, MPL-2.0,"), "{faults:?}");
    }

    #[test]
    fn copyleft_missing_and_malformed_licences_are_faults() {
        for licence in [Some("GPL-3.0-only"), Some("MIT AND GPL-2.0-only"), Some("MPL-2.0"), Some("MIT OR"), Some(""), None] {
            assert_eq!(faults(licence).len(), 1, "{licence:?}");
        }
    }

    #[test]
    fn an_exception_applies_to_its_package_only_and_is_noted_when_stale() {
        let package = |name: &str| Package { name: name.into(), version: "1.0.0".into(), licence: Some("MPL-2.0".into()) };
        let exceptions = [("q", "MPL-2.0", "a test")];
        assert_eq!(judge(&[package("q")], &exceptions).lines(), [""; 0]);
        let report = judge(&[package("p")], &exceptions);
        assert_eq!((report.faults.len(), report.notes.len()), (1, 1));
    }
}
