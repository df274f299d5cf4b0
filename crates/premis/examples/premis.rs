//! Writes a PREMIS document with the names given, for the tests in `tests/preservation`.
//!
//! ```text
//! premis xml|json NAME...
//! ```

use std::error::Error;
use std::io::stdout;

use fulgurite_premis::{Event, EventType, FileObject, Fixity, Identifier, JsonLdWriter, Link, ObjectRole, Outcome, Timestamp, XmlWriter};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let form = arguments.next().ok_or("usage: premis xml|json NAME...")?;
    let objects: Vec<FileObject> = arguments.map(object).collect();
    if form == "xml" {
        let mut writer = XmlWriter::new(stdout().lock())?;
        objects.iter().try_for_each(|object| writer.object(object))?;
        objects.iter().flat_map(events).try_for_each(|event| writer.event(&event))?;
        drop(writer.finish()?);
    } else {
        let mut writer = JsonLdWriter::new(stdout().lock(), "https://archive.example.org/id/")?;
        objects.iter().try_for_each(|object| writer.object(object))?;
        objects.iter().flat_map(events).try_for_each(|event| writer.event(&event))?;
        drop(writer.finish()?);
    }
    Ok(())
}

fn object(name: String) -> FileObject {
    FileObject {
        identifier: Identifier::new("local", name.clone()),
        fixity: vec![Fixity { algorithm: "SHA-512".into(), digest: "00ff".into(), originator: Some("depositor".into()) }],
        bytes: Some(3),
        format: Some("text/plain".into()),
        original_name: Some(name),
        location: None,
    }
}

fn events(object: &FileObject) -> Vec<Event> {
    let event = |(index, kind): (u32, EventType)| Event {
        identifier: Identifier::new("UUID", format!("00000000-0000-0000-0000-0000000000{index:02}")),
        kind,
        time: Timestamp { seconds: 1_795_591_509, nanos: 500_000_000 },
        detail: Some(object.identifier.value.clone()),
        outcome: Outcome::Success,
        outcome_detail: None,
        agents: vec![Identifier::new("URI", "https://example.org/fulgurite")],
        objects: vec![Link { object: object.identifier.clone(), role: ObjectRole::Source }],
    };
    (0..).zip(EventType::ALL).map(event).collect()
}
