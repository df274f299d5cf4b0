//! Layouts of storage roots: where an object with an identifier is.
//!
//! The five layouts of the community's registry that don't depend on anything but the identifier.

use std::fmt::Write;

use fulgurite_digest::{Algorithm, Digester};
use serde_json::{Value, json};

use crate::json;
use crate::paths::check_path;

/// Longest name of a folder, in bytes, on common file systems.
const NAME_BYTES_MAX: usize = 255;
/// Characters of an encoded identifier that extension 0003 keeps.
const ENCODED_CHARACTERS_MAX: usize = 100;
/// Largest tuples, and most tuples.
const TUPLES_MAX: u64 = 32;

/// A layout of a storage root, with its parameters.
///
/// Source: OCFL extensions 0002, 0003, 0004, 0006 and 0007.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// 0002: the identifier is the folder's name.
    FlatDirect,
    /// 0003: tuples of the identifier's digest, then the identifier with percent-encoding.
    HashAndId(Tuples),
    /// 0004: tuples of the identifier's digest, then the digest.
    Hashed {
        /// The tuples.
        tuples: Tuples,
        /// The object's folder is named by the digits that the tuples leave over.
        short_object_root: bool,
    },
    /// 0006: the identifier after the last delimiter is the folder's name.
    FlatOmitPrefix {
        /// Case doesn't matter.
        delimiter: String,
    },
    /// 0007: tuples of the identifier after the last delimiter, then all that is after it.
    TuplesOmitPrefix {
        /// Case doesn't matter.
        delimiter: String,
        /// Characters of a tuple.
        tuple_size: usize,
        /// How many tuples.
        number_of_tuples: usize,
        /// Short identifiers are filled with zeros on the left, or else on the right.
        pads_left: bool,
        /// Tuples are taken from the identifier read backwards.
        reverses: bool,
    },
}

/// Tuples of the hexadecimal digits of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuples {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Digits of a tuple.
    pub size: usize,
    /// How many.
    pub number: usize,
}

impl Default for Tuples {
    /// Three tuples of three digits of SHA-256.
    fn default() -> Self {
        Self { algorithm: Algorithm::Sha256, size: 3, number: 3 }
    }
}

impl Default for Layout {
    /// 0003: any identifier is possible, folders stay small, and people can read the names.
    fn default() -> Self {
        Self::HashAndId(Tuples::default())
    }
}

/// Why a layout can't be used, or can't place an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A layout that isn't implemented.
    #[error("the layout {name:?} is not known here")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// A configuration that breaks the extension's rules.
    #[error("the configuration of the layout {name} is wrong: {reason}")]
    Configuration {
        /// The layout.
        name: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// An identifier that the layout can't place.
    #[error("the layout {name} cannot place {id:?}: {reason}")]
    Identifier {
        /// The layout.
        name: &'static str,
        /// The identifier.
        id: String,
        /// Why.
        reason: &'static str,
    },
}

impl Layout {
    /// The name of its extension.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::FlatDirect => "0002-flat-direct-storage-layout",
            Self::HashAndId(_) => "0003-hash-and-id-n-tuple-storage-layout",
            Self::Hashed { .. } => "0004-hashed-n-tuple-storage-layout",
            Self::FlatOmitPrefix { .. } => "0006-flat-omit-prefix-storage-layout",
            Self::TuplesOmitPrefix { .. } => "0007-n-tuple-omit-prefix-storage-layout",
        }
    }

    /// A sentence for `ocfl_layout.json`.
    #[must_use]
    pub fn description(&self) -> &'static str {
        match self {
            Self::FlatDirect => "Objects are folders of the storage root, named by their identifiers.",
            Self::HashAndId(_) => "Folders are named by parts of the digest of the identifier, then by the percent-encoded identifier.",
            Self::Hashed { .. } => "Folders are named by parts of the digest of the identifier, then by the digest.",
            Self::FlatOmitPrefix { .. } => "Objects are folders of the storage root, named by their identifiers without prefix.",
            Self::TuplesOmitPrefix { .. } => {
                "Folders are named by parts of the identifier without prefix, then by the identifier without prefix."
            }
        }
    }

    /// The configuration of its extension.
    #[must_use]
    pub fn configuration(&self) -> Value {
        let mut value = match self {
            Self::FlatDirect => json!({}),
            Self::HashAndId(tuples) => tuples.configuration(),
            Self::Hashed { tuples, short_object_root } => {
                let mut value = tuples.configuration();
                value["shortObjectRoot"] = json!(short_object_root);
                value
            }
            Self::FlatOmitPrefix { delimiter } => json!({ "delimiter": delimiter }),
            Self::TuplesOmitPrefix { delimiter, tuple_size, number_of_tuples, pads_left, reverses } => json!({
                "delimiter": delimiter,
                "tupleSize": tuple_size,
                "numberOfTuples": number_of_tuples,
                "zeroPadding": if *pads_left { "left" } else { "right" },
                "reverseObjectRoot": reverses,
            }),
        };
        value["extensionName"] = json!(self.name());
        value
    }

    /// Reads a layout from its name and the text of its configuration file, if there is one.
    ///
    /// # Errors
    /// If the layout isn't implemented here, or the configuration breaks its rules.
    pub fn from_configuration(name: &str, text: Option<&str>) -> Result<Self, LayoutError> {
        let known: [&'static str; 5] = [
            "0002-flat-direct-storage-layout",
            "0003-hash-and-id-n-tuple-storage-layout",
            "0004-hashed-n-tuple-storage-layout",
            "0006-flat-omit-prefix-storage-layout",
            "0007-n-tuple-omit-prefix-storage-layout",
        ];
        let Some(name) = known.into_iter().find(|known| *known == name) else {
            return Err(LayoutError::Unknown { name: name.to_owned() });
        };
        let settings = Settings::parse(name, text.unwrap_or("{}"))?;
        let layout = match name {
            "0002-flat-direct-storage-layout" => Self::FlatDirect,
            "0003-hash-and-id-n-tuple-storage-layout" => Self::HashAndId(settings.tuples()?),
            "0004-hashed-n-tuple-storage-layout" => {
                Self::Hashed { tuples: settings.tuples()?, short_object_root: settings.flag("shortObjectRoot")? }
            }
            "0006-flat-omit-prefix-storage-layout" => {
                let delimiter = settings.text("delimiter")?.ok_or_else(|| settings.error("delimiter is missing"))?;
                Self::FlatOmitPrefix { delimiter }
            }
            _ => Self::TuplesOmitPrefix {
                delimiter: settings.text("delimiter")?.unwrap_or_else(|| ":".to_owned()),
                tuple_size: settings.number("tupleSize")?,
                number_of_tuples: settings.number("numberOfTuples")?,
                pads_left: match settings.text("zeroPadding")?.as_deref() {
                    None | Some("left") => true,
                    Some("right") => false,
                    Some(_) => return Err(settings.error("zeroPadding is neither left nor right")),
                },
                reverses: settings.flag("reverseObjectRoot")?,
            },
        };
        layout.check()?;
        Ok(layout)
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// If they break the rules of the extension.
    pub fn check(&self) -> Result<(), LayoutError> {
        let reason = match self {
            Self::HashAndId(tuples) | Self::Hashed { tuples, .. } if (tuples.size == 0) != (tuples.number == 0) => {
                "tupleSize and numberOfTuples must both be 0, or neither"
            }
            Self::HashAndId(tuples) | Self::Hashed { tuples, .. } if tuples.size * tuples.number > 2 * tuples.algorithm.bytes() => {
                "the tuples are longer than the digest"
            }
            Self::Hashed { tuples, short_object_root: true } if tuples.size * tuples.number == 2 * tuples.algorithm.bytes() => {
                "shortObjectRoot leaves no digits for the object's folder"
            }
            Self::FlatOmitPrefix { delimiter } | Self::TuplesOmitPrefix { delimiter, .. } if delimiter.is_empty() => "delimiter is empty",
            Self::TuplesOmitPrefix { tuple_size, number_of_tuples, .. } if *tuple_size == 0 || *number_of_tuples == 0 => {
                "tupleSize and numberOfTuples must be at least 1"
            }
            _ => return Ok(()),
        };
        Err(LayoutError::Configuration { name: self.name(), reason })
    }

    /// The folder of an object, relative to the storage root.
    ///
    /// # Errors
    /// If the identifier can't be a name of a folder in this layout.
    pub fn place(&self, id: &str) -> Result<String, LayoutError> {
        let error = |reason| LayoutError::Identifier { name: self.name(), id: id.to_owned(), reason };
        let place = match self {
            Self::FlatDirect => id.to_owned(),
            Self::HashAndId(tuples) => {
                let digits = tuples.digits(id);
                let mut name = percent_encode(id);
                if name.len() > ENCODED_CHARACTERS_MAX {
                    name.truncate(ENCODED_CHARACTERS_MAX);
                    let _ = write!(name, "-{digits}");
                }
                return Ok(tuples.join(&digits, &name));
            }
            Self::Hashed { tuples, short_object_root } => {
                let digits = tuples.digits(id);
                let rest = if *short_object_root { &digits[tuples.size * tuples.number..] } else { &digits };
                return Ok(tuples.join(&digits, rest));
            }
            Self::FlatOmitPrefix { delimiter } => after_delimiter(id, delimiter).to_owned(),
            Self::TuplesOmitPrefix { delimiter, tuple_size, number_of_tuples, pads_left, reverses } => {
                if !id.bytes().all(|byte| (0x20..=0x7f).contains(&byte)) {
                    return Err(error("only ASCII characters are allowed"));
                }
                let rest = after_delimiter(id, delimiter);
                check_name(rest).map_err(error)?;
                let zeros = "0".repeat((tuple_size * number_of_tuples).saturating_sub(rest.len()));
                let mut padded = if *pads_left { zeros + rest } else { rest.to_owned() + &zeros };
                if *reverses {
                    padded = padded.chars().rev().collect();
                }
                let tuples = (0..*number_of_tuples).map(|index| &padded[index * tuple_size..][..*tuple_size]);
                tuples.chain([rest]).collect::<Vec<_>>().join("/")
            }
        };
        for (level, name) in place.split('/').enumerate() {
            if matches!(self, Self::TuplesOmitPrefix { .. }) || level == 0 {
                check_name(name).map_err(error)?;
            }
        }
        if matches!(self, Self::FlatDirect | Self::FlatOmitPrefix { .. }) {
            check_name(&place).map_err(error)?;
        }
        // The storage root has a folder and files of its own.
        let first = place.split('/').next().unwrap_or_default();
        if first == crate::spec::EXTENSIONS || first == crate::root::LAYOUT || first.starts_with("0=ocfl") {
            return Err(error("the storage root uses this name itself"));
        }
        Ok(place)
    }
}

impl Tuples {
    fn configuration(self) -> Value {
        json!({ "digestAlgorithm": self.algorithm.name(), "tupleSize": self.size, "numberOfTuples": self.number })
    }

    fn digits(self, id: &str) -> String {
        let mut digester = Digester::new(&[self.algorithm]);
        digester.update(id.as_bytes());
        digester.finish().remove(0).hex()
    }

    fn join(self, digits: &str, name: &str) -> String {
        let tuples = (0..self.number).map(|index| &digits[index * self.size..][..self.size]);
        tuples.chain([name]).collect::<Vec<_>>().join("/")
    }
}

/// A name of a folder that every file system of Unix can keep.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("nothing is left for a folder's name");
    }
    if name.contains('/') || check_path(name).is_err() {
        return Err("it would not be one folder");
    }
    if name.contains('\0') {
        return Err("it contains a zero character");
    }
    if name.len() > NAME_BYTES_MAX { Err("it is too long for a folder's name") } else { Ok(()) }
}

fn percent_encode(id: &str) -> String {
    id.bytes().fold(String::with_capacity(id.len()), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02x}");
            }
        }
        encoded
    })
}

/// What is after the last delimiter, or everything.
fn after_delimiter<'a>(id: &'a str, delimiter: &str) -> &'a str {
    // Only the case of ASCII letters is ignored, so positions stay the same.
    let position = id.to_ascii_lowercase().rfind(&delimiter.to_ascii_lowercase());
    position.map_or(id, |position| &id[position + delimiter.len()..])
}

/// The members of a configuration.
struct Settings<'a> {
    name: &'static str,
    members: Vec<json::Member<'a>>,
}

impl<'a> Settings<'a> {
    fn parse(name: &'static str, text: &'a str) -> Result<Self, LayoutError> {
        let members = json::parse(text).and_then(json::members);
        let mut settings = Self { name, members: Vec::new() };
        let Ok(Some(members)) = members else { return Err(settings.error("it is not a JSON object")) };
        settings.members = members;
        for (index, (key, _)) in settings.members.iter().enumerate() {
            if settings.members[..index].iter().any(|(earlier, _)| earlier == key) {
                return Err(settings.error("a key occurs more than once"));
            }
        }
        match settings.text("extensionName")? {
            Some(stated) if stated != name => Err(settings.error("extensionName is of another extension")),
            _ => Ok(settings),
        }
    }

    fn error(&self, reason: &'static str) -> LayoutError {
        LayoutError::Configuration { name: self.name, reason }
    }

    fn value(&self, key: &str) -> Option<json::Slice<'a>> {
        self.members.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    fn text(&self, key: &str) -> Result<Option<String>, LayoutError> {
        let Some(slice) = self.value(key) else { return Ok(None) };
        match json::text(slice) {
            Ok(Some(text)) => Ok(Some(text.into_owned())),
            _ => Err(self.error("a value that must be a text is not")),
        }
    }

    fn flag(&self, key: &str) -> Result<bool, LayoutError> {
        match self.value(key).map(|slice| slice.get()) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(self.error("a value that must be true or false is not")),
        }
    }

    /// A number, 3 unless stated.
    fn number(&self, key: &str) -> Result<usize, LayoutError> {
        let Some(slice) = self.value(key) else { return Ok(3) };
        let number = slice.get().parse::<u64>().ok().filter(|number| *number <= TUPLES_MAX);
        number.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| self.error("a number is not between 0 and 32"))
    }

    fn tuples(&self) -> Result<Tuples, LayoutError> {
        let algorithm = match self.text("digestAlgorithm")? {
            None => Algorithm::Sha256,
            Some(name) => {
                let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
                found.ok_or_else(|| self.error("digestAlgorithm is not known here"))?
            }
        };
        Ok(Tuples { algorithm, size: self.number("tupleSize")?, number: self.number("numberOfTuples")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(name: &str, configuration: &str) -> Layout {
        Layout::from_configuration(name, Some(configuration)).unwrap()
    }

    fn check(layout: &Layout, cases: &[(&str, &str)]) {
        for (id, place) in cases {
            assert_eq!(layout.place(id).as_deref(), Ok(*place), "{id}");
        }
        let text = layout.configuration().to_string();
        assert_eq!(Layout::from_configuration(layout.name(), Some(&text)).as_ref(), Ok(layout));
    }

    // The examples of the extensions' documents.
    #[test]
    fn objects_are_where_extension_0003_puts_them() {
        let digest_of_101 = "5cc73e648fbcff136510e330871180922ddacf193b68fdeff855683a01464220";
        let long = "abcdefghij".repeat(10);
        check(
            &Layout::default(),
            &[
                ("object-01", "3c0/ff4/240/object-01"),
                ("..hor/rib:le-$id", "487/326/d8c/%2e%2ehor%2frib%3ale-%24id"),
                ("..Hor/rib:lè-$id", "373/529/21a/%2e%2eHor%2frib%3al%c3%a8-%24id"),
                (&format!("{long}a"), &format!("5cc/73e/648/{long}-{digest_of_101}")),
            ],
        );
        let md5 = layout("0003-hash-and-id-n-tuple-storage-layout", r#"{"digestAlgorithm": "md5", "tupleSize": 2, "numberOfTuples": 15}"#);
        check(&md5, &[("object-01", "ff/75/53/44/92/48/5e/ab/b3/9f/86/35/67/28/88/object-01")]);
        let flat = layout("0003-hash-and-id-n-tuple-storage-layout", r#"{"tupleSize": 0, "numberOfTuples": 0}"#);
        check(&flat, &[("object-01", "object-01"), ("..hor/rib:le-$id", "%2e%2ehor%2frib%3ale-%24id")]);
    }

    #[test]
    fn objects_are_where_extension_0004_puts_them() {
        let name = "0004-hashed-n-tuple-storage-layout";
        let digits = "487326d8c2a3c0b885e23da1469b4d6671fd4e76978924b4443e9e3c316cda6d";
        check(&layout(name, "{}"), &[("..hor/rib:le-$id", &format!("487/326/d8c/{digits}"))]);
        let short = r#"{"extensionName": "0004-hashed-n-tuple-storage-layout", "digestAlgorithm": "md5", "tupleSize": 2, "numberOfTuples": 15, "shortObjectRoot": true}"#;
        check(&layout(name, short), &[("object-01", "ff/75/53/44/92/48/5e/ab/b3/9f/86/35/67/28/88/4e")]);
        check(&layout(name, r#"{"tupleSize": 0, "numberOfTuples": 0}"#), &[("..hor/rib:le-$id", digits)]);
    }

    #[test]
    fn objects_are_where_extension_0002_puts_them() {
        let flat = layout("0002-flat-direct-storage-layout", "{}");
        check(&flat, &[("object-01", "object-01"), ("..hor_rib:lé-$id", "..hor_rib:lé-$id")]);
        for id in ["info:fedora/object-01", "..", ".", "", "a\0b", "extensions", "ocfl_layout.json", "0=ocfl_1.1", &"x".repeat(256)] {
            assert!(flat.place(id).is_err(), "{id}");
        }
    }

    #[test]
    fn objects_are_where_extension_0006_puts_them() {
        let name = "0006-flat-omit-prefix-storage-layout";
        let cases =
            [("namespace:12887296", "12887296"), ("urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", "6e8bc430-9c3a-11d9-9669-0800200c9a66")];
        check(&layout(name, r#"{"delimiter": ":"}"#), &cases);
        let cases = [("https://institution.edu/3448793", "3448793"), ("https://institution.edu/abc/EDU/f8.05v", "f8.05v")];
        check(&layout(name, r#"{"delimiter": "edu/"}"#), &cases);
        assert!(layout(name, r#"{"delimiter": "info:"}"#).place("info:fedora/object-01").is_err());
        assert!(layout(name, r#"{"delimiter": ":"}"#).place("a:").is_err());
        assert!(Layout::from_configuration(name, None).is_err());
    }

    #[test]
    fn objects_are_where_extension_0007_puts_them() {
        let name = "0007-n-tuple-omit-prefix-storage-layout";
        let reversed = r#"{"delimiter": ":", "tupleSize": 4, "numberOfTuples": 2, "zeroPadding": "left", "reverseObjectRoot": true}"#;
        let uuid = "6e8bc430-9c3a-11d9-9669-0800200c9a66";
        check(
            &layout(name, reversed),
            &[
                ("namespace:12887296", "6927/8821/12887296"),
                ("urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66", &format!("66a9/c002/{uuid}")),
                ("abc123", "321c/ba00/abc123"),
            ],
        );
        let right = r#"{"delimiter": "edu/", "zeroPadding": "right"}"#;
        let cases =
            [("https://institution.edu/3448793", "344/879/300/3448793"), ("https://institution.edu/abc/edu/f8.05v", "f8./05v/000/f8.05v")];
        check(&layout(name, right), &cases);
        for id in ["a:", "a:é", "a:b/c", "a:...a"] {
            assert!(layout(name, r#"{"tupleSize": 2}"#).place(id).is_err(), "{id}");
        }
    }

    #[test]
    fn wrong_configurations_are_rejected() {
        for (name, text) in [
            ("0003-hash-and-id-n-tuple-storage-layout", "[]"),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"tupleSize": 0}"#),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"tupleSize": 33}"#),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"tupleSize": -1}"#),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"tupleSize": 3, "tupleSize": 4}"#),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"digestAlgorithm": "md5", "tupleSize": 32, "numberOfTuples": 32}"#),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"digestAlgorithm": "sha"}"#),
            ("0003-hash-and-id-n-tuple-storage-layout", r#"{"extensionName": "0004-hashed-n-tuple-storage-layout"}"#),
            (
                "0004-hashed-n-tuple-storage-layout",
                r#"{"digestAlgorithm": "md5", "tupleSize": 8, "numberOfTuples": 4, "shortObjectRoot": true}"#,
            ),
            ("0006-flat-omit-prefix-storage-layout", r#"{"delimiter": ""}"#),
            ("0007-n-tuple-omit-prefix-storage-layout", r#"{"tupleSize": 0}"#),
            ("0007-n-tuple-omit-prefix-storage-layout", r#"{"zeroPadding": "middle"}"#),
        ] {
            assert!(matches!(Layout::from_configuration(name, Some(text)), Err(LayoutError::Configuration { .. })), "{name} {text}");
        }
        assert!(matches!(Layout::from_configuration("0099-other", None), Err(LayoutError::Unknown { .. })));
    }
}
