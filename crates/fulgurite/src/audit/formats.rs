//! `audit inventory` of bags, OCFL storage roots and archives.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use fulgurite_archive::Access;
use fulgurite_archive::catalogue::Versions;
use fulgurite_audit::copy::{Expected, NodeId};
use fulgurite_audit::database::Source;
use fulgurite_audit::inventory::{BagRows, Imported, InventoryError, LineProblem, OcflRows, Row};
use fulgurite_bagit::{Bag, Options};
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_ocfl::StorageRoot;

use super::inventory::{Into, explained, import_name, path_word, report};
use super::{Opened, now};
use crate::archive_place::files;
use crate::gaps::{find_gaps, say_gaps};
use crate::list::name_of;
use crate::outcome::Misuse;
use crate::text;
use crate::{Outcome, Session, diagnostics};

/// Stands for the name of a bag's folder in a prefix.
const BAG: &str = "{bag}";

#[derive(Debug, Args)]
pub(super) struct Bags {
    /// Folders of bags, on this machine
    #[arg(required = true, value_name = "FOLDER")]
    bags: Vec<PathBuf>,
    #[command(flatten)]
    into: Into,
    /// Where the node has a bag; {bag} stands for the name of its folder. An empty prefix means
    /// that the node's place is the bag itself. Default: {bag}
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Root {
    /// A storage root, on this machine
    root: PathBuf,
    #[command(flatten)]
    into: Into,
    /// Where the node has the storage root. Default: at its place itself
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Objects {
    /// Only objects below this name
    name: Option<OsString>,
    #[command(flatten)]
    into: Into,
    /// What locations begin with, before the object's name. Default: nothing
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

/// Rows that can't be imported are reported and counted, and the others are imported.
#[derive(Default)]
pub(super) struct Tolerant {
    pub(super) faults: u64,
    /// True if a name led out of the node's folder.
    pub(super) has_outside_names: bool,
}

/// Rows that are reported, so that the wrong file doesn't fill the terminal.
const MOST_REPORTED: u64 = 1_000;

impl Tolerant {
    pub(super) fn import(
        &mut self,
        opened: &mut Opened,
        source: Source<'_>,
        nodes: &[NodeId],
        replace: bool,
        rows: &mut dyn Iterator<Item = Result<Row, InventoryError>>,
    ) -> Result<Imported> {
        let mut rows = rows.filter(|row| match row {
            Err(
                error @ (InventoryError::BagFinding { .. }
                | InventoryError::UnlistedPayload { .. }
                | InventoryError::OcflObject(_)
                | InventoryError::OcflRoot(_)
                | InventoryError::Line { .. }),
            ) => {
                self.faults += 1;
                self.has_outside_names |= matches!(error, InventoryError::Line { problem: LineProblem::OutsideName { .. }, .. });
                if self.faults <= MOST_REPORTED {
                    diagnostics::trouble(&format!("not imported: {error}"));
                }
                false
            }
            _ => true,
        });
        let imported = opened.database.import(source, nodes, replace, now(), &mut rows).map_err(explained);
        if self.faults > MOST_REPORTED {
            diagnostics::trouble(&format!("{} more rows were not imported", self.faults - MOST_REPORTED));
        }
        imported
    }

    pub(super) fn outcome(&self, reported: Outcome) -> Outcome {
        reported.worst(Outcome::troubled_if(self.faults > 0))
    }
}

/// A prefix of locations, with a slash at its end unless it is empty.
fn folder_prefix(prefix: &str) -> String {
    if prefix.is_empty() || prefix.ends_with('/') { prefix.to_owned() } else { format!("{prefix}/") }
}

/// The nodes that should have the files.
pub(super) fn nodes(opened: &Opened, into: &Into) -> Result<Vec<NodeId>> {
    Ok(opened.chosen(&into.nodes)?.iter().map(|node| node.id).collect())
}

pub(super) fn bagit(session: &Session, opened: &mut Opened, command: &Bags) -> Result<Outcome> {
    let prefix = command.prefix.as_deref().unwrap_or(BAG);
    if command.bags.len() > 1 && !prefix.contains(BAG) {
        return Err(Misuse(format!("with several bags, --prefix must contain {BAG}, so that their files stay apart")).into());
    }
    let nodes = nodes(opened, &command.into)?;
    let bags = command.bags.iter().map(|folder| Ok((Bag::open(folder.as_path())?, name_of_folder(folder)?)));
    let bags = bags.collect::<Result<Vec<(Bag, String)>>>()?;
    for (index, (bag, name)) in bags.iter().enumerate() {
        if let Some((other, _)) = bags[..index].iter().find(|(_, other)| other == name) {
            let (other, folder) = (text::path(other.root()), text::path(bag.root()));
            return Err(Misuse(format!("the files of {other} and {folder} would get the same names: rename one of the folders")).into());
        }
    }
    // One import of all bags: it is complete once the last one is.
    let mut rows = bags.iter().flat_map(|(bag, name)| -> Box<dyn Iterator<Item = Result<Row, InventoryError>>> {
        let location = folder_prefix(&prefix.replace(BAG, name));
        match BagRows::new(bag, &Options::default(), &format!("{name}/"), &location) {
            Ok(rows) => Box::new(rows),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    });
    let folders: Vec<String> = command.bags.iter().map(|folder| path_word(folder)).collect();
    let name = name_of_import("bagit", &folders, command.prefix.as_deref(), &command.into);
    let mut tolerant = Tolerant::default();
    let imported = tolerant.import(opened, Source::list(&name), &nodes, command.into.replace, &mut rows)?;
    Ok(tolerant.outcome(report(session, &imported)?))
}

/// What an import is called while it is unfinished.
fn name_of_import(command: &str, what: &[String], prefix: Option<&str>, into: &Into) -> String {
    let mut words = vec![command];
    words.extend(what.iter().map(String::as_str));
    words.extend(prefix.iter().flat_map(|prefix| ["--prefix", prefix]));
    import_name(&words, &into.nodes, into.replace)
}

fn name_of_folder(folder: &Path) -> Result<String> {
    let full = folder.canonicalize().with_context(|| text::path(folder))?;
    let name = full.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("the name of {} is not UTF-8, or it has none", text::path(folder)))
}

pub(super) fn ocfl(session: &Session, opened: &mut Opened, command: &Root) -> Result<Outcome> {
    let nodes = nodes(opened, &command.into)?;
    let root = StorageRoot::open(&command.root)?;
    let prefix = folder_prefix(command.prefix.as_deref().unwrap_or_default());
    let mut tolerant = Tolerant::default();
    let name = name_of_import("ocfl", &[path_word(&command.root)], command.prefix.as_deref(), &command.into);
    let imported = tolerant.import(opened, Source::list(&name), &nodes, command.into.replace, &mut OcflRows::new(&root, &prefix))?;
    Ok(tolerant.outcome(report(session, &imported)?))
}

pub(super) fn archive(session: &Session, opened: &mut Opened, command: &Objects) -> Result<Outcome> {
    let nodes = nodes(opened, &command.into)?;
    let archive = session.open(Access::Read)?;
    let name = command.name.as_deref().map_or_else(Vec::new, name_of);
    let below = if name.is_empty() { Vec::new() } else { [&name[..], b"/"].concat() };
    let prefix = folder_prefix(command.prefix.as_deref().unwrap_or_default());
    let mut unnamed = 0_u64;
    let mut rows = files(&archive, &below).filter_map(|row| {
        let row = match row {
            Ok(row) => row,
            Err(error) => return Some(Err(InventoryError::List(error.into()))),
        };
        let Ok(name) = String::from_utf8(row.record.name.0.clone()) else {
            unnamed += 1;
            diagnostics::trouble(&format!("not imported: {}: its name is not UTF-8", row.record.name.display()));
            return None;
        };
        let digests = Digest::new(Algorithm::Sha256, &row.record.sha256.0).into_iter().collect();
        let location = (!prefix.is_empty()).then(|| format!("{prefix}{name}"));
        Some(Ok(Row { name, expected: Expected { bytes: Some(row.record.size), digests }, location, node: None }))
    });
    let mut tolerant = Tolerant::default();
    let mut words = vec!["--archive".to_owned(), path_word(&session.home()?)];
    words.extend(command.name.as_deref().map(|name| text::path(Path::new(name))));
    let import = name_of_import("archive", &words, command.prefix.as_deref(), &command.into);
    let imported = tolerant.import(opened, Source::list(&import), &nodes, command.into.replace, &mut rows);
    drop(rows);
    let imported = imported?;
    tolerant.faults += unnamed;
    let reported = tolerant.outcome(report(session, &imported)?);
    Ok(reported.worst(say_gaps(&find_gaps(&archive, &name, Versions::Newest)?, "more may be stored than was imported")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_with_a_slash() {
        assert_eq!(["", "a", "a/b/"].map(folder_prefix), ["", "a/", "a/b/"]);
    }
}
