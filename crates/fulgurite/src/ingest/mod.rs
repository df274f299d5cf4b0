//! `fulgurite ingest`: puts alerts and files into a bucket, with the crate `ingest`.
//!
//! Exit status: 0 if everything that was read is stored; 1 if there are dead letters, something
//! could not be read, or the command failed or was stopped before its end; 2 for wrong arguments.

mod folder;
#[cfg(feature = "kafka")]
mod kafka;
mod report;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use fulgurite_ingest::avro::Schema;
use fulgurite_ingest::{Alerts, IngestError, Pattern, Pipeline, Recipe, Registry, Schemas, Sink, check_prefix};
use fulgurite_settings::Dimension;
use tokio::sync::Notify;

use crate::bucket::BucketArgs;
use crate::outcome::Misuse;
use crate::{Outcome, Session, diagnostics, signals};

#[derive(Debug, Args)]
pub(crate) struct Ingest {
    #[command(subcommand)]
    source: Source,
}

#[derive(Debug, Subcommand)]
enum Source {
    /// Store the cutouts of alerts that arrive in Kafka
    ///
    /// Reads alerts in Avro and puts their cutouts, and if wanted whole packets, into a bucket. A
    /// message's offset is committed after everything in it was stored. An alert that is delivered
    /// again is not stored again. Without --until-end, runs until it is stopped
    #[cfg_attr(not(feature = "kafka"), command(after_help = WITHOUT_KAFKA))]
    Kafka(Box<Kafka>),
    /// Store alerts and FITS files from folders
    ///
    /// Reads files that end in .avro (alerts), .fits, .fit, .fts and compressed FITS (stored as
    /// they are), and archives of such files that end in .tar, .tar.gz and .tgz. Files that are in
    /// the bucket already are compared, not stored again: run it again to resume
    Folder(Box<folder::Folder>),
}

/// Why `ingest kafka` doesn't work in this program.
#[cfg(not(feature = "kafka"))]
const WITHOUT_KAFKA: &str =
    "this program was built without Kafka: build it with `cargo build --release --features kafka` (docs/ingest.md says what that needs)";

#[derive(Debug, Args)]
struct Kafka {
    /// A topic; `^` begins a regular expression. Repeat it for several
    #[arg(long = "topic", required = true, value_name = "NAME")]
    topics: Vec<String>,
    /// Brokers, as HOST:PORT with commas between
    #[arg(long, value_name = "LIST")]
    brokers: Option<String>,
    /// Consumer group. Several commands with one group share the partitions. Default: that of
    /// --config or --set, or fulgurite
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// A file with a setting of librdkafka on each line, such as ssl.ca.location=/etc/ca.pem
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting of librdkafka. Repeat it for several; overrides --config
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Connect to the brokers with TLS
    #[arg(long)]
    tls: bool,
    /// Certificate authorities to trust for the brokers, in PEM form. Implies --tls
    #[arg(long, value_name = "FILE")]
    broker_ca_file: Option<PathBuf>,
    /// Log in to the brokers under this name, with the password in KAFKA_PASSWORD
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// How to log in
    #[arg(long, default_value = "SCRAM-SHA-512", value_name = "MECHANISM")]
    sasl: String,
    /// Schema registry, for packets that begin with the number of their schema. The name and
    /// password are read from SCHEMA_REGISTRY_USER_INFO as NAME:PASSWORD
    #[arg(long, value_name = "URL", conflicts_with = "schema")]
    registry: Option<String>,
    /// Certificate authorities to trust for the registry, in PEM form
    #[arg(long, value_name = "FILE", requires = "registry")]
    registry_ca_file: Option<String>,
    /// A file with the Avro schema of all packets, for packets without one
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// With --schema: packets begin with five bytes that number their schema, as in a registry
    #[arg(long, requires = "schema")]
    schema_header: bool,
    /// Stop once everything is stored that the topics contained at the beginning
    #[arg(long)]
    until_end: bool,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    bucket: BucketArgs,
}

/// What to store of alerts, and how.
#[derive(Debug, Args)]
struct AlertArgs {
    /// Keys of cutouts, with fields of the alert in braces; {field} is the name of the cutout
    #[arg(long, default_value = "{objectId}/{candid}/{field}", value_name = "PATTERN")]
    key: String,
    /// A field with a cutout. Repeat it for several. Default: those whose names begin with cutout
    #[arg(long = "field", value_name = "NAME")]
    fields: Vec<String>,
    /// Also store whole packets as they were delivered, under keys of this pattern
    #[arg(long, value_name = "PATTERN")]
    packet: Option<String>,
    /// Store only packets, no cutouts
    #[arg(long, requires = "packet", conflicts_with = "fields")]
    packets_only: bool,
    /// Prefix of keys for packets and files that can't be stored as they should
    #[arg(long, default_value = "_dead-letters/", value_name = "PREFIX")]
    dead_letters: String,
    /// Number of connections to the server
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// Maximum size of what is being stored at once
    #[arg(long, default_value = "64 MiB", value_name = "SIZE")]
    buffer: String,
}

pub(crate) fn ingest(session: &Session, asked: &Ingest) -> Result<Outcome> {
    match &asked.source {
        #[cfg(feature = "kafka")]
        Source::Kafka(asked) => kafka::kafka(session, asked),
        #[cfg(not(feature = "kafka"))]
        Source::Kafka(asked) => {
            asked.check()?;
            Err(Misuse(WITHOUT_KAFKA.to_owned()).into())
        }
        Source::Folder(asked) => folder::folder(session, asked),
    }
}

impl AlertArgs {
    fn recipe(&self) -> Result<Recipe> {
        let fields = match (self.packets_only, self.fields.is_empty()) {
            (true, _) => Some(Vec::new()),
            (false, true) => None,
            (false, false) => Some(self.fields.clone()),
        };
        let pattern = |name: &str, text: &str| Pattern::parse(text).map_err(|error| Misuse(format!("{name}: {error}")));
        let recipe = Recipe {
            key: pattern("--key", &self.key)?,
            fields,
            packet: self.packet.as_deref().map(|text| pattern("--packet", text)).transpose()?,
        };
        recipe.check().map_err(|error| Misuse(error.to_string()))?;
        check_prefix(&self.dead_letters).map_err(|error| Misuse(format!("--dead-letters: {error}")))?;
        Ok(recipe)
    }

    fn buffer_bytes(&self) -> Result<usize> {
        let bytes = Dimension::Size.parse_whole(&self.buffer).map_err(|error| Misuse(format!("--buffer: {error}")))?;
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX).max(1))
    }

    /// Runs an ingest on a runtime of its own, until it ends or is stopped.
    fn run<F>(
        &self,
        session: &Session,
        bucket: &BucketArgs,
        schemas: Schemas,
        run: impl FnOnce(Arc<Pipeline>, Arc<Notify>, Arc<report::Reporter>) -> F,
    ) -> Result<Outcome>
    where
        F: Future<Output = Result<(), IngestError>>,
    {
        let reporter = Arc::new(report::Reporter::new(session));
        let sink = Arc::new(Sink::new(bucket.server()?, self.connections as usize, Arc::clone(&reporter) as _));
        let alerts = Alerts::new(schemas, self.recipe()?);
        let pipeline = Arc::new(Pipeline::new(alerts, Arc::clone(&sink), self.dead_letters.clone(), Arc::clone(&reporter) as _));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("can't start threads")?;
        runtime.block_on(sink.check()).map_err(|why| anyhow::anyhow!(why))?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        signals::on_stop(None, move || stopped.notify_one())?;
        let begun = std::time::Instant::now();
        let showing = reporter.show(&pipeline);
        let result = runtime.block_on(run(Arc::clone(&pipeline), stop, Arc::clone(&reporter)));
        drop(showing);
        let outcome = report::report(session, &pipeline, begun.elapsed());
        match result {
            Ok(()) => Ok(outcome),
            Err(IngestError::Stopped) => {
                let why = "stopped; the same command goes on from here";
                // The answer doesn't say it.
                if session.json {
                    diagnostics::trouble(why)
                } else {
                    session.warn(why)
                }
                Ok(Outcome::Troubled)
            }
            Err(IngestError::Refused(why)) => Err(anyhow::anyhow!(why).context("stopped; the same command goes on from here")),
        }
    }
}

impl Kafka {
    /// Checks what doesn't need a broker.
    #[cfg(not(feature = "kafka"))]
    fn check(&self) -> Result<()> {
        self.properties()?;
        self.schemas()?;
        self.alerts.recipe()?;
        Ok(())
    }

    /// librdkafka's configuration.
    fn properties(&self) -> Result<Vec<(String, String)>> {
        // Values may be passwords, so errors don't repeat them.
        let parsed = |line: &str, place: &str| -> Result<(String, String), Misuse> {
            let (name, value) = line.split_once('=').ok_or_else(|| Misuse(format!("{place}: expected NAME=VALUE")))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let mut properties = vec![("group.id".to_owned(), "fulgurite".to_owned())];
        if let Some(path) = &self.config {
            let text = fs::read_to_string(path).map_err(|error| Misuse(format!("{}: {error}", path.display())))?;
            for (number, line) in text.lines().enumerate() {
                let line = line.trim();
                if !line.is_empty() && !line.starts_with('#') {
                    properties.push(parsed(line, &format!("{}:{}", path.display(), number + 1))?);
                }
            }
        }
        let mut add = |name: &str, value: &str| properties.push((name.to_owned(), value.to_owned()));
        if let Some(brokers) = &self.brokers {
            add("bootstrap.servers", brokers);
        }
        if let Some(group) = &self.group {
            add("group.id", group);
        }
        match (self.tls || self.broker_ca_file.is_some(), self.user.is_some()) {
            (false, false) => {}
            (true, false) => add("security.protocol", "ssl"),
            (false, true) => add("security.protocol", "sasl_plaintext"),
            (true, true) => add("security.protocol", "sasl_ssl"),
        }
        if let Some(file) = &self.broker_ca_file {
            add("ssl.ca.location", &file.to_string_lossy());
        }
        if let Some(user) = &self.user {
            let password = std::env::var("KAFKA_PASSWORD").map_err(|_| Misuse("--user: set KAFKA_PASSWORD".to_owned()))?;
            add("sasl.mechanisms", &self.sasl);
            add("sasl.username", user);
            add("sasl.password", &password);
        }
        for setting in &self.settings {
            properties.push(parsed(setting, "--set")?);
        }
        Ok(properties)
    }

    fn schemas(&self) -> Result<Schemas> {
        if let Some(url) = &self.registry {
            let user = std::env::var("SCHEMA_REGISTRY_USER_INFO").ok();
            let registry = Registry::new(url, user.as_deref(), self.registry_ca_file.as_deref());
            return Ok(Schemas::Registry(registry.map_err(|error| Misuse(format!("--registry: {error}")))?));
        }
        let Some(path) = &self.schema else { return Ok(Schemas::Embedded) };
        let wrong = |error: &dyn std::fmt::Display| Misuse(format!("{}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let schema = Schema::parse(&text).map_err(|error| wrong(&error))?;
        Ok(Schemas::File { schema, has_header: self.schema_header })
    }
}
