//! The command line of the archive.
//!
//! [`args`] says what can be typed; each module below carries some of the commands out with the crate `archive`, [`twin`] with the crate of
//! that name, and prints. Results go to standard output; [`diagnostics`] go to standard error. [`Outcome`] has the exit statuses.

mod args;
mod attach;
mod demo;
mod diagnostics;
mod engine;
mod get;
mod heap;
mod keys;
mod list;
mod outcome;
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
use outcome::Outcome;

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
                "no archive here or in a folder above: name one with --archive FOLDER or FULGURITE_ARCHIVE, make one with `fulgurite init`, \
                 or bring one back from its stores with `fulgurite attach`"
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

    /// Says something that is wrong. Quiet is for summaries: what is wrong reaches whoever runs this at night.
    fn warn(&self, text: &str) {
        if self.quiet && !self.json {
            diagnostics::trouble(text);
        } else {
            self.say(text);
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    diagnostics::write_as_json(cli.json);
    let session = Session { archive: cli.archive, json: cli.json, quiet: cli.quiet, unsaid: RefCell::new(None) };
    let result = match cli.command {
        Command::Init(init) => setup::init(&session, &init),
        Command::Attach(attach) => attach::attach(&session, &attach),
        Command::Put(put) => put::put(&session, &put),
        Command::Ls(ls) => list::ls(&session, &ls),
        Command::Get(get) => get::get(&session, &get),
        Command::Rm(rm) => remove::rm(&session, &rm),
        Command::Flush => put::flush(&session),
        Command::Verify(verify) => platters::verify(&session, &verify),
        Command::Scrub(scrub) => platters::scrub(&session, &scrub),
        Command::Status => list::status(&session),
        Command::Platters => platters::platters(&session),
        Command::Inspect(inspect) => platters::inspect(&session, &inspect),
        Command::Recover(recover) => platters::recover(&session, &recover),
        Command::Catalogue(Catalogue::Rebuild(rebuild)) => setup::rebuild(&session, &rebuild),
        Command::Catalogue(Catalogue::Forget(forget)) => setup::forget(&session, &forget),
        Command::Catalogue(Catalogue::Check) => setup::check(&session),
        Command::Store(Stores::Add(add)) => setup::add_store(&session, &add),
        Command::Store(Stores::Replace(replace)) => setup::replace_store(&session, &replace),
        Command::Keys(Keys::Export(export)) => keys::export(&session, &export),
        Command::Keys(Keys::Import(import)) => keys::import(&session, &import),
        Command::Keys(Keys::Repair(repair)) => keys::repair(&session, &repair),
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
    let outcome = match result {
        Ok(outcome) => outcome,
        // Whoever reads our output went away.
        Err(error) if is_broken_pipe(&error) => return ExitCode::SUCCESS,
        Err(error) => {
            let outcome = Outcome::of_error(&error);
            let advice = engine::advice(&error).map_or_else(String::new, |advice| format!(". {advice}"));
            diagnostics::failure(&format!("{}{advice}", sentence(&error)), outcome);
            outcome
        }
    };
    diagnostics::conclude(outcome);
    outcome.into()
}

/// Answers a command line that can't be parsed, or asks for help or the version.
fn unparsed(error: &clap::Error) -> ExitCode {
    // The parser gave up, so whether JSON is wanted is read from the words themselves.
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    diagnostics::write_as_json(json && error.use_stderr());
    if diagnostics::is_json() {
        // Without a command, what would be printed is the help.
        let text = match error.kind() {
            clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is expected; --help lists them".to_owned(),
            _ => error.to_string(),
        };
        diagnostics::failure(text.trim_end().trim_start_matches("error: "), Outcome::Misused);
    } else {
        let _ = error.print();
    }
    if error.use_stderr() { Outcome::Misused.into() } else { ExitCode::SUCCESS }
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
