//! Events: appended in the order of commits, and read.

use std::pin::pin;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::event::EventKind;
use super::super::{DatabaseError, Event};
use super::session::{Fault, HISTORY_LOCK, Work};
use super::{decoded_method, decoded_node, signed, small, storable, unsigned};
use crate::copy::{FileId, Method, NodeId};

/// Events that a transaction appends. It holds the history lock from the first one on.
pub(super) struct Appending {
    next: i64,
    events: Vec<Appended>,
}

/// A row of the history.
pub(super) struct Appended {
    pub(super) previous: Option<i64>,
    pub(super) node: NodeId,
    pub(super) file: i64,
    pub(super) at: u64,
    pub(super) kind: EventKind,
    pub(super) method: Method,
    pub(super) bytes: u64,
    pub(super) stream: Duration,
    pub(super) detail: Option<String>,
}

impl Appending {
    /// Takes the history lock.
    pub(super) async fn begin(work: &Work<'_>) -> Result<Self, Fault> {
        work.lock(HISTORY_LOCK).await?;
        let last = work.number("SELECT coalesce(max(event), 0) FROM events", &[]).await?;
        Ok(Self { next: last + 1, events: Vec::new() })
    }

    /// Adds an event, and returns its number.
    pub(super) fn push(&mut self, event: Appended) -> i64 {
        self.events.push(event);
        self.next + self.events.len() as i64 - 1
    }

    /// Writes all events.
    pub(super) async fn write(self, work: &Work<'_>) -> Result<(), Fault> {
        if self.events.is_empty() {
            return Ok(());
        }
        let sql = "COPY events (event, previous, file, at, bytes, stream_us, node, kind, method, detail) FROM STDIN BINARY";
        let types =
            [Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::INT2, Type::INT2, Type::INT2, Type::TEXT];
        let mut writer = pin!(work.writer(sql, &types).await?);
        for (number, event) in (self.next..).zip(self.events) {
            let stream_us = i64::try_from(event.stream.as_micros()).unwrap_or(i64::MAX);
            let (kind, method) = (i16::from(event.kind.number()), i16::from(event.method.number()));
            let detail = event.detail.map(|detail| storable(&detail));
            let (at, bytes, node) = (signed(event.at), signed(event.bytes), small(event.node));
            writer
                .as_mut()
                .write(&[&number, &event.previous, &event.file, &at, &bytes, &stream_us, &node, &kind, &method, &detail])
                .await?;
        }
        writer.finish().await?;
        Ok(())
    }
}

/// Reads an event from the first ten columns of a row, in the order of [`chain`], and the number of
/// the one before it of the same copy.
pub(super) fn decoded_event(row: &Row) -> Result<(Event, Option<i64>), Fault> {
    let number = |column| Ok::<_, Fault>(unsigned(row.try_get(column)?));
    let kind: i16 = row.try_get(5)?;
    let known = u8::try_from(kind).ok().and_then(EventKind::from_number);
    let event = Event {
        event: number(0)?,
        node: decoded_node("events", row.try_get(2)?)?,
        file: FileId(number(3)?),
        at: number(4)?,
        kind: known.ok_or_else(|| DatabaseError::Damaged { table: "events", what: format!("no kind has the number {kind}") })?,
        method: decoded_method("events", row.try_get(6)?)?,
        bytes: number(7)?,
        stream: Duration::from_micros(number(8)?),
        detail: row.try_get::<_, Option<String>>(9)?.unwrap_or_default(),
    };
    Ok((event, row.try_get(1)?))
}

/// Walks from the last event of a copy to its first.
pub(super) async fn chain(work: &Work<'_>, node: NodeId, file: i64, last: Option<i64>) -> Result<Vec<Event>, Fault> {
    let Some(last) = last else { return Ok(Vec::new()) };
    let rows = work
        .rows(
            "WITH RECURSIVE chain AS (SELECT e.* FROM events e WHERE e.event = $1 UNION ALL \
             SELECT e.* FROM chain c JOIN events e ON e.event = c.previous WHERE c.previous < c.event) \
             SELECT event, previous, node, file, at, kind, method, bytes, stream_us, detail FROM chain ORDER BY event DESC",
            &[&last],
        )
        .await?;
    let mut events = Vec::new();
    let mut next = Some(last);
    for row in &rows {
        let (event, previous) = decoded_event(row)?;
        if next != Some(signed(event.event)) || (event.node, event.file.0) != (node, unsigned(file)) {
            break;
        }
        events.push(event);
        next = previous;
    }
    match next {
        None => Ok(events),
        Some(number) => {
            Err(DatabaseError::Damaged { table: "events", what: format!("event {number} is gone, or not in the chain of its copy") }.into())
        }
    }
}
