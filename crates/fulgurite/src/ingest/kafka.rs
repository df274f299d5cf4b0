//! `fulgurite ingest kafka`.

use std::sync::Arc;

use anyhow::Result;
use fulgurite_ingest::{IngestError, KafkaSettings, KafkaSource};

use super::Kafka;
use crate::outcome::Misuse;
use crate::{Outcome, Session};

pub(super) fn kafka(session: &Session, asked: &Kafka) -> Result<Outcome> {
    let settings = KafkaSettings {
        properties: asked.properties()?,
        topics: asked.topics.clone(),
        buffer_bytes: asked.alerts.buffer_bytes()?,
        until_end: asked.until_end,
    };
    settings.check().map_err(Misuse)?;
    asked.alerts.run(session, &asked.bucket, asked.schemas()?, |pipeline, stop, reporter| async move {
        let source = KafkaSource::new(settings, Arc::clone(&reporter) as _).map_err(IngestError::Refused)?;
        source.run(&pipeline, &stop).await
    })
}
