//! The server's log: lines on standard error, and the last events in memory for the dashboard.

use std::io;
use std::sync::Arc;

use fulgurite_service::{EventLog, LoggedEvent};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::ecs::{Ecs, Fields};

/// The module that logs each request at the level `info`: too much for a default.
const ROUTER: &str = "fulgurite_service::http::router";

/// Writes the log to standard error, as text or in ECS, and keeps its last events. `RUST_LOG` sets
/// its level.
pub(crate) fn begin(json: bool, events: &Arc<EventLog>) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new(format!("warn,fulgurite=info,fulgurite_service=info,s3s=off,{ROUTER}=warn")));
    let lines = fmt::layer().with_ansi(has_colors()).with_writer(io::stderr);
    let lines = if json { lines.event_format(Ecs).boxed() } else { lines.boxed() };
    // An existing subscriber is kept.
    let _ = tracing_subscriber::registry().with(filter).with(lines).with(Keep(events.clone())).try_init();
}

/// True if the log may be colored: only on a terminal, and not if `NO_COLOR` is set
/// (<https://no-color.org>).
fn has_colors() -> bool {
    io::IsTerminal::is_terminal(&io::stderr()) && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Keeps events.
struct Keep(Arc<EventLog>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keep {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // The log of requests would push out all others.
        if metadata.target() == ROUTER && *metadata.level() > Level::WARN {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { message, error, mut others } = fields;
        if let Some(error) = error {
            others.insert("error".to_owned(), error.into());
        }
        self.0.add(LoggedEvent { level: *metadata.level(), logger: metadata.target(), message, fields: others });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_with_their_fields() {
        let events = Arc::<EventLog>::default();
        let subscriber = tracing_subscriber::registry().with(Keep(events.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(error = "no such disk", store = "d1", tries = 3, "can't read");
        });
        let kept = format!("{events:?}");
        for part in ["can't read", "no such disk", "\"d1\"", "Number(3)"] {
            assert!(kept.contains(part), "{part}: {kept}");
        }
    }
}
