//! The last events of the log, for the dashboard: what was logged without a terminal or a log
//! collector at hand.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tracing::Level;

use crate::fixity::rfc_3339;

/// Warnings and errors that are kept.
const NOTABLE_MAX: usize = 300;
/// Other events that are kept. They must not push warnings out.
const OTHERS_MAX: usize = 200;
/// A repetition is looked for among this many of the last events.
const COMPARED: usize = 20;
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
    /// Adds an event that was logged now. One that repeats another that was logged shortly before
    /// counts with that. Levels below `INFO` aren't kept.
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
        let recent = kept.len().saturating_sub(COMPARED);
        let same = (recent..kept.len()).rev().find(|index| kept[*index].event == event);
        let earlier = same.and_then(|index| kept.remove(index));
        if kept.len() == most {
            make_room(kept);
        }
        let (first_s, times) = earlier.map_or((now_s, 1), |earlier| (earlier.first_s, earlier.times + 1));
        let number = inner.next;
        inner.next += 1;
        let kept = if event.level == Level::INFO { &mut inner.others } else { &mut inner.notable };
        kept.push_back(Kept { number, event, first_s, last_s: now_s, times });
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

/// Drops the oldest event of the most frequent kind: many of one kind must not push out others.
fn make_room(kept: &mut VecDeque<Kept>) {
    let kind = |kept: &Kept| (kept.event.logger, kept.event.message.clone());
    let mut kinds: HashMap<(&str, String), usize> = HashMap::new();
    kept.iter().for_each(|kept| *kinds.entry(kind(kept)).or_default() += 1);
    let oldest = (0..kept.len()).max_by_key(|index| (kinds[&kind(&kept[*index])], std::cmp::Reverse(*index)));
    oldest.and_then(|index| kept.remove(index));
}

/// Cuts a text, and frees what was cut.
fn shorten(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(TEXT_MAX) {
        *text = format!("{}…", &text[..end]);
    } else {
        text.shrink_to_fit();
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
    fn a_flood_of_one_kind_leaves_others_alone() {
        let log = EventLog::default();
        log.add(event(Level::WARN, "rare"));
        for number in 0..2 * NOTABLE_MAX {
            let fields = Map::from_iter([("platter".to_owned(), json!(number))]);
            log.add(LoggedEvent { fields, ..event(Level::WARN, "flood") });
        }
        // In turn, they repeat each other.
        (0..2 * NOTABLE_MAX).for_each(|number| log.add(event(Level::ERROR, ["one", "other"][number % 2])));
        let found = messages(&log, true);
        assert_eq!((found.len(), found[0].as_str(), found[1].as_str()), (NOTABLE_MAX, "other", "one"));
        assert_eq!(found.iter().filter(|message| *message == "rare").count(), 1);
        assert_eq!(log.report(true)["events"][0]["times"], json!(NOTABLE_MAX));
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
