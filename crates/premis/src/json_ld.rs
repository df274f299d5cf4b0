//! PREMIS 3 as JSON-LD, in terms of its ontology.
//!
//! ```text
//! {"@context": {…}, "@graph": [
//!   {"@id": …, "@type": "premis:File", "premis:fixity": [{"@type": …, "rdf:value": …}], …},
//!   {"@id": …, "@type": ["premis:Event", "…/eventType/fix"], "prov:endedAtTime": …, …}
//! ]}
//! ```
//!
//! The ontology replaces some units of the data dictionary by terms of others: the time of an event
//! is `prov:endedAtTime`, the type of an event or a digest is a class of its vocabulary, and the
//! roles of agents and objects are properties.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::PremisError;
use crate::record::{Agent, Event, FileObject, Identifier};
use crate::text;

/// Writes a JSON-LD document, a node for each object, event and agent. They may come in any order.
#[derive(Debug)]
pub struct JsonLdWriter<W: Write> {
    out: W,
    base: String,
    has_node: bool,
}

impl<W: Write> JsonLdWriter<W> {
    /// Begins a document. Identifiers that aren't IRIs themselves become IRIs below `base`, such as
    /// `https://archive.example.org/id/`.
    ///
    /// # Errors
    /// If the output fails, as in all of these functions.
    pub fn new(mut out: W, base: impl Into<String>) -> Result<Self, PremisError> {
        let context = json!({
            "premis": "http://www.loc.gov/premis/rdf/v3/",
            "prov": "http://www.w3.org/ns/prov#",
            "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
            "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
            "dc": "http://purl.org/dc/elements/1.1/",
            "dcterms": "http://purl.org/dc/terms/",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
        });
        write!(out, "{{\"@context\": {context}, \"@graph\": [")?;
        Ok(Self { out, base: base.into(), has_node: false })
    }

    /// Writes an object.
    ///
    /// # Errors
    /// If the output fails.
    pub fn object(&mut self, object: &FileObject) -> Result<(), PremisError> {
        let mut node = self.entity(&object.identifier, json!("premis:File"));
        let fixity = object.fixity.iter().map(|fixity| {
            let mut digest = Map::new();
            let class = fixity.algorithm_uri().unwrap_or("premis:Fixity");
            digest.insert("@type".into(), json!(class));
            digest.insert("rdf:value".into(), json!(fixity.digest));
            if fixity.algorithm_uri().is_none() {
                digest.insert("rdfs:label".into(), json!(fixity.algorithm));
            }
            if let Some(originator) = &fixity.originator {
                digest.insert("dc:creator".into(), json!(originator));
            }
            Value::Object(digest)
        });
        let fixity: Vec<Value> = fixity.collect();
        if !fixity.is_empty() {
            node.insert("premis:fixity".into(), Value::Array(fixity));
        }
        if let Some(bytes) = object.bytes {
            // As a string: JSON's numbers lose digits beyond 2^53 in many programs.
            node.insert("premis:size".into(), json!({"@type": "xsd:nonNegativeInteger", "@value": bytes.to_string()}));
        }
        if let Some(format) = &object.format {
            node.insert("dcterms:format".into(), json!({"@type": "dcterms:FileFormat", "rdfs:label": format}));
        }
        if let Some(name) = &object.original_name {
            node.insert("premis:originalName".into(), json!(name));
        }
        if let Some(location) = &object.location {
            let location = json!({"@type": "premis:StorageLocation", "dcterms:type": location.kind, "rdf:value": location.value});
            node.insert("premis:storedAt".into(), location);
        }
        self.node(node)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// If the time can't be written.
    pub fn event(&mut self, event: &Event) -> Result<(), PremisError> {
        let mut node = self.entity(&event.identifier, json!(["premis:Event", event.kind.uri()]));
        node.insert("prov:endedAtTime".into(), json!({"@type": "xsd:dateTime", "@value": event.time.text()?}));
        if let Some(detail) = &event.detail {
            node.insert("premis:note".into(), json!(detail));
        }
        node.insert("premis:outcome".into(), json!({"@id": event.outcome.uri()}));
        if let Some(detail) = &event.outcome_detail {
            node.insert("premis:outcomeNote".into(), json!(detail));
        }
        let executes = "http://id.loc.gov/vocabulary/preservation/eventRelatedAgentRole/exe";
        for agent in &event.agents {
            self.link(&mut node, executes, agent);
        }
        for link in &event.objects {
            self.link(&mut node, link.role.uri(), &link.object);
        }
        self.node(node)
    }

    /// Writes an agent.
    ///
    /// # Errors
    /// If the output fails.
    pub fn agent(&mut self, agent: &Agent) -> Result<(), PremisError> {
        let mut node = self.entity(&agent.identifier, json!(["premis:Agent", "prov:SoftwareAgent", Agent::TYPE_URI]));
        node.insert("rdfs:label".into(), json!(agent.name));
        node.insert("premis:version".into(), json!(agent.version));
        if let Some(note) = &agent.note {
            node.insert("premis:note".into(), json!(note));
        }
        self.node(node)
    }

    /// Ends the document and returns the output.
    ///
    /// # Errors
    /// If the output fails.
    pub fn finish(mut self) -> Result<W, PremisError> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entity(&self, identifier: &Identifier, class: Value) -> Map<String, Value> {
        let mut node = Map::new();
        node.insert("@id".into(), json!(text::iri(&self.base, &identifier.kind, &identifier.value)));
        node.insert("@type".into(), class);
        let identifier = json!({"@type": "premis:Identifier", "dcterms:type": identifier.kind, "rdf:value": identifier.value});
        node.insert("premis:identifier".into(), identifier);
        node
    }

    fn link(&self, node: &mut Map<String, Value>, property: &str, to: &Identifier) {
        let links = node.entry(property).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(links) = links {
            links.push(json!({"@id": text::iri(&self.base, &to.kind, &to.value)}));
        }
    }

    fn node(&mut self, node: Map<String, Value>) -> Result<(), PremisError> {
        let separator = if self.has_node { ",\n" } else { "\n" };
        self.has_node = true;
        Ok(write!(self.out, "{separator}{}", Value::Object(node))?)
    }
}
