//! Alerts from Kafka.
//!
//! A message's offset is stored for the next commit once all of it is in the bucket, and all
//! messages before it. So after a crash at either side, messages are delivered again, but none is
//! skipped; and what is delivered again is found in the bucket and not stored twice.

mod context;
mod ends;
mod topics;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::context::{Context, Position, State};
use self::ends::{Ends, Looked, report_deleted};
use crate::offsets::Begun;
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
const FIXED: [(&str, &str); 4] = [
    ("enable.auto.commit", "true"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    // The log tells of topics that were created again before messages of them come.
    ("log.queue", "false"),
];
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
/// Milliseconds after which librdkafka tells the ends of partitions again.
const STATISTICS_MS: &str = "3000";
/// The same, where a command waits for them to end.
const STATISTICS_UNTIL_END_MS: &str = "200";
/// Partitions that an error names.
const NAMED: usize = 8;

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

    /// Whether a group without an offset begins with the oldest message.
    fn is_from_beginning(&self) -> bool {
        let asked = self.properties.iter().rev().find(|(name, _)| name == "auto.offset.reset");
        asked.is_none_or(|(_, value)| ["earliest", "beginning", "smallest"].contains(&value.as_str()))
    }

    fn config(&self) -> Result<ClientConfig, String> {
        let mut config = ClientConfig::new();
        config.set_log_level(RDKafkaLogLevel::Debug);
        for (name, value) in DEFAULTS {
            config.set(name, value);
        }
        for (name, value) in &self.properties {
            let name = ALIASES.iter().find(|(alias, _)| alias == name).map_or(name.as_str(), |(_, name)| name);
            if name == "statistics.interval.ms" || FIXED.iter().any(|(fixed, _)| *fixed == name) {
                return Err(format!("`{name}` can't be set: messages could be lost"));
            }
            config.set(name, value);
        }
        for (name, value) in FIXED {
            config.set(name, value);
        }
        config.set("statistics.interval.ms", if self.until_end { STATISTICS_UNTIL_END_MS } else { STATISTICS_MS });
        let debug = config.get("debug").map_or_else(|| topics::DEBUG.to_owned(), |asked| format!("{asked},{}", topics::DEBUG));
        config.set("debug", debug);
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
        let context = Context::new(events);
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
                    context.note_renewed();
                    let renewed = context.state().to_renew();
                    if let Some((topic, _)) = renewed.first().filter(|_| self.settings.until_end) {
                        let why = format!("Kafka: the topic {topic} was deleted and created again, so its end is another one");
                        break Err(IngestError::Refused(why));
                    }
                    if !renewed.is_empty() {
                        tokio::select! {
                            () = stop.notified() => break self.stopped(),
                            _ = self.start_over(true) => {}
                        }
                    }
                    let fresh = std::mem::take(&mut context.state().fresh);
                    if !fresh.is_empty() {
                        tokio::select! {
                            () = stop.notified() => break self.stopped(),
                            looked = ends.look_at(fresh, &self.consumer, self.settings.is_from_beginning(), pipeline) => looked?,
                        }
                    }
                    if let Some(why) = self.damage() {
                        break Err(IngestError::Refused(why));
                    }
                    // What is missing at the ends was deleted, or is markers of transactions.
                    let passed = context.state().pass_tails();
                    for ((topic, partition), next) in passed {
                        store_offset(&self.consumer, &topic, partition, next);
                    }
                    if looking.is_empty() {
                        self.look_at_gaps(&mut looking);
                    }
                    if self.settings.until_end && looking.is_empty() && ends.are_reached(&context.state(), &*pipeline.events) {
                        break Ok(());
                    }
                }
                message = self.consumer.recv(), if flight.bytes < self.settings.buffer_bytes => match message {
                    Ok(message) => {
                        context.note_renewed();
                        flight.begin(&message, pipeline, &context);
                    }
                    Err(KafkaError::PartitionEOF(partition)) => context.state().reach(partition),
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
        self.ask_for_ids().await;
        if let Some(why) = self.start_over(false).await {
            result = result.and(Err(IngestError::Refused(why)));
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
            store_offset(&self.consumer, &done.topic, done.partition, next);
        }
        Ok(())
    }

    /// Asks for the ids of topics, and notes those that were created again.
    async fn ask_for_ids(&self) {
        let asked = Arc::clone(&self.consumer);
        let asking = tokio::task::spawn_blocking(move || {
            let topics: BTreeSet<String> = asked.context().state().assigned.iter().map(|(topic, _)| topic.clone()).collect();
            // After one timeout, the others would time out too.
            topics.iter().all(|topic| asked.fetch_metadata(Some(topic), ATTEMPT).is_ok())
        });
        if !asking.await.unwrap_or_default() {
            tracing::debug!("no broker said whether topics were created again");
        }
        self.consumer.context().note_renewed();
    }

    /// Goes back to the beginning of topics that were created again, also with the committed
    /// offset: it may be that of the earlier topic. What fails is returned, and tried again by the
    /// next call.
    async fn start_over(&self, with_seek: bool) -> Option<String> {
        let renewed = self.consumer.context().state().to_renew();
        let consumer = Arc::clone(&self.consumer);
        let started = tokio::task::spawn_blocking(move || {
            let mut failed = None;
            for position in renewed {
                let (topic, partition) = &position;
                // Else the next automatic commit would go back to the one that is stored.
                store_offset(&consumer, topic, *partition, 0);
                let mut went = commit(&consumer, topic, *partition, 0);
                if with_seek {
                    went = went.and_then(|()| consumer.seek(topic, *partition, Offset::Beginning, TIMEOUT));
                }
                if let Err(error) = went {
                    let why = format!("Kafka: {topic} {partition} was created again: {error}");
                    consumer.context().events.waiting(&why);
                    failed = Some(why);
                    continue;
                }
                let mut state = consumer.context().state();
                state.renewed.remove(&position);
                state.offsets.forget(topic, *partition);
                // What was seen of its end meanwhile is of the earlier position.
                state.ends.remove(&position);
                state.offsets.expect(topic, *partition, 0);
            }
            failed
        });
        started.await.unwrap_or_else(|error| Some(error.to_string()))
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
            Some(code @ (RDKafkaErrorCode::BadMessage | RDKafkaErrorCode::BadCompression)) => {
                context.state().damaged = Some(code);
                None
            }
            Some(code @ (RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) if self.settings.until_end => {
                refused(format!("{code} ({})", self.settings.topics.join(", ")))
            }
            _ => {
                context.events.waiting(&format!("Kafka: {error}"));
                None
            }
        }
    }

    /// Why messages can't be read, once it is known where. The broker sends what its disk has, and
    /// the partition can't go on.
    fn damage(&self) -> Option<String> {
        let state = self.consumer.context().state();
        let damaged = state.damaged.filter(|_| state.fresh.is_empty())?;
        let positions = positions(&state);
        let (what, unchecked) = match damaged {
            RDKafkaErrorCode::BadCompression => ("messages can't be decompressed", ""),
            _ => ("the checksum of a message is wrong", " `--set check.crcs=false` reads such messages, unless they are compressed."),
        };
        Some(format!(
            "Kafka: {what}, so the broker's disk may be damaged: {positions}.{unchecked} To skip messages, set the group's offset after \
             them with kafka-consumer-groups.sh --reset-offsets"
        ))
    }
}

/// The partitions that may be meant by an error that doesn't name one, and where they are.
fn positions(state: &State) -> String {
    let place = |position: &Position| {
        let (topic, partition) = position;
        let next = state.next(position).map_or_else(|| "its end".to_owned(), |next| format!("offset {next}"));
        format!("{topic} {partition} at {next}")
    };
    let mut named: Vec<String> = state.assigned.iter().take(NAMED).map(place).collect();
    if state.assigned.len() > NAMED {
        named.push("others".to_owned());
    }
    named.join(" or ")
}

/// Stores an offset for the next commit.
fn store_offset(consumer: &StreamConsumer<Context>, topic: &str, partition: i32, next: i64) {
    let mut list = TopicPartitionList::new();
    let listed = list.add_partition_offset(topic, partition, Offset::Offset(next));
    // The partition may have been taken away meanwhile.
    if let Err(error) = listed.and_then(|()| consumer.store_offsets(&list)) {
        tracing::debug!("{topic} {partition}: {error}");
    }
}

/// Commits an offset now, even if a larger one was committed. Blocks.
fn commit(consumer: &StreamConsumer<Context>, topic: &str, partition: i32, next: i64) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(next))?;
    consumer.commit(&list, CommitMode::Sync)
}

/// Ends the check of the brokers with the run, however that ends.
#[derive(Default)]
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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
    /// Begins to store a message.
    fn begin(&mut self, message: &BorrowedMessage<'_>, pipeline: &Arc<Pipeline>, context: &Context) {
        let (topic, partition, offset) = (message.topic().to_owned(), message.partition(), message.offset());
        let mut state = context.state();
        // Its topic was created again, and is read from its beginning soon.
        let position = (topic.clone(), partition);
        if state.renewed.contains(&position) {
            return;
        }
        let Begun { generation, expected, is_restart } = state.offsets.begin(&topic, partition, offset);
        if is_restart {
            state.renew(|renewed| *renewed == position);
            return;
        }
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
    }
}
