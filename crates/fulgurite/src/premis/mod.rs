//! PREMIS documents of commands: how this program names itself and its events.

mod provenance;

use std::io::Write;

use fulgurite_digest::{Algorithm, Digester};
use fulgurite_premis::{Agent, Event, FileObject, Fixity, Identifier, JsonLdWriter, PremisError, XmlWriter};

pub(crate) use provenance::{Deed, Premis, Provenance, Subject};

/// What IRIs begin with, in JSON-LD, for identifiers that aren't IRIs.
const BASE: &str = "urn:fulgurite:";

/// The form of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Xml,
    JsonLd,
}

/// A document under way: objects first, then events. It holds none of them in memory.
pub(crate) enum Document<W: Write> {
    Xml(XmlWriter<W>),
    JsonLd(JsonLdWriter<W>),
}

impl<W: Write> Document<W> {
    pub(crate) fn begin(form: Form, out: W) -> Result<Self, PremisError> {
        Ok(match form {
            Form::Xml => Self::Xml(XmlWriter::new(out)?),
            Form::JsonLd => Self::JsonLd(JsonLdWriter::new(out, BASE)?),
        })
    }

    pub(crate) fn object(&mut self, object: &FileObject) -> Result<(), PremisError> {
        match self {
            Self::Xml(writer) => writer.object(object),
            Self::JsonLd(writer) => writer.object(object),
        }
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), PremisError> {
        match self {
            Self::Xml(writer) => writer.event(event),
            Self::JsonLd(writer) => writer.event(event),
        }
    }

    /// Describes this program, with a note, and ends the document.
    pub(crate) fn finish(self, note: Option<&str>) -> Result<W, PremisError> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let agent = Agent { identifier: program(), name: "fulgurite".into(), version, note: note.map(str::to_owned) };
        match self {
            Self::Xml(mut writer) => {
                writer.agent(&agent)?;
                writer.finish()
            }
            Self::JsonLd(mut writer) => {
                writer.agent(&agent)?;
                writer.finish()
            }
        }
    }
}

/// The identifier of this program as an agent.
pub(crate) fn program() -> Identifier {
    Identifier::new("software", "fulgurite")
}

/// A digest as PREMIS has it.
pub(crate) fn fixity(algorithm: Algorithm, hex: String) -> Fixity {
    let algorithm = match algorithm.name() {
        "sha1" => "SHA-1".to_owned(),
        "sha256" => "SHA-256".to_owned(),
        "sha384" => "SHA-384".to_owned(),
        "sha512" => "SHA-512".to_owned(),
        "md5" => "MD5".to_owned(),
        other => other.to_owned(),
    };
    Fixity { algorithm, digest: hex, originator: None }
}

/// A UUID of version 8, made of the SHA-256 of some texts: the same texts always get the same.
pub(crate) fn uuid(parts: &[&str]) -> Identifier {
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    for part in parts {
        digester.update(&(part.len() as u64).to_le_bytes());
        digester.update(part.as_bytes());
    }
    let hex = digester.finish().first().map(fulgurite_digest::Digest::hex).unwrap_or_default();
    // Version 8 is for such UUIDs; the variant is 10 in binary.
    let value = format!("{}-{}-8{}-8{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30]);
    Identifier::new("UUID", value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_texts_get_the_same_uuid_and_others_get_another() {
        let first = uuid(&["a", "bc"]);
        assert_eq!(first, uuid(&["a", "bc"]));
        assert_ne!(first, uuid(&["ab", "c"]));
        assert_eq!(first.value.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(first.value.bytes().all(|byte| matches!(byte, b'-' | b'0'..=b'9' | b'a'..=b'f')));
    }
}
