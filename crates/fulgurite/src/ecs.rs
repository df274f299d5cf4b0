//! Log lines in the Elastic Common Schema (ECS): one JSON object a line, with the names that log
//! collectors know.
//!
//! They are `@timestamp`, `log.level`, `log.logger`, `message`, `ecs.version`, `service.name`,
//! `process.pid`; `error.message` for the field `error` of an event, and its other fields below
//! `fulgurite`.

use std::fmt;

use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The version of the schema that the names are from.
pub(crate) const VERSION: &str = "8.11.0";

/// An instant as ECS wants it: RFC 3339 in UTC, with milliseconds.
pub(crate) fn timestamp(at: OffsetDateTime) -> String {
    format!("{}T{:02}:{:02}:{:02}.{:03}Z", at.date(), at.hour(), at.minute(), at.second(), at.millisecond())
}

/// Formats the events of `tracing`. Spans are left out: the events say what they are about.
pub(crate) struct Ecs;

impl<S, N> FormatEvent<S, N> for Ecs
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writeln!(writer, "{}", line(OffsetDateTime::now_utc(), event))
    }
}

fn line(at: OffsetDateTime, event: &Event<'_>) -> Value {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let metadata = event.metadata();
    let mut line = json!({
        "@timestamp": timestamp(at),
        "log.level": metadata.level().as_str().to_ascii_lowercase(),
        "message": fields.message,
        "ecs.version": VERSION,
        "log.logger": metadata.target(),
        "service.name": "fulgurite",
        "process.pid": std::process::id(),
    });
    if let Some(error) = fields.error {
        line["error.message"] = error.into();
    }
    if !fields.others.is_empty() {
        line["fulgurite"] = Value::Object(fields.others);
    }
    line
}

/// The fields of an event.
#[derive(Default)]
pub(crate) struct Fields {
    pub(crate) message: String,
    pub(crate) error: Option<String>,
    pub(crate) others: Map<String, Value>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: Value) {
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match field.name() {
            "message" => self.message = text(),
            "error" => self.error = Some(text()),
            name => drop(self.others.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn events_are_lines_with_the_names_of_the_schema() {
        let log = Log::default();
        let written = log.clone();
        let subscriber = tracing_subscriber::fmt().event_format(Ecs).with_writer(move || written.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = io::Error::other("the disk\nis gone");
            tracing::warn!(%error, name = %"a\"b", count = 3_u64, share = 0.5, is_late = true, kind = ?Some(1), "can't read {}", "it");
            tracing::info!("nothing more");
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON on one line")).collect();
        let [warning, information] = lines.as_slice() else { panic!("{text}") };
        assert_eq!(warning["log.level"], "warn");
        assert_eq!(warning["message"], "can't read it");
        assert_eq!(warning["error.message"], "the disk\nis gone");
        assert_eq!(warning["log.logger"], "fulgurite::ecs::tests");
        let expected = json!({ "name": "a\"b", "count": 3, "share": 0.5, "is_late": true, "kind": "Some(1)" });
        assert_eq!(warning["fulgurite"], expected);
        assert_eq!(information["message"], "nothing more");
        assert!(information.get("fulgurite").is_none() && information.get("error.message").is_none());
        assert_eq!((&information["ecs.version"], &information["service.name"]), (&VERSION.into(), &"fulgurite".into()));
    }

    #[test]
    fn timestamps_are_in_utc_with_milliseconds() {
        let at = OffsetDateTime::from_unix_timestamp_nanos(1_764_201_600_045_999_999).unwrap();
        assert_eq!(timestamp(at), "2025-11-27T00:00:00.045Z");
    }
}
