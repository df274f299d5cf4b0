//! Where partitions begin and end, and what is missing of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::context::{Context, Position, State};
use super::{TIMEOUT, store_offset};
use crate::pipeline::{Events, IngestError, Pipeline};

/// Where partitions ended when they were assigned.
#[derive(Default)]
pub(super) struct Ends {
    of: HashMap<Position, i64>,
}

/// Missing offsets of a partition, and its first offset now.
pub(super) struct Looked {
    pub(super) position: Position,
    pub(super) ranges: Vec<(i64, i64)>,
    pub(super) low: Option<i64>,
}

impl Ends {
    /// Asks for the ends of partitions, and whether messages were deleted before they were read.
    /// `is_from_beginning` says where a group without an offset begins.
    pub(super) async fn look_at(
        &mut self,
        partitions: Vec<Position>,
        consumer: &Arc<StreamConsumer<Context>>,
        is_from_beginning: bool,
        pipeline: &Pipeline,
    ) -> Result<(), IngestError> {
        let asked = Arc::clone(consumer);
        let found = tokio::task::spawn_blocking(move || {
            let mut list = TopicPartitionList::new();
            for (topic, partition) in &partitions {
                list.add_partition(topic, *partition);
            }
            let committed = asked.committed_offsets(list, TIMEOUT);
            let mut failure = committed.as_ref().err().cloned();
            let mut found = Vec::new();
            for (topic, partition) in partitions {
                // After one timeout, the others would time out too.
                let marks = match &failure {
                    Some(error) => Err(KafkaError::clone(error)),
                    None => asked.fetch_watermarks(&topic, partition, TIMEOUT),
                };
                failure = failure.or_else(|| marks.as_ref().err().cloned());
                let committed = committed.as_ref().ok().and_then(|list| list.find_partition(&topic, partition));
                let committed = match committed.map(|element| element.offset()) {
                    Some(Offset::Offset(offset)) => Some(offset),
                    _ => None,
                };
                found.push(((topic, partition), marks, committed));
            }
            found
        });
        for (position, marks, committed) in found.await.map_err(|error| IngestError::Refused(error.to_string()))? {
            let (low, high) = match marks {
                Ok(marks) => marks,
                Err(error) => {
                    pipeline.events.waiting(&format!("Kafka: {error}"));
                    consumer.context().state().fresh.push(position);
                    continue;
                }
            };
            if let Some(committed) = committed.filter(|&committed| committed < low) {
                report_deleted(&position, committed, low, pipeline);
            }
            self.of.insert(position.clone(), high);
            let begin = match committed {
                // An offset beyond the end is that of an earlier topic of this name: librdkafka
                // starts over.
                Some(committed) if (low..=high).contains(&committed) => Some(committed),
                _ => is_from_beginning.then_some(low),
            };
            // From here on, what is deleted before it is read is missed, also by the next run.
            let is_expected = begin.is_some_and(|begin| consumer.context().state().expect(&position, begin));
            if let Some(begin) = begin.filter(|_| is_expected && begin != committed) {
                store_offset(consumer, &position.0, position.1, begin);
            }
        }
        Ok(())
    }

    /// Whether all that the partitions had is received and stored.
    pub(super) fn are_reached(&self, state: &State, events: &dyn Events) -> bool {
        if !state.has_assignment || !state.fresh.is_empty() || !state.gaps.is_empty() || state.offsets.unfinished() > 0 {
            return false;
        }
        state.assigned.iter().all(|position| {
            let (Some(end), Some(seen)) = (self.of.get(position), state.ends.get(position)) else { return false };
            // Messages of transactions that have not ended lie before this offset, and after `end`.
            let Some(high) = seen.high else { return false };
            let end = high.max(*end);
            let is_reached = state.next(position).is_some_and(|next| next >= end) || seen.read_to.is_some_and(|to| to >= end);
            if let Some(to) = seen.read_to.filter(|_| !is_reached) {
                let (topic, partition) = position;
                events.waiting(&format!("Kafka: {topic} {partition} can be read up to offset {to} so far; a transaction may be open"));
            }
            is_reached
        })
    }
}

impl State {
    /// Expects a message with this offset, unless another was received already. Returns whether
    /// that is so.
    fn expect(&mut self, position: &Position, next: i64) -> bool {
        let is_assigned = self.assigned.contains(position) && !self.renewed.contains(position);
        is_assigned && self.offsets.expect(&position.0, position.1, next)
    }

    /// Goes on after offsets at the ends of partitions that no message has: they are gaps, too.
    /// Returns the offsets that may be committed.
    pub(super) fn pass_tails(&mut self) -> Vec<(Position, i64)> {
        let unknown: HashSet<&Position> = self.fresh.iter().chain(&self.renewed).collect();
        let mut passed = Vec::new();
        for (position, seen) in &self.ends {
            let Some(to) = seen.read_to.filter(|_| !unknown.contains(position)) else { continue };
            let (topic, partition) = position;
            let next = self.offsets.next(topic, *partition);
            if next.is_some_and(|next| next >= to) || !self.offsets.pass(topic, *partition, to) {
                continue;
            }
            if let Some(next) = next {
                self.gaps.entry(position.clone()).or_default().push((next, to));
            }
            passed.push((position.clone(), to));
        }
        passed
    }
}

pub(super) fn report_deleted((topic, partition): &Position, from: i64, to: i64, pipeline: &Pipeline) {
    let gone = to - from;
    let why = format!("{gone} messages from offset {from} on were deleted by the broker before they were read");
    pipeline.events.failed(&format!("{topic} {partition}"), &why);
    pipeline.counts.failed.fetch_add(gone.unsigned_abs(), std::sync::atomic::Ordering::Relaxed);
}
