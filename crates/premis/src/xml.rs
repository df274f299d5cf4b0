//! PREMIS 3 as XML, in the order of elements that its schema requires.

use std::borrow::Cow;
use std::io::Write;

use crate::PremisError;
use crate::record::{Agent, Event, FileObject, Identifier};
use crate::text;

const VOCABULARIES: &str = "http://id.loc.gov/vocabulary/preservation/";

/// Writes a `<premis>` document: objects first, then events, then agents.
///
/// Texts that XML 1.0 can't contain are percent-encoded. Identifiers are then marked by a type that
/// ends with `(percent-encoded)`, other texts by the prefix `percent-encoded: `.
#[derive(Debug)]
pub struct XmlWriter<W: Write> {
    out: W,
    has_object: bool,
    has_event: bool,
    has_agent: bool,
}

impl<W: Write> XmlWriter<W> {
    /// Begins a document.
    ///
    /// # Errors
    /// If the output fails, as in all of these functions.
    pub fn new(mut out: W) -> Result<Self, PremisError> {
        out.write_all(
            b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
              <premis:premis xmlns:premis=\"http://www.loc.gov/premis/v3\" \
              xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
              xsi:schemaLocation=\"http://www.loc.gov/premis/v3 https://www.loc.gov/standards/premis/premis.xsd\" \
              version=\"3.0\">\n",
        )?;
        Ok(Self { out, has_object: false, has_event: false, has_agent: false })
    }

    /// Writes an object.
    ///
    /// # Errors
    /// If an event was written before, or the size can't be written.
    pub fn object(&mut self, object: &FileObject) -> Result<(), PremisError> {
        if let Some(bytes) = object.bytes.filter(|bytes| i64::try_from(*bytes).is_err()) {
            return Err(PremisError::Size { bytes });
        }
        if self.has_event || self.has_agent {
            return Err(PremisError::ObjectAfterEvent { identifier: object.identifier.value.clone() });
        }
        self.has_object = true;
        self.raw("  <premis:object xsi:type=\"premis:file\">\n")?;
        self.identifier(4, "objectIdentifier", &object.identifier, None)?;
        self.raw("    <premis:objectCharacteristics>\n")?;
        for fixity in &object.fixity {
            self.raw("      <premis:fixity>\n")?;
            let uri = fixity.algorithm_uri();
            self.term(8, "messageDigestAlgorithm", &fixity.algorithm, uri.map(|uri| ("cryptographicHashFunctions", uri)))?;
            self.text(8, "messageDigest", &fixity.digest)?;
            if let Some(originator) = &fixity.originator {
                self.text(8, "messageDigestOriginator", originator)?;
            }
            self.raw("      </premis:fixity>\n")?;
        }
        if let Some(bytes) = object.bytes {
            self.text(6, "size", &bytes.to_string())?;
        }
        self.raw("      <premis:format>\n        <premis:formatDesignation>\n")?;
        self.text(10, "formatName", object.format.as_deref().unwrap_or("unknown"))?;
        self.raw("        </premis:formatDesignation>\n      </premis:format>\n    </premis:objectCharacteristics>\n")?;
        if let Some(name) = &object.original_name {
            self.text(4, "originalName", name)?;
        }
        if let Some(location) = &object.location {
            self.raw("    <premis:storage>\n")?;
            self.identifier(6, "contentLocation", location, None)?;
            self.raw("    </premis:storage>\n")?;
        }
        self.raw("  </premis:object>\n")
    }

    /// Writes an event.
    ///
    /// # Errors
    /// If no object was written before, or the time can't be written.
    pub fn event(&mut self, event: &Event) -> Result<(), PremisError> {
        if !self.has_object {
            return Err(PremisError::NoObject);
        }
        if self.has_agent {
            return Err(PremisError::EventAfterAgent { identifier: event.identifier.value.clone() });
        }
        // Before anything is written: a refused event leaves the document whole.
        let time = event.time.text()?;
        self.has_event = true;
        self.raw("  <premis:event>\n")?;
        self.identifier(4, "eventIdentifier", &event.identifier, None)?;
        self.term(4, "eventType", event.kind.label(), Some(("eventType", event.kind.uri())))?;
        self.text(4, "eventDateTime", &time)?;
        if let Some(detail) = &event.detail {
            self.raw("    <premis:eventDetailInformation>\n")?;
            self.text(6, "eventDetail", detail)?;
            self.raw("    </premis:eventDetailInformation>\n")?;
        }
        self.raw("    <premis:eventOutcomeInformation>\n")?;
        self.term(6, "eventOutcome", event.outcome.label(), Some(("eventOutcome", event.outcome.uri())))?;
        if let Some(detail) = &event.outcome_detail {
            self.raw("      <premis:eventOutcomeDetail>\n")?;
            self.text(8, "eventOutcomeDetailNote", detail)?;
            self.raw("      </premis:eventOutcomeDetail>\n")?;
        }
        self.raw("    </premis:eventOutcomeInformation>\n")?;
        for agent in &event.agents {
            let uri = "http://id.loc.gov/vocabulary/preservation/eventRelatedAgentRole/exe";
            self.identifier(
                4,
                "linkingAgentIdentifier",
                agent,
                Some(("linkingAgentRole", "executing program", "eventRelatedAgentRole", uri)),
            )?;
        }
        for link in &event.objects {
            let role = ("linkingObjectRole", link.role.label(), "eventRelatedObjectRole", link.role.uri());
            self.identifier(4, "linkingObjectIdentifier", &link.object, Some(role))?;
        }
        self.raw("  </premis:event>\n")
    }

    /// Writes an agent.
    ///
    /// # Errors
    /// If no object was written before.
    pub fn agent(&mut self, agent: &Agent) -> Result<(), PremisError> {
        if !self.has_object {
            return Err(PremisError::NoObject);
        }
        self.has_agent = true;
        self.raw("  <premis:agent>\n")?;
        self.identifier(4, "agentIdentifier", &agent.identifier, None)?;
        self.text(4, "agentName", &agent.name)?;
        self.term(4, "agentType", "software", Some(("agentType", Agent::TYPE_URI)))?;
        self.text(4, "agentVersion", &agent.version)?;
        if let Some(note) = &agent.note {
            self.text(4, "agentNote", note)?;
        }
        self.raw("  </premis:agent>\n")
    }

    /// Ends the document and returns the output.
    ///
    /// # Errors
    /// If no object was written: the schema requires one.
    pub fn finish(mut self) -> Result<W, PremisError> {
        if !self.has_object {
            return Err(PremisError::NoObject);
        }
        self.raw("</premis:premis>\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn raw(&mut self, text: &str) -> Result<(), PremisError> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes an element with a text, marked if it had to be encoded.
    fn text(&mut self, indent: usize, name: &str, text: &str) -> Result<(), PremisError> {
        self.term(indent, name, text, None)
    }

    /// Writes an element with a term of a vocabulary, if it has one there.
    fn term(&mut self, indent: usize, name: &str, text: &str, term: Option<(&str, &str)>) -> Result<(), PremisError> {
        let (text, is_encoded) = text::for_xml(text);
        let text = if is_encoded { Cow::Owned(text::marked(&text)) } else { text };
        let attributes = term.map_or_else(String::new, |(vocabulary, uri)| {
            format!(" authority=\"{vocabulary}\" authorityURI=\"{VOCABULARIES}{vocabulary}\" valueURI=\"{uri}\"")
        });
        self.raw(&format!("{:indent$}<premis:{name}{attributes}>{}</premis:{name}>\n", "", text::escape(&text)))
    }

    /// Writes an identifier's element, with its type and value, and a role if it is a link.
    fn identifier(
        &mut self,
        indent: usize,
        name: &str,
        identifier: &Identifier,
        role: Option<(&str, &str, &str, &str)>,
    ) -> Result<(), PremisError> {
        let (value, is_encoded) = text::for_xml(&identifier.value);
        let kind = if is_encoded { text::marked_kind(&identifier.kind) } else { identifier.kind.clone() };
        let deeper = indent + 2;
        self.raw(&format!("{:indent$}<premis:{name}>\n", ""))?;
        self.text(deeper, &format!("{name}Type"), &kind)?;
        self.raw(&format!("{:deeper$}<premis:{name}Value>{}</premis:{name}Value>\n", "", text::escape(&value)))?;
        if let Some((element, label, vocabulary, uri)) = role {
            self.term(deeper, element, label, Some((vocabulary, uri)))?;
        }
        self.raw(&format!("{:indent$}</premis:{name}>\n", ""))
    }
}
