//! The command line of the archive.
//!
//! [`args`] says what can be typed; each module below carries some of the commands out with the crate `archive`, [`twin`] with the crate of
//! that name, and prints. Exit status: 0 if all went well, 1 if something failed or is lost, 2 if the command line or a scenario was wrong.

mod args;
mod demo;
mod get;
mod keys;
mod list;
mod platters;
mod progress;
mod put;
mod remove;
mod serve;
mod setup;
mod text;
mod twin;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use fulgurite_archive::{Access, Archive, ArchiveError, settings};

use args::{Catalogue, Cli, Command, Keys, Stores};

/// How a command ended that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Good,
    /// Something failed or is lost, and was reported.
    Troubled,
    /// What was asked for can't be, and that was said.
    Misused,
}

impl Outcome {
    fn troubled_if(troubled: bool) -> Self {
        if troubled { Self::Troubled } else { Self::Good }
    }
}

/// What every command needs to know: which archive, and how to print.
struct Session {
    archive: Option<PathBuf>,
    json: bool,
    quiet: bool,
    /// What went wrong with standard output, told in the end: work that was begun is not left half done because nobody listens.
    unsaid: RefCell<Option<io::Error>>,
}

impl Session {
    /// The folder of the archive: as given, or the nearest from the current folder upwards.
    fn home(&self) -> Result<PathBuf> {
        if let Some(home) = &self.archive {
            return Ok(home.clone());
        }
        let current = std::env::current_dir().context("the current folder")?;
        let found = current.ancestors().find(|folder| folder.join(settings::FILE).is_file());
        match found {
            Some(home) => Ok(home.to_owned()),
            None => bail!(
                "no archive here or in a folder above: name one with --archive FOLDER or FULGURITE_ARCHIVE, or make one with `fulgurite init`"
            ),
        }
    }

    fn open(&self, access: Access) -> Result<Archive> {
        open(&self.home()?, access)
    }

    /// Says something to a person.
    fn say(&self, text: &str) {
        if !self.quiet && !self.json {
            self.print(format_args!("{text}"));
        }
    }

    /// Gives a program its answer.
    fn answer(&self, value: &serde_json::Value) {
        self.print(format_args!("{value}"));
    }

    fn print(&self, line: std::fmt::Arguments<'_>) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.unsaid.borrow_mut().get_or_insert(error);
        }
    }
}

fn open(home: &Path, access: Access) -> Result<Archive> {
    Ok(Archive::open(home, access)?)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let session = Session { archive: cli.archive, json: cli.json, quiet: cli.quiet, unsaid: RefCell::new(None) };
    let result = match cli.command {
        Command::Init(init) => setup::init(&session, &init),
        Command::Put(put) => put::put(&session, &put),
        Command::Ls(ls) => list::ls(&session, &ls),
        Command::Get(get) => get::get(&session, &get),
        Command::Rm(rm) => remove::rm(&session, &rm),
        Command::Flush => put::flush(&session),
        Command::Verify(verify) => platters::verify(&session, &verify),
        Command::Scrub => platters::scrub(&session),
        Command::Status => list::status(&session),
        Command::Platters => platters::platters(&session),
        Command::Inspect(inspect) => platters::inspect(&session, &inspect),
        Command::Recover(recover) => platters::recover(&session, &recover),
        Command::Catalogue(Catalogue::Rebuild) => setup::rebuild(&session),
        Command::Catalogue(Catalogue::Check) => setup::check(&session),
        Command::Store(Stores::Add(add)) => setup::add_store(&session, &add),
        Command::Store(Stores::Replace(replace)) => setup::replace_store(&session, &replace),
        Command::Keys(Keys::Export(export)) => keys::export(&session, &export),
        Command::Keys(Keys::Import(import)) => keys::import(&session, &import),
        Command::Serve(serve) => serve::serve(&session, &serve),
        Command::Accounts(accounts) => serve::accounts(&session, &accounts),
        Command::Demo(demo) => demo::demo(&session, &demo),
        Command::Twin(twin) => twin::twin(&session, &twin),
    };
    let result = result.and_then(|outcome| match session.unsaid.take() {
        // Who reads our output must not take a part of it for the whole, unless it was them who went away, as `head` does.
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(anyhow::Error::from(error).context("standard output")),
        _ => Ok(outcome),
    });
    match result {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Troubled) => ExitCode::from(1),
        Ok(Outcome::Misused) => ExitCode::from(2),
        // Whoever reads our output went away.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fulgurite: {}", text::harmless(&sentence(&error)));
            ExitCode::from(1)
        }
    }
}

/// An error with its causes, but for those that it already tells of.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    text
}

/// Whether standard output is closed. An archive's own trouble never looks like this, even where a disk answers with that error: it comes
/// wrapped in what failed.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_archives = |cause: &(dyn std::error::Error + 'static)| cause.is::<ArchiveError>();
    !error.chain().any(is_archives)
        && error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
