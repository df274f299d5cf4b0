//! `audit inventory`: lists of files that should be at nodes.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use fulgurite_audit::copy::NodeId;
use fulgurite_audit::database::{DatabaseError, Source};
use fulgurite_audit::inventory::{Checksums, Columns, Conflict, Csv, Imported, InventoryError, Unread, listing};
use fulgurite_digest::Algorithm;
use serde_json::json;

use super::formats::Tolerant;
use super::matrix::command::quoted;
use super::{Opened, date, now, place};
use crate::outcome::Misuse;
use crate::{Outcome, Session, diagnostics, text};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Import a CSV or TSV file whose first line names the columns
    ///
    /// A file's name is in the column `name`, `path`, `key` or `file`; its length in `bytes`,
    /// `size` or `length`; a digest in a column called after its algorithm (md5, sha1, sha256,
    /// sha512, blake2b-512 and so on), or in `digest` or `checksum` beside `algorithm`; where it is
    /// at its node in `location`; its node in `node`. Other columns are ignored; those that look
    /// like digests are named.
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
    /// Import a list of checksums, as sha256sum, md5sum, b2sum or `rclone hashsum` print it
    ///
    /// Lines are `DIGEST  NAME`, with a backslash before the digest if the name is escaped, or
    /// `SHA256 (NAME) = DIGEST`. Comments (#) and empty lines are ignored, and `./` before a name
    /// is left out. Lengths are not known then: the first check of a file learns its length. Lines
    /// that can't be used are reported, and the others are imported.
    Checksums {
        /// The file; - means standard input
        file: PathBuf,
        #[command(flatten)]
        into: Into,
        /// Algorithm of digests without a tag. Default: by their length, MD5, SHA-1, SHA-224,
        /// SHA-256 or SHA-384; 128 digits are SHA-512 or BLAKE2b-512, so name one of these
        #[arg(long, value_name = "NAME", value_parser = parse_algorithm)]
        algorithm: Option<Algorithm>,
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
    /// Remove copies of files from the audit: they are gone on purpose
    ///
    /// Nothing is deleted at the nodes. The copies are no longer checked, counted or reported; what
    /// happened to them stays in the history. A list that contains the files adds them again.
    Remove(super::removal::Copies),
    /// Forget that an import wasn't completed: its list is obsolete, or complete elsewhere
    ///
    /// `audit status` names such an import and its number. Rows that it has imported stay. Only an
    /// interrupted first import is undone, as no copy can be checked before.
    Dismiss {
        /// The number of the import
        number: u64,
    },
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
    Ok((column.to_owned(), parse_algorithm(algorithm)?))
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    text.parse().map_err(|error: fulgurite_digest::UnknownAlgorithm| error.to_string())
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
        Command::Checksums { file, into, algorithm } => checksums(session, opened, file, into, *algorithm),
        Command::Remove(copies) => super::removal::copies(session, opened, copies),
        Command::Dismiss { number } => dismiss(session, opened, *number),
        Command::Bagit(bags) => super::formats::bagit(session, opened, bags),
        Command::Ocfl(root) => super::formats::ocfl(session, opened, root),
        Command::Archive(objects) => super::formats::archive(session, opened, objects),
        Command::Listing { node, replace } => {
            let node = opened.node(node)?.clone();
            let place = place(&node)?;
            let database = &mut opened.database;
            let name = import_name(&["listing", &node.name], &[], *replace);
            let imported = listing(&*place, node.id, |rows| database.import(Source::list(&name), &[], *replace, now(), rows));
            let imported = imported.map_err(explained)?;
            report(session, &imported)
        }
    }
}

/// Opens a list, or standard input, with the name that messages have for it.
pub(super) fn source(file: &Path) -> Result<(&Path, Box<dyn Read>)> {
    if file == Path::new("-") {
        return Ok((Path::new("standard input"), Box::new(stdin().lock())));
    }
    let opened = File::open(file).map_err(|error| Misuse(format!("can't open {}: {error}", text::path(file))))?;
    Ok((file, Box::new(opened)))
}

/// What an import is called while it is unfinished: its command. Options that decide only how its
/// list is read are left out.
pub(super) fn import_name(command: &[&str], nodes: &[String], replace: bool) -> String {
    let nodes = nodes.iter().flat_map(|node| ["--node", node]);
    let words = nodes.chain(replace.then_some("--replace"));
    // Options are words that begin with a dash.
    let word = |word: &str| if word.starts_with("--") { word.to_owned() } else { quoted(word) };
    command.iter().copied().chain(words).map(word).collect::<Vec<_>>().join(" ")
}

/// A path in the name of an import: the same list from any folder.
pub(super) fn path_word(path: &Path) -> String {
    text::path(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The name of the import of a list, and whether the list is a file. Standard input, and pipes such
/// as /dev/fd/63, may be another list each time.
fn import_of(command: &str, file: &Path, into: &Into) -> (String, bool) {
    let is_stdin = file == Path::new("-");
    let word = if is_stdin { "-".to_owned() } else { path_word(file) };
    (import_name(&[command, &word], &into.nodes, into.replace), !is_stdin && file.is_file())
}

/// Why an import failed, and what became of the rows before.
pub(super) fn explained(error: InventoryError) -> anyhow::Error {
    match error {
        InventoryError::Database(DatabaseError::ImportUnderWay) => error.into(),
        _ => anyhow::Error::new(error).context("the rows before this one were imported"),
    }
}

fn dismiss(session: &Session, opened: &mut Opened, number: u64) -> Result<Outcome> {
    if !opened.database.dismiss_import(number)? {
        return Err(Misuse(format!("no import {number} is unfinished; `fulgurite audit status` names those that are")).into());
    }
    session.say(&format!("Import {number} is dismissed."));
    session.answer(|| json!({ "dismissed": number }));
    Ok(Outcome::Good)
}

fn checksums(session: &Session, opened: &mut Opened, file: &Path, into: &Into, algorithm: Option<Algorithm>) -> Result<Outcome> {
    let nodes = super::formats::nodes(opened, into)?;
    let (path, source) = source(file)?;
    let mut tolerant = Tolerant::default();
    let (name, is_file) = import_of("checksums", file, into);
    let import = Source { name: &name, is_repeatable: is_file };
    let imported = tolerant.import(opened, import, &nodes, into.replace, &mut Checksums::new(path, source, algorithm))?;
    if imported.rows == 0 {
        let what = match (tolerant.has_outside_names, tolerant.faults) {
            (true, _) => "no line that can be used",
            (false, 0) => "no line with a checksum",
            (false, _) => "no line with a checksum; is it a CSV file, for `audit inventory csv`?",
        };
        bail!("{} contains {what}", text::path(path));
    }
    Ok(tolerant.outcome(report(session, &imported)?))
}

/// Names digests of a CSV file that are left out.
fn note_unread(unread: &Unread) {
    let named = "name it with --digest-column COLUMN=ALGORITHM";
    let columns = || unread.columns.iter().map(|column| text::one_line(column)).collect::<Vec<_>>().join(", ");
    match (unread.columns.is_empty(), unread.no_digests) {
        (true, false) => {}
        (true, true) => diagnostics::note(&format!(
            "no column contains digests, so the first reading of each file records its digest; if one does, {named}"
        )),
        (false, true) => diagnostics::note(&format!(
            "no column contains digests of a known algorithm, so the first reading of each file records its digest; ignored: {}; \
             if one has a known algorithm, {named}",
            columns()
        )),
        (false, false) => diagnostics::note(&format!(
            "columns that look like digests are ignored: {}; to read one of a known algorithm instead, {named}",
            columns()
        )),
    }
}

fn csv(session: &Session, opened: &mut Opened, file: &Path, into: &Into, columns: &Columns) -> Result<Outcome> {
    let nodes: Vec<NodeId> = opened.chosen(&into.nodes)?.iter().map(|node| node.id).collect();
    let known: Vec<(String, NodeId)> = opened.nodes.iter().map(|node| (node.name.clone(), node.id)).collect();
    let find = |name: &str| known.iter().find(|(known, _)| known == name).map(|(_, id)| *id);
    let (path, source) = source(file)?;
    let mut rows = Csv::new(path, source, columns, &find)?;
    note_unread(rows.unread_digests());
    let (name, is_file) = import_of("csv", file, into);
    let import = Source { name: &name, is_repeatable: is_file };
    let imported = opened.database.import(import, &nodes, into.replace, now(), &mut rows).map_err(explained)?;
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
    for earlier in &imported.completed {
        session.say(&format!("The import that began {} wasn't completed; this one replaces it.", date(earlier.began_at)));
    }
    session.answer(|| {
        json!({
            "rows": imported.rows,
            "files": imported.files,
            "copies": imported.copies,
            "changed": imported.changed,
            "conflicts": imported.conflicts,
            "completed_imports": imported.completed.iter().map(|import| import.number).collect::<Vec<_>>(),
        })
    });
    Ok(Outcome::troubled_if(imported.conflicts > 0))
}
