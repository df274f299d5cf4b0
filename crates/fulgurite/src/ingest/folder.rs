//! `fulgurite ingest folder`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use fulgurite_ingest::{FolderSettings, FolderSource, Pattern, Schemas};

use super::AlertArgs;
use crate::bucket::BucketArgs;
use crate::outcome::Misuse;
use crate::{Outcome, Session};

#[derive(Debug, Args)]
pub(super) struct Folder {
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Keys of FITS files: {path} is the path below the folder, or in the archive, and {name} the
    /// last part of it
    #[arg(long, default_value = "{path}", value_name = "PATTERN")]
    file_key: String,
    #[command(flatten)]
    alerts: AlertArgs,
    #[command(flatten)]
    bucket: BucketArgs,
}

pub(super) fn folder(session: &Session, asked: &Folder) -> Result<Outcome> {
    let file_key = Pattern::parse(&asked.file_key).map_err(|error| Misuse(format!("--file-key: {error}")))?;
    if let Some(other) = file_key.names().find(|name| !matches!(*name, "path" | "name")) {
        return Err(Misuse(format!("--file-key: expected {{path}} or {{name}}, found {{{other}}}")).into());
    }
    for path in &asked.paths {
        if !path.exists() {
            return Err(Misuse(format!("{}: there is no such file or folder", path.display())).into());
        }
    }
    let settings = FolderSettings { paths: asked.paths.clone(), file_key, buffer_bytes: asked.alerts.buffer_bytes()? };
    asked.alerts.run(session, &asked.bucket, Schemas::Embedded, |pipeline, stop, _| async move {
        FolderSource::new(settings).run(&pipeline, &stop).await
    })
}
