//! `migrate recall`: files that users wait for go before the others.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_migration::run::database::{Database, DatabaseError, Recalled};
use fulgurite_places::location_of;
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
    names: Vec<OsString>,
    /// A file with a name on each line
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Names in the list end with a NUL byte instead of a line break, as `find -print0` writes them
    #[arg(long, short = '0', requires = "list")]
    null: bool,
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
    let mut recalling = Recalling { database: &mut migration.database, all: Recalled::default(), unknown: HashSet::new() };
    // The names on the command line are the first.
    let names: Vec<String> = asked.names.iter().map(|name| below(&location_of(name.as_bytes())).to_owned()).collect();
    recalling.recall(&names, Database::recall)?;
    if let (Some(path), Some(list)) = (&asked.list, list) {
        let mut names = Vec::new();
        for name in listed(list, asked.null) {
            names.push(name.with_context(|| text::path(path))?);
            if names.len() == BATCH {
                recalling.recall(&names, Database::recall_more)?;
                names.clear();
            }
        }
        recalling.recall(&names, Database::recall_more)?;
    }
    let Recalling { all, unknown, .. } = recalling;
    let unknown = unknown.len() as u64;
    session.answer(
        || json!({ "waiting": all.files, "written": all.written, "migrated": all.migrated, "failed": all.failed, "unknown": unknown }),
    );
    session.say(&match all.files {
        0 => "No waiting file has these names.".to_owned(),
        files => format!("{} be migrated first.", text::phrase(files, "file will", "files will")),
    });
    if all.written > 0 {
        let written = text::phrase(all.written, "file has", "files have");
        session.say(&format!("{written} been written to the destination, but not read back yet."));
    }
    if all.migrated > 0 {
        session.say(&format!("{} been migrated already.", text::phrase(all.migrated, "file has", "files have")));
    }
    if all.failed > 0 {
        let failed = text::phrase(all.failed, "file has", "files have");
        session.warn(&format!(
            "{failed} failed: `fulgurite migrate report` says why, and `migrate run --retry-failed` tries again; recall them then."
        ));
    }
    Ok(Outcome::troubled_if(unknown + all.failed > 0))
}

/// A name as `find .` prints it, without the folder itself.
fn below(name: &str) -> &str {
    name.strip_prefix("./").unwrap_or(name)
}

/// What was recalled so far.
struct Recalling<'a> {
    database: &'a mut Database,
    all: Recalled,
    /// Names that the inventory doesn't have.
    unknown: HashSet<String>,
}

/// Recalls names in one transaction.
type RecallNames = fn(&mut Database, &[String]) -> Result<Vec<Option<Recalled>>, DatabaseError>;

impl Recalling<'_> {
    fn recall(&mut self, names: &[String], recall: RecallNames) -> Result<()> {
        for (name, recalled) in names.iter().zip(recall(self.database, names)?) {
            if let Some(more) = recalled {
                self.all.files += more.files;
                self.all.written += more.written;
                self.all.migrated += more.migrated;
                self.all.failed += more.failed;
            } else if self.unknown.insert(name.clone()) {
                let value = json!({ "kind": "unknown", "name": name });
                diagnostics::write(&format!("{}: not in the inventory (a folder's name ends with a slash)", text::one_line(name)), &value);
            }
        }
        Ok(())
    }
}

/// The names of a list, without empty ones. Each ends with a NUL byte, or else with its line.
fn listed(list: impl BufRead + 'static, ends_with_nul: bool) -> Box<dyn Iterator<Item = io::Result<String>>> {
    let name = move |bytes: io::Result<Vec<u8>>| {
        let mut bytes = bytes?;
        if !ends_with_nul && bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        // Names in another encoding are written as folders list them.
        Ok(below(&location_of(&bytes)).to_owned())
    };
    let is_name = |name: &io::Result<String>| name.as_ref().map_or(true, |name| !name.is_empty());
    Box::new(list.split(if ends_with_nul { 0 } else { b'\n' }).map(name).filter(is_name))
}
