//! The command line of the archive.
//!
//! [`args`] says what can be typed; each module below carries some of the commands out with the crate `archive`, and prints. Exit status: 0 if
//! all went well, 1 if something failed or is lost, 2 if the command line was wrong.

mod args;
mod demo;
mod get;
mod keys;
mod list;
mod platters;
mod progress;
mod put;
mod setup;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use fulgurite_archive::{Access, Archive, settings};

use args::{Catalogue, Cli, Command, Keys};

/// How a command ended that could be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Good,
    /// Something failed or is lost, and was reported.
    Troubled,
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

    fn say(&self, text: &str) {
        if !self.quiet && !self.json {
            println!("{text}");
        }
    }
}

fn open(home: &Path, access: Access) -> Result<Archive> {
    Ok(Archive::open(home, access)?)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let session = Session { archive: cli.archive, json: cli.json, quiet: cli.quiet };
    let result = match cli.command {
        Command::Init(init) => setup::init(&session, &init),
        Command::Put(put) => put::put(&session, &put),
        Command::Ls(ls) => list::ls(&session, &ls),
        Command::Get(get) => get::get(&session, &get),
        Command::Rm(rm) => list::rm(&session, &rm),
        Command::Flush => put::flush(&session),
        Command::Verify(verify) => platters::verify(&session, &verify),
        Command::Scrub => platters::scrub(&session),
        Command::Status => list::status(&session),
        Command::Platters => platters::platters(&session),
        Command::Inspect(inspect) => platters::inspect(&session, &inspect),
        Command::Recover(recover) => platters::recover(&session, &recover),
        Command::Catalogue(Catalogue::Rebuild) => setup::rebuild(&session),
        Command::Catalogue(Catalogue::Check) => setup::check(&session),
        Command::Keys(Keys::Export(export)) => keys::export(&session, &export),
        Command::Keys(Keys::Import(import)) => keys::import(&session, &import),
        Command::Demo(demo) => demo::demo(&session, &demo),
    };
    match result {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Troubled) => ExitCode::from(1),
        // Whoever reads our output went away, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fulgurite: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe))
}
