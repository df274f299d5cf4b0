//! The commands of `fulgurite audit`, on the crate `audit`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use fulgurite_audit::copy::NodeId;
use fulgurite_audit::database::{AuditDatabase, Postgres, RemovedNode, Sqlite};
use fulgurite_audit::node::Node;
use fulgurite_places::Place;

use crate::archive_place::ArchivePlace;
use crate::outcome::Misuse;
use crate::{Outcome, Session};

mod export;
mod formats;
mod history;
mod identity;
mod inventory;
mod matrix;
mod names;
mod nodes;
mod premis;
mod read;
mod removal;
mod repair;
mod report;
mod run;
mod status;

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The audit's database: a file, or postgres://user@host/database for several workers
    ///
    /// A password for PostgreSQL is taken from PGPASSWORD, from a password file (PGPASSFILE or
    /// ~/.pgpass), or from ?password=env:NAME or ?password=file:PATH in the address.
    #[arg(long, global = true, env = "FULGURITE_AUDIT", default_value = "audit.db", value_name = "FILE|URL")]
    database: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create the database of an audit
    Init,
    /// Add, change, list or remove nodes: places where copies are
    #[command(subcommand)]
    Node(nodes::Command),
    /// Import a list of files that should be at nodes, or remove files from it
    ///
    /// An inventory can be imported again: files and copies that are known stay as they are. A row
    /// that contradicts what is known is reported and changes nothing, unless --replace is given.
    #[command(subcommand)]
    Inventory(inventory::Command),
    /// Check copies that are due, longest due first, with a lane of its own for each node
    ///
    /// A copy is declared lost or wrong only if a second reading by a fresh connection finds the
    /// same, and the node still returns a copy that it had before. Results are stored at once, so
    /// that an interrupted run can be continued.
    ///
    /// Without --for and --forever, the run ends when everything that is due now has been tried. A
    /// node that keeps failing is given up for this run; its other copies stay due.
    Run(run::Run),
    /// Show copies by node and state, how old their verification is, and whether the audit keeps up
    Status,
    /// Report on all nodes: a mail on standard output, or files for people and monitoring
    ///
    /// The first line says whether all is well: every copy is verified, none is overdue, no
    /// slowdown is open, and each cycle ends within its interval. Only then is the exit status 0.
    Report(report::Report),
    /// List copies that are lost or wrong, or could not be read
    Problems(status::Problems),
    /// Show all copies of a file and everything that happened to them
    History {
        /// The file's name, as in the inventory
        name: String,
    },
    /// Rewrite copies that are lost or wrong from copies that verify
    Repair(repair::Repair),
    /// Write the history of checks, as CSV, JSON lines or PREMIS
    Export(export::Export),
    /// Read known files on schedule, and judge how long it takes: the benchmark matrix
    #[command(subcommand)]
    Matrix(matrix::Command),
    /// Write the bytes of a copy to standard output, without checking them
    Read(read::Copy),
    /// Print a URL from which anyone can read a copy for a while, if its node signs URLs
    Url {
        #[command(flatten)]
        copy: read::Copy,
        /// How long the URL is valid, such as 15m or 1d; at most 7d
        #[arg(long, value_name = "TIME", default_value = "15m", value_parser = run::parse_time)]
        valid: std::time::Duration,
    },
}

/// The database of an audit, with its nodes.
struct Opened {
    database: Box<dyn AuditDatabase>,
    nodes: Vec<Node>,
    removed: Vec<RemovedNode>,
}

pub(crate) fn audit(session: &Session, audit: &Audit) -> Result<Outcome> {
    let path = &audit.database;
    match &audit.command {
        Command::Init => init(session, path),
        Command::Node(command) => nodes::node(session, &mut Opened::open(path)?, command),
        Command::Inventory(command) => inventory::inventory(session, &mut Opened::open(path)?, command),
        Command::Run(run) => run::run(session, &mut Opened::open(path)?, run),
        Command::Status => status::status(session, &mut Opened::open(path)?),
        Command::Report(asked) => report::report(session, &mut Opened::open(path)?, asked),
        Command::Problems(problems) => status::problems(session, &mut Opened::open(path)?, problems),
        Command::History { name } => history::history(session, &mut Opened::open(path)?, name),
        Command::Repair(repair) => repair::repair(session, &mut Opened::open(path)?, repair),
        Command::Export(export) => export::export(session, &mut Opened::open(path)?, export),
        Command::Matrix(command) => matrix::matrix(session, &mut Opened::open(path)?, path, command),
        Command::Read(copy) => read::read(&mut Opened::open(path)?, copy),
        Command::Url { copy, valid } => read::url(session, &mut Opened::open(path)?, copy, *valid),
    }
}

fn init(session: &Session, path: &Path) -> Result<Outcome> {
    match server(path) {
        Some(url) => drop(Postgres::create(url)?),
        None => drop(Sqlite::create(path)?),
    }
    session.say(&format!("Created {}. Add nodes with `fulgurite audit node add`.", crate::text::path(path)));
    session.answer(|| serde_json::json!({ "database": path.to_string_lossy() }));
    Ok(Outcome::Good)
}

/// The address of a database on a server, if it isn't the path of a file.
fn server(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| Postgres::is_address(text))
}

impl Opened {
    fn open(path: &Path) -> Result<Self> {
        let mut database: Box<dyn AuditDatabase> = match server(path) {
            Some(url) => Box::new(Postgres::open(url)?),
            None => Box::new(Sqlite::open(path)?),
        };
        let (nodes, removed) = (database.nodes()?, database.removed_nodes()?);
        Ok(Self { database, nodes, removed })
    }

    /// Reads the nodes again: other processes may have changed them.
    fn read_nodes(&mut self) -> Result<()> {
        (self.nodes, self.removed) = (self.database.nodes()?, self.database.removed_nodes()?);
        Ok(())
    }

    fn node(&self, name: &str) -> Result<&Node> {
        let names = || match &*self.nodes {
            [] => "there are none: add one with `fulgurite audit node add`".to_owned(),
            nodes => format!("nodes are {}", nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ")),
        };
        if let Some(removed) = self.removed.iter().find(|node| node.name == name) {
            return Err(Misuse(format!("node {name} was removed on {}: {}", date(removed.at), removed.reason)).into());
        }
        let found = self.nodes.iter().find(|node| node.name == name);
        found.ok_or_else(|| Misuse(format!("there is no node {name:?}; {}", names())).into())
    }

    /// The nodes of these names, or all if none is named.
    fn chosen(&self, names: &[String]) -> Result<Vec<Node>> {
        if names.is_empty() {
            if self.nodes.is_empty() {
                return Err(Misuse("the audit has no nodes: add one with `fulgurite audit node add`".into()).into());
            }
            return Ok(self.nodes.clone());
        }
        let mut chosen: Vec<Node> = names.iter().map(|name| self.node(name).cloned()).collect::<Result<_>>()?;
        chosen.sort_by_key(|node| node.id);
        chosen.dedup_by_key(|node| node.id);
        Ok(chosen)
    }

    fn has(&self, id: NodeId) -> bool {
        self.nodes.iter().any(|node| node.id == id)
    }

    fn name(&self, id: NodeId) -> &str {
        let removed = || self.removed.iter().find(|node| node.id == id).map_or("an unknown node", |node| &node.name);
        self.nodes.iter().find(|node| node.id == id).map_or_else(removed, |node| &node.name)
    }
}

fn place(node: &Node) -> Result<Box<dyn Place>> {
    // An audit compares digests itself, and tells a wrong copy from one that can't be read.
    if let Some(archive) = ArchivePlace::of(&node.place, &node.options)? {
        return Ok(Box::new(archive.comparing_later()));
    }
    crate::places::open(&node.place, &node.options).with_context(|| format!("node {}", node.name))
}

fn now() -> u64 {
    use fulgurite_audit::run::Clock;
    fulgurite_audit::run::SystemClock::default().wall()
}

/// A date in words.
fn date(seconds: u64) -> String {
    crate::text::time(seconds.cast_signed())
}
