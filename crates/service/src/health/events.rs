//! The last events of the log, for the dashboard: what was logged without a terminal or a log
//! collector at hand.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tracing::Level;

use crate::fixity::rfc_3339;

/// Warnings and errors that are kept.
const NOTABLE_MAX: usize = 300;
/// Other events that are kept. They must not push warnings out.
const OTHERS_MAX: usize = 200;
/// Maximum length of a text of an event, in characters.
const TEXT_MAX: usize = 2_000;

/// An event of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedEvent {
    /// Its level.
    pub level: Level,
    /// The module that logged it.
    pub logger: &'static str,
    /// What it says.
    pub message: String,
    /// Its fields by name.
    pub fields: Map<String, Value>,
}

/// The last events that were logged, and the number of warnings and errors since the start.
#[derive(Debug, Default)]
pub struct EventLog(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    errors: u64,
    warnings: u64,
    notable: VecDeque<Kept>,
    others: VecDeque<Kept>,
    next: u64,
}

#[derive(Debug)]
struct Kept {
    number: u64,
    event: LoggedEvent,
    /// In seconds since 1970.
    first_s: u64,
    last_s: u64,
    times: u64,
}

impl EventLog {
    /// Adds an event that was logged now. An event that repeats the one before it counts with that.
    /// Levels below `INFO` aren't kept.
    pub fn add(&self, mut event: LoggedEvent) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        shorten(&mut event.message);
        event.fields.values_mut().for_each(|value| {
            if let Value::String(text) = value {
                shorten(text);
            }
        });
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, most) = match event.level {
            Level::ERROR => {
                inner.errors += 1;
                (&mut inner.notable, NOTABLE_MAX)
            }
            Level::WARN => {
                inner.warnings += 1;
                (&mut inner.notable, NOTABLE_MAX)
            }
            Level::INFO => (&mut inner.others, OTHERS_MAX),
            _ => return,
        };
        if let Some(last) = kept.back_mut().filter(|last| last.event == event) {
            last.last_s = now_s;
            last.times += 1;
            return;
        }
        if kept.len() == most {
            kept.pop_front();
        }
        let number = inner.next;
        inner.next += 1;
        let kept = if event.level == Level::INFO { &mut inner.others } else { &mut inner.notable };
        kept.push_back(Kept { number, event, first_s: now_s, last_s: now_s, times: 1 });
    }

    /// The newest events first, and how many warnings and errors there were since the start.
    pub(crate) fn report(&self, notable_only: bool) -> Value {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events: Vec<&Kept> = inner.notable.iter().collect();
        if !notable_only {
            events.extend(&inner.others);
        }
        events.sort_unstable_by_key(|kept| std::cmp::Reverse(kept.number));
        let events = events.into_iter().map(|Kept { event, first_s, last_s, times, .. }| {
            json!({
                "level": event.level.as_str().to_ascii_lowercase(),
                "logger": event.logger,
                "message": event.message,
                "fields": event.fields,
                "first": rfc_3339(*first_s),
                "last": rfc_3339(*last_s),
                "times": times,
            })
        });
        json!({ "errors": inner.errors, "warnings": inner.warnings, "events": events.collect::<Vec<_>>() })
    }
}

fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(level: Level, message: &str) -> LoggedEvent {
        LoggedEvent { level, logger: "here", message: message.to_owned(), fields: Map::new() }
    }

    fn messages(log: &EventLog, notable_only: bool) -> Vec<String> {
        let report = log.report(notable_only);
        report["events"].as_array().expect("a list").iter().map(|event| event["message"].as_str().expect("text").to_owned()).collect()
    }

    #[test]
    fn the_newest_events_come_first_and_the_oldest_are_dropped() {
        let log = EventLog::default();
        log.add(event(Level::WARN, "kept"));
        for number in 0..2 * OTHERS_MAX {
            log.add(event(Level::INFO, &number.to_string()));
        }
        log.add(event(Level::ERROR, "last"));
        log.add(event(Level::DEBUG, "never"));
        assert_eq!(messages(&log, true), ["last", "kept"]);
        let all = messages(&log, false);
        assert_eq!((all.len(), all[0].as_str(), all[1].as_str()), (OTHERS_MAX + 2, "last", "399"));
        let report = log.report(true);
        assert_eq!((&report["errors"], &report["warnings"]), (&json!(1), &json!(1)));
    }

    #[test]
    fn repetitions_are_counted_and_long_texts_cut() {
        let log = EventLog::default();
        (0..5).for_each(|_| log.add(event(Level::ERROR, "again")));
        log.add(event(Level::ERROR, &"ü".repeat(3 * TEXT_MAX)));
        let report = log.report(true);
        assert_eq!((&report["events"][1]["times"], &report["errors"]), (&json!(5), &json!(6)));
        assert_eq!(messages(&log, true)[0].chars().count(), TEXT_MAX + 1);
    }
}
