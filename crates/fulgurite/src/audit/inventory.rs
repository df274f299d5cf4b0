//! `audit inventory`: lists of files that should be at nodes.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fulgurite_audit::copy::NodeId;
use fulgurite_audit::inventory::{Columns, Conflict, Csv, Imported, listing};
use fulgurite_digest::Algorithm;
use serde_json::json;

use super::{Opened, now, place};
use crate::outcome::Misuse;
use crate::{Outcome, Session, diagnostics, text};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Import a CSV or TSV file whose first line names the columns
    ///
    /// A file's name is in the column `name`, `path`, `key` or `file`; its length in `bytes`,
    /// `size` or `length`; a digest in a column called after its algorithm (md5, sha1, sha256,
    /// sha512, blake2b-512 and so on), or in `digest` or `checksum` beside `algorithm`; where it is
    /// at its node in `location`; its node in `node`. Other columns are ignored.
    Csv {
        /// The file; - means standard input
        file: PathBuf,
        #[command(flatten)]
        into: Into,
        /// Column of the name
        #[arg(long, value_name = "COLUMN")]
        name_column: Option<String>,
        /// Column of the length
        #[arg(long, value_name = "COLUMN")]
        bytes_column: Option<String>,
        /// Column of the digest, with its algorithm
        #[arg(long, value_name = "COLUMN=ALGORITHM", value_parser = parse_digest_column)]
        digest_column: Option<(String, Algorithm)>,
        /// Column of the location
        #[arg(long, value_name = "COLUMN")]
        location_column: Option<String>,
        /// Column of the node
        #[arg(long, value_name = "COLUMN")]
        node_column: Option<String>,
    },
    /// Import bags: the files that their manifests list, and the tag files beside the payload
    ///
    /// A file is called by the name of the bag's folder and its path in the bag, such as
    /// bag/data/x. No content is read. A tag file that no tag manifest lists has no digest yet; the
    /// first reading records it.
    Bagit(super::formats::Bags),
    /// Import an OCFL storage root: the content files of all versions of its objects
    ///
    /// A file is called by the object's identifier and its content path, such as
    /// ID/v1/content/x. No content is read, and inventories are not audited themselves.
    Ocfl(super::formats::Root),
    /// Import the files of the archive, as its catalogue knows them: names, lengths and SHA-256
    ///
    /// For copies of them at other nodes, or for a node that is an archive.
    Archive(super::formats::Objects),
    /// Import what a node lists: a beginning where no inventory exists
    ///
    /// Names and lengths are known then, but no digests: the first reading of each file records its
    /// digest, and a second one a day later is the first that verifies it.
    Listing {
        /// The node that is listed
        node: String,
        /// Replace what is known of files with what the listing says
        #[arg(long)]
        replace: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct Into {
    /// A node that should have the files; repeat the option for several. Default: all nodes.
    /// Rows that name a node are for that node only
    #[arg(long = "node", value_name = "NAME")]
    pub(super) nodes: Vec<String>,
    /// Where a row contradicts what is known, take the row, and check the file's copies anew
    #[arg(long)]
    pub(super) replace: bool,
}

fn parse_digest_column(text: &str) -> Result<(String, Algorithm), String> {
    let (column, algorithm) = text.split_once('=').ok_or("expected COLUMN=ALGORITHM")?;
    Ok((column.to_owned(), algorithm.parse().map_err(|error: fulgurite_digest::UnknownAlgorithm| error.to_string())?))
}

pub(super) fn inventory(session: &Session, opened: &mut Opened, command: &Command) -> Result<Outcome> {
    match command {
        Command::Csv { file, into, name_column, bytes_column, digest_column, location_column, node_column } => {
            let columns = Columns {
                name: name_column.clone(),
                bytes: bytes_column.clone(),
                digest: digest_column.clone(),
                location: location_column.clone(),
                node: node_column.clone(),
            };
            csv(session, opened, file, into, &columns)
        }
        Command::Bagit(bags) => super::formats::bagit(session, opened, bags),
        Command::Ocfl(root) => super::formats::ocfl(session, opened, root),
        Command::Archive(objects) => super::formats::archive(session, opened, objects),
        Command::Listing { node, replace } => {
            let node = opened.node(node)?.clone();
            let place = place(&node)?;
            let database = &mut opened.database;
            let imported = listing(&*place, node.id, |rows| database.import(&[], *replace, now(), rows))?;
            report(session, &imported)
        }
    }
}

fn csv(session: &Session, opened: &mut Opened, file: &Path, into: &Into, columns: &Columns) -> Result<Outcome> {
    let nodes: Vec<NodeId> = opened.chosen(&into.nodes)?.iter().map(|node| node.id).collect();
    let known: Vec<(String, NodeId)> = opened.nodes.iter().map(|node| (node.name.clone(), node.id)).collect();
    let find = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, id)| *id);
    let (path, source): (&Path, Box<dyn Read>) = if file == Path::new("-") {
        (Path::new("standard input"), Box::new(stdin().lock()))
    } else {
        (file, Box::new(File::open(file).map_err(|error| Misuse(format!("can't open {}: {error}", text::path(file))))?))
    };
    let mut rows = Csv::new(path, source, columns, &find)?;
    let imported = opened.database.import(&nodes, into.replace, now(), &mut rows).context("the rows before this one were imported")?;
    report(session, &imported)
}

pub(super) fn report(session: &Session, imported: &Imported) -> Result<Outcome> {
    session.say(&format!(
        "Read {}: {} and {} are new, {} changed.",
        text::count(imported.rows, "row"),
        text::count(imported.files, "file"),
        text::phrase(imported.copies, "copy", "copies"),
        text::count(imported.changed, "file"),
    ));
    for conflict in &imported.conflicting {
        let Conflict { name, known, listed } = conflict;
        let what = match known.contradicts(listed) {
            true => format!("{known} are known, and the list has {listed}"),
            false => "the list has another location".into(),
        };
        diagnostics::trouble(&format!("{} contradicts what is known, and was left as it is: {what}", text::one_line(name)));
    }
    if imported.conflicts > imported.conflicting.len() as u64 {
        diagnostics::trouble(&format!("{} more contradict what is known", imported.conflicts - imported.conflicting.len() as u64));
    }
    session.answer(|| {
        json!({
            "rows": imported.rows,
            "files": imported.files,
            "copies": imported.copies,
            "changed": imported.changed,
            "conflicts": imported.conflicts,
        })
    });
    Ok(Outcome::troubled_if(imported.conflicts > 0))
}
