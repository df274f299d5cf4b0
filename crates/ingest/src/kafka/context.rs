//! What librdkafka tells, and what is known of the partitions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::statistics::Statistics;
use rdkafka::topic_partition_list::TopicPartitionList;

use super::topics::Topics;
use crate::offsets::Offsets;
use crate::pipeline::Events;

pub(super) type Position = (String, i32);

/// What librdkafka tells.
pub(super) struct Context {
    pub(super) events: Arc<dyn Events>,
    state: Mutex<State>,
    /// On its own, because librdkafka holds locks while it logs.
    topics: Mutex<Topics>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) offsets: Offsets,
    pub(super) assigned: BTreeSet<Position>,
    /// Partitions that were ever assigned.
    known: BTreeSet<Position>,
    /// Partitions that were assigned, and not looked at since.
    pub(super) fresh: Vec<Position>,
    /// Partitions of topics that were created again, which are to be read from their beginning.
    pub(super) renewed: BTreeSet<Position>,
    /// Missing offsets of partitions: the first of each range, and the one after its last.
    pub(super) gaps: HashMap<Position, Vec<(i64, i64)>>,
    pub(super) ends: BTreeMap<Position, Seen>,
    pub(super) has_assignment: bool,
    pub(super) refused: Option<String>,
    /// Set once messages can't be read: [`RDKafkaErrorCode::BadMessage`] or
    /// [`RDKafkaErrorCode::BadCompression`].
    pub(super) damaged: Option<RDKafkaErrorCode>,
    /// Whether any broker has answered.
    pub(super) has_answered: bool,
    /// The latest problem with a broker.
    pub(super) last_broker_error: Option<String>,
}

/// What was seen of the end of a partition since it was assigned.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// The offset after the last message, when it was first seen: also messages of transactions
    /// that haven't ended yet.
    pub(super) high: Option<i64>,
    /// Where the partition ended when all before it had been received. Markers of transactions take
    /// offsets there, but no message has them.
    pub(super) read_to: Option<i64>,
    /// Whether librdkafka's figures are about this assignment: after another one, they stay for a
    /// while.
    is_current: bool,
}

impl Context {
    pub(super) fn new(events: Arc<dyn Events>) -> Self {
        Self { events, state: Mutex::default(), topics: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the partitions of topics that were created again. Messages are taken only after this
    /// was asked.
    pub(super) fn note_renewed(&self) {
        let changed = self.topics.lock().unwrap_or_else(PoisonError::into_inner).take_changed();
        if changed.is_empty() {
            return;
        }
        let mut state = self.state();
        for topic in &changed {
            state.renew(|(of, _)| of == topic);
        }
    }
}

impl State {
    /// Partitions are those of a new topic: what is known of them is void, and so is what is being
    /// stored.
    pub(super) fn renew(&mut self, is_renewed: impl Fn(&Position) -> bool) {
        let renewed: Vec<Position> = self.known.iter().filter(|position| is_renewed(position)).cloned().collect();
        for position in renewed {
            self.offsets.forget(&position.0, position.1);
            self.gaps.remove(&position);
            self.ends.remove(&position);
            self.renewed.insert(position);
        }
    }

    /// Partitions that are assigned and have to be read from their beginning.
    pub(super) fn to_renew(&self) -> Vec<Position> {
        self.renewed.intersection(&self.assigned).cloned().collect()
    }

    /// The offset of the next message, if it is known.
    pub(super) fn next(&self, (topic, partition): &Position) -> Option<i64> {
        self.offsets.next(topic, *partition)
    }

    /// All of a partition with this number was received, of one topic or another.
    pub(super) fn reach(&mut self, partition: i32) {
        let mut same = self.assigned.iter().filter(|(_, other)| *other == partition);
        if let (Some(position), None) = (same.next().cloned(), same.next())
            && !self.renewed.contains(&position)
        {
            self.ends.entry(position).or_default().is_current = true;
        }
    }

    /// Takes in what is known of the ends of partitions.
    fn see(&mut self, statistics: &Statistics) {
        for topic in statistics.topics.values() {
            for partition in topic.partitions.values() {
                let position = (topic.topic.clone(), partition.partition);
                // What is renewed was not yet read from its beginning.
                if !self.assigned.contains(&position) || self.renewed.contains(&position) {
                    continue;
                }
                let seen = self.ends.entry(position).or_default();
                seen.high = seen.high.or_else(|| (partition.hi_offset >= 0).then_some(partition.hi_offset));
                // The queue was looked at after the end was noted, and had been received.
                if seen.is_current && partition.fetchq_cnt == 0 && partition.eof_offset >= 0 {
                    seen.read_to = Some(partition.eof_offset);
                }
            }
        }
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).heard(message);
        tracing::debug!("{level:?} {facility}: {message}");
    }

    fn stats(&self, statistics: Statistics) {
        self.state().see(&statistics);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed) => {
                self.state().refused.get_or_insert_with(|| format!("Kafka: {reason}"));
            }
            // It is handled where messages are received.
            Some(RDKafkaErrorCode::PartitionEOF) => {}
            // It has only the number of brokers, and comes after the error of the last one.
            Some(RDKafkaErrorCode::AllBrokersDown) => self.events.waiting(&format!("Kafka: {reason}")),
            _ => {
                self.events.waiting(&format!("Kafka: {reason}"));
                self.state().last_broker_error = Some(reason.to_owned());
            }
        }
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(list) = rebalance {
            let mut state = self.state();
            for element in list.elements() {
                let position = (element.topic().to_owned(), element.partition());
                state.offsets.forget(element.topic(), element.partition());
                state.ends.remove(&position);
                state.assigned.remove(&position);
            }
            // Until the next assignment, nothing is known about the end.
            if state.assigned.is_empty() {
                state.has_assignment = false;
            }
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(list) => {
                let mut state = self.state();
                (state.has_assignment, state.has_answered) = (true, true);
                for element in list.elements() {
                    let position = (element.topic().to_owned(), element.partition());
                    state.offsets.forget(element.topic(), element.partition());
                    let is_current = state.known.insert(position.clone());
                    state.ends.insert(position.clone(), Seen { is_current, ..Seen::default() });
                    state.assigned.insert(position.clone());
                    state.fresh.push(position);
                }
            }
            Rebalance::Revoke(_) => {}
            Rebalance::Error(error) => self.events.waiting(&format!("Kafka: {error}")),
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        match result {
            // With nothing new to commit, and after a rebalance: the messages come again.
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            Err(error) => tracing::debug!("commit: {error}"),
        }
    }
}
