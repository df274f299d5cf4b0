//! `migrate recall`: files that users wait for go before the others.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_migration::run::database::Recalled;
use serde_json::json;

use super::folder::Migration;
use crate::outcome::Misuse;
use crate::{Outcome, Session, diagnostics, text};

/// Names that are recorded in one transaction.
const BATCH: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct Recall {
    /// The migration's folder
    folder: PathBuf,
    /// Names of files, relative to the source; a name that ends with a slash stands for all files
    /// below it
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// A file with a name on each line
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
}

pub(super) fn recall(session: &Session, asked: &Recall) -> Result<Outcome> {
    if asked.names.is_empty() && asked.list.is_none() {
        return Err(Misuse("name files, or a --list of them; see --help".to_owned()).into());
    }
    // A run may be going on: it looks for such files before each lot.
    let mut migration = Migration::look(&asked.folder)?;
    if !migration.has_inventory()? {
        bail!("no inventory was taken yet: `fulgurite migrate inventory` takes it");
    }
    let list = asked.list.as_ref().map(|path| File::open(path).map(BufReader::new).with_context(|| text::path(path))).transpose()?;
    let (mut all, mut unknown) = (Recalled::default(), 0_u64);
    let mut recall = |names: &mut Vec<String>| -> Result<()> {
        for (name, recalled) in names.iter().zip(migration.database.recall(names)?) {
            if let Some(more) = recalled {
                all.files += more.files;
                all.migrated += more.migrated;
                all.failed += more.failed;
            } else {
                unknown += 1;
                let value = json!({ "kind": "unknown", "name": name });
                diagnostics::write(&format!("{}: not in the inventory (a folder's name ends with a slash)", text::harmless(name)), &value);
            }
        }
        names.clear();
        Ok(())
    };
    recall(&mut asked.names.clone())?;
    if let (Some(path), Some(list)) = (&asked.list, list) {
        let mut names = Vec::new();
        for line in list.lines() {
            let name = line.with_context(|| text::path(path))?;
            if !name.is_empty() {
                names.push(name);
            }
            if names.len() == BATCH {
                recall(&mut names)?;
            }
        }
        recall(&mut names)?;
    }
    session.answer(|| json!({ "waiting": all.files, "migrated": all.migrated, "failed": all.failed, "unknown": unknown }));
    session.say(&match all.files {
        0 => "No waiting file has these names.".to_owned(),
        files => format!("{} be migrated first.", text::phrase(files, "file will", "files will")),
    });
    if all.migrated > 0 {
        session.say(&format!("{} been written to the destination already.", text::phrase(all.migrated, "file has", "files have")));
    }
    if all.failed > 0 {
        let failed = text::phrase(all.failed, "file has", "files have");
        session.warn(&format!(
            "{failed} failed: `fulgurite migrate report` says why, and `migrate run --retry-failed` tries again; recall them then."
        ));
    }
    Ok(Outcome::troubled_if(unknown + all.failed > 0))
}
