//! Alerts from Kafka.
//!
//! A message's offset is stored for the next commit once all of it is in the bucket, and all
//! messages before it. So after a crash at either side, messages are delivered again, but none is
//! skipped; and what is delivered again is found in the bucket and not stored twice.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::offsets::{Begun, Offsets};
use crate::pipeline::{Events, IngestError, Origin, Pipeline};

/// How to reach the brokers, and what to read.
#[derive(Clone)]
pub struct KafkaSettings {
    /// Names and values of librdkafka's configuration, such as `bootstrap.servers`.
    pub properties: Vec<(String, String)>,
    /// Topics; names that begin with `^` are regular expressions.
    pub topics: Vec<String>,
    /// Maximum bytes of messages that are being stored.
    pub buffer_bytes: usize,
    /// Whether to end once everything is stored that the topics had at the beginning.
    pub until_end: bool,
}

/// Properties that the command depends on.
const FIXED: [(&str, &str); 3] = [("enable.auto.commit", "true"), ("enable.auto.offset.store", "false"), ("enable.partition.eof", "true")];
/// Properties with better defaults than librdkafka's.
const DEFAULTS: [(&str, &str); 5] = [
    ("auto.offset.reset", "earliest"),
    ("check.crcs", "true"),
    ("client.id", "fulgurite"),
    // A full queue otherwise pauses its partition for a second.
    ("fetch.queue.backoff.ms", "10"),
    ("queued.max.messages.kbytes", "16384"),
];
/// Properties with two names, of which librdkafka would use either.
const ALIASES: [(&str, &str); 3] =
    [("metadata.broker.list", "bootstrap.servers"), ("sasl.mechanism", "sasl.mechanisms"), ("auto.commit.enable", "enable.auto.commit")];
/// Timeout for questions to the brokers.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a command that is to end waits for the first answer of any broker.
const FIRST_ANSWER: Duration = Duration::from_secs(30);
/// Timeout for each attempt to get it: a stop waits for the last attempt.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often positions are compared with ends.
const CHECK_EVERY: Duration = Duration::from_millis(200);

type Position = (String, i32);

/// A consumer, in its group.
pub struct KafkaSource {
    consumer: Arc<StreamConsumer<Context>>,
    settings: KafkaSettings,
}

impl std::fmt::Debug for KafkaSettings {
    /// Without the properties, which have passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSettings").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaSource").field("topics", &self.settings.topics).finish_non_exhaustive()
    }
}

/// What librdkafka tells.
struct Context {
    events: Arc<dyn Events>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    offsets: Offsets,
    assigned: BTreeSet<Position>,
    /// Partitions that were assigned, and not looked at since.
    fresh: Vec<Position>,
    /// Missing offsets of partitions: the first of each range, and the one after its last.
    gaps: HashMap<Position, Vec<(i64, i64)>>,
    /// Numbers of partitions of which everything was received.
    reached: BTreeSet<i32>,
    has_assignment: bool,
    refused: Option<String>,
    /// Whether any broker has answered.
    has_answered: bool,
    /// The latest problem with a broker.
    last_broker_error: Option<String>,
}

impl Context {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!("{level:?} {facility}: {message}");
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
                state.offsets.forget(element.topic(), element.partition());
                state.reached.remove(&element.partition());
                state.assigned.remove(&(element.topic().to_owned(), element.partition()));
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
                    state.offsets.forget(element.topic(), element.partition());
                    state.reached.remove(&element.partition());
                    state.assigned.insert((element.topic().to_owned(), element.partition()));
                    state.fresh.push((element.topic().to_owned(), element.partition()));
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

impl KafkaSettings {
    /// Checks the properties.
    ///
    /// # Errors
    /// Which property is wrong or can't be set.
    pub fn check(&self) -> Result<(), String> {
        self.config()?.create_native_config().map(drop).map_err(|error| match error {
            KafkaError::ClientConfig(_, why, name, _) => format!("`{name}`: {why}"),
            error => error.to_string(),
        })
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Warning);
        for (name, value) in DEFAULTS {
            config.set(name, value);
        }
        for (name, value) in &self.properties {
            let name = ALIASES.iter().find(|(alias, _)| alias == name).map_or(name.as_str(), |(_, name)| name);
            if FIXED.iter().any(|(fixed, _)| *fixed == name) {
                return Err(format!("`{name}` can't be set: a message is committed after it is stored"));
            }
            config.set(name, value);
        }
        for (name, value) in FIXED {
            config.set(name, value);
        }
        for (name, purpose) in [("bootstrap.servers", "brokers"), ("group.id", "consumer group")] {
            if config.get(name).is_none_or(str::is_empty) {
                return Err(format!("no {purpose}: `{name}` is not set"));
            }
        }
        Ok(config)
    }
}

impl KafkaSource {
    /// Joins the group. Nothing is sent yet.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(settings: KafkaSettings, events: Arc<dyn Events>) -> Result<Self, String> {
        let context = Context { events, state: Mutex::default() };
        let consumer: StreamConsumer<Context> = settings.config()?.create_with_context(context).map_err(|error| error.to_string())?;
        let topics: Vec<&str> = settings.topics.iter().map(String::as_str).collect();
        consumer.subscribe(&topics).map_err(|error| error.to_string())?;
        Ok(Self { consumer: Arc::new(consumer), settings })
    }

    /// Stores messages until `stop`, or the end if that was asked for. What is being stored then is
    /// completed and committed first.
    ///
    /// # Errors
    /// [`IngestError`] if nothing can be stored or read.
    pub async fn run(self, pipeline: &Arc<Pipeline>, stop: &Notify) -> Result<(), IngestError> {
        let mut flight = Flight { tasks: JoinSet::new(), bytes: 0 };
        let mut ends = Ends::default();
        let mut looking: JoinSet<Vec<Looked>> = JoinSet::new();
        let mut check = tokio::time::interval(CHECK_EVERY);
        let context = Arc::clone(self.consumer.context());
        let (mut checking, over) = (JoinSet::new(), Over::default());
        if self.settings.until_end {
            self.check_brokers(&mut checking, &over);
        }
        let received = loop {
            tokio::select! {
                biased;
                () = stop.notified() => break self.stopped(),
                Some(done) = flight.tasks.join_next(), if !flight.tasks.is_empty() => {
                    if let Err(error) = self.finish(&mut flight, done) {
                        break Err(error);
                    }
                }
                Some(looked) = looking.join_next(), if !looking.is_empty() => {
                    self.report_gaps(looked.unwrap_or_default(), pipeline);
                }
                Some(checked) = checking.join_next(), if !checking.is_empty() => {
                    if let Ok(Err(error)) = checked {
                        let why = context.state().last_broker_error.take().unwrap_or_else(|| error.to_string());
                        let within = FIRST_ANSWER.as_secs();
                        break Err(IngestError::Refused(format!("no Kafka broker answered within {within} s: {why}; check --brokers")));
                    }
                }
                _ = check.tick() => {
                    if let Some(why) = context.state().refused.take() {
                        break Err(IngestError::Refused(why));
                    }
                    let fresh = std::mem::take(&mut context.state().fresh);
                    if !fresh.is_empty() {
                        tokio::select! {
                            () = stop.notified() => break self.stopped(),
                            looked = ends.look_at(fresh, &self.consumer, pipeline) => looked?,
                        }
                    }
                    if looking.is_empty() {
                        self.look_at_gaps(&mut looking);
                    }
                    if self.settings.until_end && looking.is_empty() && self.has_ended(&ends) {
                        // What is missing at the ends was deleted, or is markers of transactions.
                        if !ends.note_tails(&mut context.state()) {
                            break Ok(());
                        }
                    }
                }
                message = self.consumer.recv(), if flight.bytes < self.settings.buffer_bytes => match message {
                    Ok(message) => {
                        if flight.begin(&message, pipeline, &context) {
                            // What was stored for the earlier topic must not be committed.
                            self.store_offset(message.topic(), message.partition(), message.offset());
                        }
                    }
                    Err(KafkaError::PartitionEOF(partition)) => drop(context.state().reached.insert(partition)),
                    Err(error) => if let Some(error) = self.problem(&error, &context) {
                        break Err(error);
                    },
                }
            }
        };
        drop(over);
        // Attempts that failed so far end; others are completed.
        pipeline.sink.stop();
        let mut result = received;
        while let Some(done) = flight.tasks.join_next().await {
            match self.finish(&mut flight, done) {
                Ok(()) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        while let Some(looked) = looking.join_next().await {
            self.report_gaps(looked.unwrap_or_default(), pipeline);
        }
        let consumer = Arc::clone(&self.consumer);
        let committed = tokio::task::spawn_blocking(move || consumer.commit_consumer_state(CommitMode::Sync)).await;
        match committed {
            Ok(Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset))) => {}
            Ok(Err(error)) => {
                let why = format!("the offsets were not committed ({error}); what is stored will be delivered again, and not stored twice");
                result = result.and(Err(IngestError::Refused(why)));
            }
            Err(error) => tracing::debug!("commit: {error}"),
        }
        result
    }

    /// Checks that some broker answers at all. A broker that stops later is waited for; one that
    /// never answers is most likely misspelt.
    fn check_brokers(&self, checking: &mut JoinSet<KafkaResult<()>>, over: &Over) {
        let (asked, is_over) = (Arc::clone(&self.consumer), Arc::clone(&over.0));
        checking.spawn_blocking(move || {
            let began = Instant::now();
            loop {
                let answer = asked.fetch_metadata(None, ATTEMPT);
                // The answer to this question may wait behind messages.
                let has_answered = answer.is_ok() || asked.context().state().has_answered;
                match answer {
                    Err(error) if !has_answered && began.elapsed() >= FIRST_ANSWER => return Err(error),
                    // An attempt may fail at once.
                    Err(_) if !has_answered && !is_over.load(Ordering::Relaxed) => std::thread::sleep(CHECK_EVERY),
                    _ => return Ok(()),
                }
            }
        });
    }

    /// What being stopped means: it is the only end, unless another was asked for.
    fn stopped(&self) -> Result<(), IngestError> {
        if self.settings.until_end { Err(IngestError::Stopped) } else { Ok(()) }
    }

    /// A task ended.
    fn finish(&self, flight: &mut Flight, done: Result<Done, tokio::task::JoinError>) -> Result<(), IngestError> {
        let done = done.map_err(|error| IngestError::Refused(error.to_string()))?;
        flight.bytes -= done.bytes;
        done.result?;
        let next = self.consumer.context().state().offsets.end(&done.topic, done.partition, done.offset, done.generation);
        if let Some(next) = next {
            self.store_offset(&done.topic, done.partition, next);
        }
        Ok(())
    }

    /// Stores an offset for the next commit.
    fn store_offset(&self, topic: &str, partition: i32, next: i64) {
        let mut list = TopicPartitionList::new();
        let listed = list.add_partition_offset(topic, partition, Offset::Offset(next));
        // The partition may have been taken away meanwhile.
        if let Err(error) = listed.and_then(|()| self.consumer.store_offsets(&list)) {
            tracing::debug!("{topic} {partition}: {error}");
        }
    }

    /// Asks where partitions with missing offsets begin. The question waits behind a fetch, so it
    /// is asked on another thread, once for each partition.
    fn look_at_gaps(&self, looking: &mut JoinSet<Vec<Looked>>) {
        let gaps = std::mem::take(&mut self.consumer.context().state().gaps);
        if gaps.is_empty() {
            return;
        }
        let asked = Arc::clone(&self.consumer);
        looking.spawn_blocking(move || {
            let ask = |(position, ranges): (Position, Vec<(i64, i64)>)| {
                let low = asked.fetch_watermarks(&position.0, position.1, TIMEOUT).ok().map(|(low, _)| low);
                Looked { position, ranges, low }
            };
            gaps.into_iter().map(ask).collect()
        });
    }

    /// Reports messages of missing offsets that were deleted before they were read. Others were
    /// compacted, or are markers of transactions.
    fn report_gaps(&self, looked: Vec<Looked>, pipeline: &Pipeline) {
        for Looked { position, ranges, low } in looked {
            let Some(low) = low else {
                self.consumer.context().state().gaps.entry(position).or_default().extend(ranges);
                continue;
            };
            for (from, to) in ranges.into_iter().filter(|(from, _)| *from < low) {
                report_deleted(&position, from, low.min(to), pipeline);
            }
        }
    }

    /// What to do about an error of the consumer: `None` to go on.
    fn problem(&self, error: &KafkaError, context: &Context) -> Option<IngestError> {
        let refused = |why: String| Some(IngestError::Refused(format!("Kafka: {why}")));
        if let KafkaError::MessageConsumptionFatal(code) = error {
            return refused(code.to_string());
        }
        match error.rdkafka_error_code() {
            Some(
                code @ (RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed
                | RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::SaslAuthenticationFailed),
            ) => refused(code.to_string()),
            // The broker sends what its disk has, and the partition can't go on. The error doesn't
            // say which partition.
            Some(RDKafkaErrorCode::BadMessage) => refused(
                "the checksum of a message is wrong, so the broker's disk may be damaged; `--set check.crcs=false` reads such messages"
                    .to_owned(),
            ),
            Some(code @ (RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) if self.settings.until_end => {
                refused(format!("{code} ({})", self.settings.topics.join(", ")))
            }
            _ => {
                context.events.waiting(&format!("Kafka: {error}"));
                None
            }
        }
    }

    /// Whether all that the partitions had is received and stored.
    fn has_ended(&self, ends: &Ends) -> bool {
        let state = self.consumer.context().state();
        if !state.has_assignment || !state.fresh.is_empty() || !state.gaps.is_empty() || state.offsets.unfinished() > 0 {
            return false;
        }
        let assigned: Vec<Position> = state.assigned.iter().cloned().collect();
        let reached = state.reached.clone();
        drop(state);
        let Ok(positions) = self.consumer.position() else { return false };
        assigned.iter().all(|(topic, partition)| {
            let Some(end) = ends.of.get(&(topic.clone(), *partition)) else { return false };
            let position = positions.find_partition(topic, *partition).map(|element| element.offset());
            let next = match position {
                Some(Offset::Offset(next)) => next,
                _ => end.begin,
            };
            // Markers of transactions take offsets, but no message has them. The event doesn't
            // name the topic.
            let is_unique = assigned.iter().filter(|(_, other)| other == partition).count() == 1;
            next >= end.end || is_unique && reached.contains(partition)
        })
    }
}

/// Where partitions end.
#[derive(Default)]
struct Ends {
    of: HashMap<Position, End>,
}

struct End {
    begin: i64,
    end: i64,
    /// Whether messages that are missing at the end were asked for.
    is_settled: bool,
}

impl Ends {
    /// Notes offsets at the ends of partitions for which no message came, as gaps, once. Returns
    /// whether there are any.
    fn note_tails(&mut self, state: &mut State) -> bool {
        for ((topic, partition), end) in self.of.iter_mut().filter(|(position, end)| !end.is_settled && state.assigned.contains(*position))
        {
            end.is_settled = true;
            let next = state.offsets.next(topic, *partition).unwrap_or(end.begin);
            if next < end.end {
                state.gaps.entry((topic.clone(), *partition)).or_default().push((next, end.end));
            }
        }
        !state.gaps.is_empty()
    }

    /// Asks for the ends of partitions, and whether messages were deleted before they were read.
    async fn look_at(
        &mut self,
        partitions: Vec<Position>,
        consumer: &Arc<StreamConsumer<Context>>,
        pipeline: &Pipeline,
    ) -> Result<(), IngestError> {
        let asked = Arc::clone(consumer);
        let found = tokio::task::spawn_blocking(move || {
            let mut list = TopicPartitionList::new();
            for (topic, partition) in &partitions {
                list.add_partition(topic, *partition);
            }
            let committed = asked.committed_offsets(list, TIMEOUT);
            let mut found = Vec::new();
            let mut failure = None;
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
            match marks {
                Ok((low, high)) => {
                    if let Some(committed) = committed.filter(|&committed| committed < low) {
                        report_deleted(&position, committed, low, pipeline);
                    }
                    // An offset beyond the end is that of an earlier topic of this name: librdkafka
                    // starts over.
                    let begin = committed.filter(|committed| (low..=high).contains(committed)).unwrap_or(low);
                    self.of.insert(position, End { begin, end: high, is_settled: false });
                }
                Err(error) => {
                    pipeline.events.waiting(&format!("Kafka: {error}"));
                    consumer.context().state().fresh.push(position);
                }
            }
        }
        Ok(())
    }
}

/// Ends the check of the brokers with the run, however that ends.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Missing offsets of a partition, and its first offset now.
struct Looked {
    position: Position,
    ranges: Vec<(i64, i64)>,
    low: Option<i64>,
}

fn report_deleted((topic, partition): &Position, from: i64, to: i64, pipeline: &Pipeline) {
    let gone = to - from;
    let why = format!("{gone} messages from offset {from} on were deleted by the broker before they were read");
    pipeline.events.failed(&format!("{topic} {partition}"), &why);
    pipeline.counts.failed.fetch_add(gone.unsigned_abs(), std::sync::atomic::Ordering::Relaxed);
}

/// Messages that are being stored.
struct Flight {
    tasks: JoinSet<Done>,
    bytes: usize,
}

/// A message that was stored, or not.
struct Done {
    topic: String,
    partition: i32,
    offset: i64,
    generation: u64,
    bytes: usize,
    result: Result<(), IngestError>,
}

impl Flight {
    /// Begins to store a message. Returns whether its topic was created again since the last.
    fn begin(&mut self, message: &BorrowedMessage<'_>, pipeline: &Arc<Pipeline>, context: &Context) -> bool {
        let (topic, partition, offset) = (message.topic().to_owned(), message.partition(), message.offset());
        let mut state = context.state();
        let Begun { generation, expected, is_restart } = state.offsets.begin(&topic, partition, offset);
        if let Some(expected) = expected {
            state.gaps.entry((topic.clone(), partition)).or_default().push((expected, offset));
        }
        drop(state);
        let packet = Bytes::copy_from_slice(message.payload().unwrap_or_default());
        // Messages of a few bytes take memory, too.
        let bytes = packet.len() + 1024;
        self.bytes += bytes;
        let pipeline = Arc::clone(pipeline);
        let origin = Origin {
            name: format!("{topic} {partition} {offset}"),
            key: format!("{topic}/{partition}/{offset}"),
            metadata: vec![
                ("topic", topic.clone()),
                ("partition", partition.to_string()),
                ("offset", offset.to_string()),
                ("timestamp", message.timestamp().to_millis().unwrap_or_default().to_string()),
            ],
        };
        self.tasks.spawn(async move {
            let result = pipeline.store_packet(&packet, &origin).await;
            Done { topic, partition, offset, generation, bytes, result }
        });
        is_restart
    }
}
