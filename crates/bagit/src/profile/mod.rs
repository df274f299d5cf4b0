//! BagIt profiles: what a receiver requires of bags beyond the format.
//!
//! A profile is a JSON file. [`Profile::check`] gives findings; it doesn't check that the bag is
//! valid, which is the job of [`crate::validate()`].
//!
//! Source: BagIt Profiles Specification 1.0 to 1.4, bagit-profiles.github.io.

mod check;
mod pattern;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use pattern::Pattern;

/// Profiles have a few kilobytes.
const LONGEST_BYTES: usize = 4 << 20;
/// Version of the specification that a profile without one follows.
const OLDEST: (u64, u64) = (1, 1);

/// A profile that has been read.
#[derive(Debug, Clone)]
pub struct Profile {
    identifier: String,
    specification: (u64, u64),
    document: Document,
    tag_files_allowed: Option<Vec<Pattern>>,
    payload_files_allowed: Option<Vec<Pattern>>,
    unknown: Vec<String>,
}

/// Why a profile can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// More than a profile can reasonably have.
    #[error("the profile has {bytes} bytes; the limit is {LONGEST_BYTES}")]
    TooLong {
        /// Bytes of the profile.
        bytes: usize,
    },
    /// Not JSON, or a value has the wrong type.
    #[error("the profile is malformed: {source}")]
    Malformed {
        /// Where and why.
        source: serde_json::Error,
    },
    /// The specification requires this value.
    #[error("the profile lacks {name:?} in \"BagIt-Profile-Info\"")]
    Lacks {
        /// Name of the value.
        name: &'static str,
    },
    /// No bag can conform.
    #[error("the profile contradicts itself: it requires {required:?}, which {list:?} doesn't allow")]
    Contradiction {
        /// What is required.
        required: String,
        /// Name of the list of what is allowed.
        list: &'static str,
    },
    /// The version of the specification isn't two or three numbers, or is 2 or later.
    #[error("the profile follows version {version:?} of the BagIt Profiles Specification: versions 1.x are supported")]
    UnsupportedVersion {
        /// The version.
        version: String,
    },
}

#[derive(Debug, Clone, Deserialize)]
struct Document {
    #[serde(rename = "BagIt-Profile-Info", default)]
    about: BTreeMap<String, Value>,
    #[serde(rename = "Bag-Info", default)]
    fields: BTreeMap<String, Field>,
    #[serde(rename = "Manifests-Required", default)]
    manifests_required: Vec<String>,
    #[serde(rename = "Manifests-Allowed")]
    manifests_allowed: Option<Vec<String>>,
    #[serde(rename = "Tag-Manifests-Required", default)]
    tag_manifests_required: Vec<String>,
    #[serde(rename = "Tag-Manifests-Allowed")]
    tag_manifests_allowed: Option<Vec<String>>,
    #[serde(rename = "Tag-Files-Required", default)]
    tag_files_required: Vec<String>,
    #[serde(rename = "Tag-Files-Allowed")]
    tag_files_allowed: Option<Vec<String>>,
    #[serde(rename = "Payload-Files-Required", default)]
    payload_files_required: Vec<String>,
    #[serde(rename = "Payload-Files-Allowed")]
    payload_files_allowed: Option<Vec<String>>,
    #[serde(rename = "Allow-Fetch.txt", default = "yes")]
    allow_fetch: bool,
    #[serde(rename = "Fetch.txt-Required", default)]
    fetch_required: bool,
    #[serde(rename = "Data-Empty", default)]
    data_empty: bool,
    #[serde(rename = "Serialization", default)]
    serialization: Serialization,
    #[serde(rename = "Accept-Serialization", default)]
    _accept_serialization: Vec<String>,
    #[serde(rename = "Accept-BagIt-Version")]
    versions: Option<Vec<String>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct Field {
    #[serde(default)]
    required: bool,
    values: Option<Vec<String>>,
    #[serde(default = "yes")]
    repeatable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Serialization {
    Forbidden,
    Required,
    #[default]
    Optional,
}

fn yes() -> bool {
    true
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// If it isn't JSON of the right form, or if no bag could conform to it.
    pub fn parse(json: &[u8]) -> Result<Self, ProfileError> {
        if json.len() > LONGEST_BYTES {
            return Err(ProfileError::TooLong { bytes: json.len() });
        }
        let document: Document = serde_json::from_slice(json).map_err(|source| ProfileError::Malformed { source })?;
        let text = |name: &'static str| document.about.get(name).and_then(Value::as_str);
        for name in ["Source-Organization", "External-Description", "Version", "BagIt-Profile-Identifier"] {
            // Old profiles often lack the version of the profile, and their validator accepts that.
            if text(name).is_none() && name != "Version" && name != "External-Description" {
                return Err(ProfileError::Lacks { name });
            }
        }
        let specification = match text("BagIt-Profile-Version") {
            None => OLDEST,
            Some(version) => parse_version(version).ok_or_else(|| ProfileError::UnsupportedVersion { version: version.to_owned() })?,
        };
        let identifier = text("BagIt-Profile-Identifier").unwrap_or_default().to_owned();
        let patterns =
            |list: &Option<Vec<String>>| list.as_ref().map(|list| list.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>());
        let (tag_files_allowed, payload_files_allowed) = (patterns(&document.tag_files_allowed), patterns(&document.payload_files_allowed));
        let contradiction = |required: &String, list| ProfileError::Contradiction { required: required.clone(), list };
        let exact = |required: &[String], allowed: &Option<Vec<String>>, list| match allowed {
            Some(allowed) => required.iter().find(|one| !allowed.contains(one)).map_or(Ok(()), |one| Err(contradiction(one, list))),
            None => Ok(()),
        };
        exact(&document.manifests_required, &document.manifests_allowed, "Manifests-Allowed")?;
        exact(&document.tag_manifests_required, &document.tag_manifests_allowed, "Tag-Manifests-Allowed")?;
        let matching = |required: &[String], allowed: &Option<Vec<Pattern>>, list| match allowed {
            Some(allowed) => {
                let refused = required.iter().find(|path| {
                    // A folder is allowed if something in it is.
                    let sample = if path.ends_with('/') { format!("{path}x") } else { (*path).clone() };
                    !allowed.iter().any(|pattern| pattern.matches(&sample) || pattern.matches(path))
                });
                refused.map_or(Ok(()), |path| Err(contradiction(path, list)))
            }
            None => Ok(()),
        };
        matching(&document.tag_files_required, &tag_files_allowed, "Tag-Files-Allowed")?;
        matching(&document.payload_files_required, &payload_files_allowed, "Payload-Files-Allowed")?;
        let unknown = document.others.keys().cloned().collect();
        Ok(Self { identifier, specification, tag_files_allowed, payload_files_allowed, unknown, document })
    }

    /// The URI that identifies the profile.
    #[must_use]
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Names of properties that this crate doesn't know and therefore doesn't check.
    #[must_use]
    pub fn unknown_properties(&self) -> &[String] {
        &self.unknown
    }

    /// Version of the specification that the profile follows.
    #[must_use]
    pub fn specification(&self) -> (u64, u64) {
        self.specification
    }
}

fn parse_version(version: &str) -> Option<(u64, u64)> {
    let mut numbers = version.split('.').map(str::parse::<u64>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let has_rest = numbers.all(|number| number.is_ok());
    (major == 1 && has_rest).then_some((major, minor))
}

/// How a bag breaks a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// The bag has no bag-info.txt.
    NoInfo,
    /// bag-info.txt doesn't name this profile.
    NotNamed {
        /// The profile's identifier.
        identifier: String,
    },
    /// A field is required.
    FieldMissing {
        /// Label of the field.
        label: String,
    },
    /// A field occurs more than once.
    FieldRepeated {
        /// Label of the field.
        label: String,
        /// How often it occurs.
        times: usize,
    },
    /// A field has a value that is not allowed.
    ValueNotAllowed {
        /// Label of the field.
        label: String,
        /// Its value.
        value: String,
    },
    /// A label is spelled in another case.
    OtherCase {
        /// Label in the profile.
        label: String,
        /// Label in the bag.
        found: String,
    },
    /// A manifest is required.
    ManifestMissing {
        /// Name of the manifest.
        name: String,
    },
    /// A manifest is not allowed.
    ManifestNotAllowed,
    /// A tag file or payload file is required.
    FileMissing {
        /// Its path, or a folder's.
        path: String,
    },
    /// A file is not allowed.
    FileNotAllowed {
        /// Name of the list.
        list: &'static str,
    },
    /// fetch.txt is not allowed.
    FetchNotAllowed,
    /// fetch.txt is required.
    FetchMissing,
    /// The payload must be empty, or one empty file.
    PayloadNotEmpty,
    /// The bag's version is not accepted.
    VersionNotAccepted {
        /// The bag's version.
        version: &'static str,
    },
    /// Bags must come in an archive file; this one is a folder.
    SerializationNotChecked,
    /// A property that this crate doesn't know.
    UnknownProperty {
        /// Name of the property.
        name: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoInfo => f.write_str("the bag has no bag-info.txt"),
            Self::NotNamed { identifier } => write!(f, "bag-info.txt has no BagIt-Profile-Identifier with {identifier:?}"),
            Self::FieldMissing { label } => write!(f, "the field {label:?} is required"),
            Self::FieldRepeated { label, times } => write!(f, "the field {label:?} occurs {times} times, and may occur once"),
            Self::ValueNotAllowed { label, value } => write!(f, "the field {label:?} must not be {value:?}"),
            Self::OtherCase { label, found } => {
                write!(f, "the field {label:?} is spelled {found:?}; software that distinguishes case misses it")
            }
            Self::ManifestMissing { name } => write!(f, "{name} is required"),
            Self::ManifestNotAllowed => f.write_str("a manifest of this algorithm is not allowed"),
            Self::FileMissing { path } => write!(f, "{path:?} is required"),
            Self::FileNotAllowed { list } => write!(f, "the file is not in {list}"),
            Self::FetchNotAllowed => f.write_str("fetch.txt is not allowed"),
            Self::FetchMissing => f.write_str("fetch.txt is required"),
            Self::PayloadNotEmpty => f.write_str("the payload must be empty, or a single empty file"),
            Self::VersionNotAccepted { version } => write!(f, "BagIt version {version} is not accepted"),
            Self::SerializationNotChecked => {
                f.write_str("bags must come in an archive file; this bag is a folder, so that was not checked")
            }
            Self::UnknownProperty { name } => write!(f, "the property {name:?} is unknown and was not checked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = r#""BagIt-Profile-Info": {"Source-Organization": "a", "BagIt-Profile-Identifier": "https://a/p.json""#;

    #[test]
    fn a_profile_that_no_bag_could_follow_is_refused() {
        for (rest, list) in [
            (r#""Manifests-Required": ["md5"], "Manifests-Allowed": ["sha512"]"#, "Manifests-Allowed"),
            (r#""Tag-Manifests-Required": ["md5"], "Tag-Manifests-Allowed": []"#, "Tag-Manifests-Allowed"),
            (r#""Tag-Files-Required": ["a/b"], "Tag-Files-Allowed": ["b*"]"#, "Tag-Files-Allowed"),
            (r#""Payload-Files-Required": ["data/a/"], "Payload-Files-Allowed": ["data/b/*"]"#, "Payload-Files-Allowed"),
        ] {
            let json = format!("{{{INFO}}}, {rest}}}");
            assert!(
                matches!(Profile::parse(json.as_bytes()), Err(ProfileError::Contradiction { list: found, .. }) if found == list),
                "{rest}"
            );
        }
        let json = format!(r#"{{{INFO}}}, "Payload-Files-Required": ["data/a/"], "Payload-Files-Allowed": ["data/a/*"]}}"#);
        assert!(Profile::parse(json.as_bytes()).is_ok());
    }

    #[test]
    fn malformed_profiles_are_refused() {
        assert!(matches!(Profile::parse(b"[]"), Err(ProfileError::Malformed { .. })));
        assert!(matches!(Profile::parse(b"{}"), Err(ProfileError::Lacks { name: "Source-Organization" })));
        for version in ["2.0", "1", "x.y", "1.3.x", ""] {
            let json = format!(r#"{{{INFO}, "BagIt-Profile-Version": "{version}"}}}}"#);
            assert!(matches!(Profile::parse(json.as_bytes()), Err(ProfileError::UnsupportedVersion { .. })), "{version}");
        }
        let wrong = format!(r#"{{{INFO}}}, "Serialization": "maybe"}}"#);
        assert!(matches!(Profile::parse(wrong.as_bytes()), Err(ProfileError::Malformed { .. })));
        let deep = "[".repeat(100_000);
        assert!(matches!(Profile::parse(deep.as_bytes()), Err(ProfileError::Malformed { .. })));
    }

    #[test]
    fn versions_and_unknown_properties_are_kept() {
        let json = format!(r#"{{{INFO}, "BagIt-Profile-Version": "1.4.0"}}, "Extra": 1}}"#);
        let profile = Profile::parse(json.as_bytes()).unwrap();
        assert_eq!((profile.specification(), profile.identifier()), ((1, 4), "https://a/p.json"));
        assert_eq!(profile.unknown_properties(), ["Extra"]);
    }
}
