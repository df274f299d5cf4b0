//! Documents as a reader finds them.

use fulgurite_premis::{
    Agent, Event, EventType, FileObject, Fixity, Identifier, JsonLdWriter, Link, ObjectRole, Outcome, PremisError, Timestamp, XmlWriter,
};
use proptest::prelude::*;

fn object(name: &str) -> FileObject {
    FileObject {
        identifier: Identifier::new("ARK", name),
        fixity: vec![
            Fixity { algorithm: "SHA-512".into(), digest: "cf83".into(), originator: Some("depositor".into()) },
            Fixity { algorithm: "BLAKE2b-512".into(), digest: "786a".into(), originator: None },
        ],
        bytes: Some(i64::MAX as u64),
        format: None,
        original_name: Some("a & <b>".into()),
        location: Some(Identifier::new("node one", name)),
    }
}

fn event(detail: &str) -> Event {
    Event {
        identifier: Identifier::new("UUID", "12de70c6-09aa-43e6-9f75-72d90559e8ba"),
        kind: EventType::FixityCheck,
        time: Timestamp { seconds: 1_795_591_509, nanos: 500_000_000 },
        detail: Some(detail.into()),
        outcome: Outcome::Fail,
        outcome_detail: Some("differs".into()),
        agents: vec![Identifier::new("URI", "https://example.org/fulgurite")],
        objects: vec![
            Link { object: Identifier::new("ARK", "ark:/13030/x|1|producer/f"), role: ObjectRole::Source },
            Link { object: Identifier::new("ARK", "b"), role: ObjectRole::Outcome },
        ],
    }
}

fn agent() -> Agent {
    let identifier = Identifier::new("URI", "https://example.org/fulgurite");
    Agent { identifier, name: "fulgurite".into(), version: "1".into(), note: Some("a & b".into()) }
}

fn xml(object_name: &str, detail: &str) -> String {
    let mut writer = XmlWriter::new(Vec::new()).unwrap();
    writer.object(&object(object_name)).unwrap();
    writer.event(&event(detail)).unwrap();
    writer.agent(&agent()).unwrap();
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn elements_are_in_the_order_of_the_schema() {
    let text = xml("ark:/13030/x|1|producer/f", "read & hashed");
    let names: Vec<&str> =
        text.split('<').filter_map(|part| part.strip_prefix("premis:")).map(|part| part.split([' ', '>', '\n']).next().unwrap()).collect();
    assert_eq!(
        names,
        [
            "premis",
            "object",
            "objectIdentifier",
            "objectIdentifierType",
            "objectIdentifierValue",
            "objectCharacteristics",
            "fixity",
            "messageDigestAlgorithm",
            "messageDigest",
            "messageDigestOriginator",
            "fixity",
            "messageDigestAlgorithm",
            "messageDigest",
            "size",
            "format",
            "formatDesignation",
            "formatName",
            "originalName",
            "storage",
            "contentLocation",
            "contentLocationType",
            "contentLocationValue",
            "event",
            "eventIdentifier",
            "eventIdentifierType",
            "eventIdentifierValue",
            "eventType",
            "eventDateTime",
            "eventDetailInformation",
            "eventDetail",
            "eventOutcomeInformation",
            "eventOutcome",
            "eventOutcomeDetail",
            "eventOutcomeDetailNote",
            "linkingAgentIdentifier",
            "linkingAgentIdentifierType",
            "linkingAgentIdentifierValue",
            "linkingAgentRole",
            "linkingObjectIdentifier",
            "linkingObjectIdentifierType",
            "linkingObjectIdentifierValue",
            "linkingObjectRole",
            "linkingObjectIdentifier",
            "linkingObjectIdentifierType",
            "linkingObjectIdentifierValue",
            "linkingObjectRole",
            "agent",
            "agentIdentifier",
            "agentIdentifierType",
            "agentIdentifierValue",
            "agentName",
            "agentType",
            "agentVersion",
            "agentNote",
        ]
    );
    assert!(text.contains("<premis:size>9223372036854775807</premis:size>"));
    assert!(text.contains("<premis:originalName>a &amp; &lt;b&gt;</premis:originalName>"));
    assert!(text.contains("valueURI=\"http://id.loc.gov/vocabulary/preservation/eventType/fix\">fixity check</premis:eventType>"));
    assert!(text.contains("<premis:eventDateTime>2026-11-25T07:25:09.5Z</premis:eventDateTime>"));
    assert!(text.contains("<premis:messageDigestAlgorithm>BLAKE2b-512</premis:messageDigestAlgorithm>"));
}

#[test]
fn names_that_xml_cannot_contain_are_encoded_and_marked() {
    let text = xml("a\u{1}100%", "b\0%");
    assert!(text.contains("<premis:objectIdentifierType>ARK (percent-encoded)</premis:objectIdentifierType>"));
    assert!(text.contains("<premis:objectIdentifierValue>a%01100%25</premis:objectIdentifierValue>"));
    assert!(text.contains("<premis:eventDetail>percent-encoded: b%00%25</premis:eventDetail>"));
    let text = xml("a\r\n100%", "b");
    assert!(text.contains("<premis:objectIdentifierType>ARK</premis:objectIdentifierType>"));
    assert!(text.contains("<premis:objectIdentifierValue>a&#13;\n100%</premis:objectIdentifierValue>"));
}

#[test]
fn a_document_that_the_schema_would_reject_is_refused() {
    let mut writer = XmlWriter::new(Vec::new()).unwrap();
    assert!(matches!(writer.event(&event("x")), Err(PremisError::NoObject)));
    let large = FileObject { bytes: Some(u64::MAX), ..object("a") };
    assert!(matches!(writer.object(&large), Err(PremisError::Size { bytes: u64::MAX })));
    writer.object(&object("a")).unwrap();
    let late = Event { time: Timestamp { seconds: i64::MAX, nanos: 0 }, ..event("x") };
    assert!(matches!(writer.event(&late), Err(PremisError::Time { .. })));
    writer.object(&object("b")).unwrap();
    writer.event(&event("x")).unwrap();
    assert!(matches!(writer.object(&object("c")), Err(PremisError::ObjectAfterEvent { .. })));
    writer.agent(&agent()).unwrap();
    assert!(matches!(writer.event(&event("x")), Err(PremisError::EventAfterAgent { .. })));
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    assert_eq!((text.matches("<premis:object ").count(), text.matches("<premis:event>").count()), (2, 1));
    assert!(matches!(XmlWriter::new(Vec::new()).unwrap().finish(), Err(PremisError::NoObject)));
}

fn event_agent(event: &serde_json::Value) -> serde_json::Value {
    event["http://id.loc.gov/vocabulary/preservation/eventRelatedAgentRole/exe"][0]["@id"].clone()
}

#[test]
fn json_ld_is_one_graph_in_terms_of_the_ontology() {
    let mut writer = JsonLdWriter::new(Vec::new(), "https://example.org/id/").unwrap();
    writer.event(&event("x")).unwrap();
    writer.object(&object("ark:/13030/x|1|producer/f")).unwrap();
    writer.agent(&agent()).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&writer.finish().unwrap()).unwrap();
    let graph = document["@graph"].as_array().unwrap();
    assert_eq!(graph[2]["@id"], event_agent(&graph[0]));
    assert_eq!(graph[1]["premis:storedAt"]["rdf:value"], graph[1]["premis:identifier"]["rdf:value"]);
    let (event, file) = (&graph[0], &graph[1]);
    assert_eq!(event["@id"], "urn:uuid:12de70c6-09aa-43e6-9f75-72d90559e8ba");
    assert_eq!(event["@type"], serde_json::json!(["premis:Event", "http://id.loc.gov/vocabulary/preservation/eventType/fix"]));
    assert_eq!(event["prov:endedAtTime"]["@value"], "2026-11-25T07:25:09.5Z");
    assert_eq!(event["premis:outcome"]["@id"], "http://id.loc.gov/vocabulary/preservation/eventOutcome/fai");
    // The event links to the node of the object.
    let source = &event["http://id.loc.gov/vocabulary/preservation/eventRelatedObjectRole/sou"][0]["@id"];
    assert_eq!(*source, file["@id"]);
    assert_eq!(file["@id"], "https://example.org/id/ARK/ark%3A%2F13030%2Fx%7C1%7Cproducer%2Ff");
    assert_eq!(file["premis:size"]["@value"], "9223372036854775807");
    assert_eq!(file["premis:fixity"][0]["@type"], "http://id.loc.gov/vocabulary/preservation/cryptographicHashFunctions/sha512");
    assert_eq!(file["premis:fixity"][1]["rdfs:label"], "BLAKE2b-512");
    let empty = JsonLdWriter::new(Vec::new(), "").unwrap().finish().unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&empty).unwrap()["@graph"], serde_json::json!([]));
}

proptest! {
    #[test]
    fn no_name_breaks_a_document(name in any::<String>(), detail in any::<String>()) {
        let text = xml(&name, &detail);
        let is_allowed = |character: char| matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        prop_assert!(text.chars().all(is_allowed));
        prop_assert_eq!(text.matches('<').count(), xml("a", "b").matches('<').count());
        let mut writer = JsonLdWriter::new(Vec::new(), "https://example.org/").unwrap();
        writer.object(&object(&name)).unwrap();
        writer.event(&event(&detail)).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&writer.finish().unwrap()).unwrap();
        prop_assert_eq!(&document["@graph"][0]["premis:identifier"]["rdf:value"], &serde_json::json!(name));
        prop_assert_eq!(&document["@graph"][1]["premis:note"], &serde_json::json!(detail));
    }
}
