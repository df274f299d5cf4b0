//! The `fulgurite` command line.
//!
//! [`args`] defines the arguments. The other modules run the commands and print results to standard
//! output: [`twin`] on the crate `twin`, [`channel`] on the crate `glass`, [`audit`](mod@audit) on
//! the crate `audit`, [`bench`](mod@bench) on the crate `load`, [`ingest`] on the crate of that
//! name, [`migrate`](mod@migrate) on the crate `migration`, [`serve`] on the crate `service`,
//! [`import`] and [`export`] on the crates `bagit` and `ocfl` too, most others on the crate
//! `archive`. [`diagnostics`] writes to standard error, and [`Outcome`] maps results to exit
//! statuses.

mod archive_place;
mod args;
mod attach;
mod audit;
mod bench;
mod bucket;
mod channel;
mod decode_worker;
mod demo;
mod diagnostics;
mod ecs;
mod executor;
mod export;
mod fixity;
mod gaps;
mod get;
mod heap;
mod import;
mod ingest;
mod keys;
mod library;
mod list;
mod log;
mod migrate;
mod nested_stores;
mod object_id;
mod outcome;
mod own;
mod owner;
mod places;
mod platters;
mod premis;
mod progress;
mod put;
mod remove;
mod retrieve;
mod serve;
mod setup;
mod signals;
mod standard_output;
mod stores;
mod tables;
mod tape_place;
mod text;
mod twin;
mod voxels;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use fulgurite_archive::{Access, Archive, Replace, settings};
use fulgurite_domain::Medium;

use args::{Catalogue, Cli, Command, Inspect, Keys, Stores};
use outcome::Outcome;

/// The context of a command: its archive, and how it prints.
struct Session {
    archive: Option<PathBuf>,
    json: bool,
    quiet: bool,
    /// The first error of writing to standard output. It is reported at the end, because a closed
    /// or full output must not leave the work half done.
    print_error: RefCell<Option<io::Error>>,
}

impl Session {
    /// The archive's folder: the one given, or the nearest one from the current folder upwards.
    fn home(&self) -> Result<PathBuf> {
        if let Some(home) = &self.archive {
            return Ok(home.clone());
        }
        let current = current_folder()?;
        let found = current.ancestors().find(|folder| folder.join(settings::FILE).is_file());
        found.map(Path::to_owned).context(
            "no archive in the current folder or above it: name one with --archive FOLDER or FULGURITE_ARCHIVE, \
             create one with `fulgurite init`, or recreate one from its stores with `fulgurite attach`",
        )
    }

    /// The folder for a new archive: the argument, `--archive`, or the current folder.
    fn new_home(&self, argument: Option<&Path>) -> Result<PathBuf> {
        argument.or(self.archive.as_deref()).map_or_else(current_folder, |home| Ok(home.to_owned()))
    }

    fn open(&self, access: Access) -> Result<Archive> {
        let home = self.home()?;
        if access != Access::Read {
            owner::note_if_root_changes(&home);
        }
        Ok(Archive::open(&home, access)?)
    }

    /// Prints a line for people; `--quiet` and `--json` suppress it.
    fn say(&self, text: &str) {
        if !self.quiet && !self.json {
            self.print(format_args!("{text}"));
        }
    }

    /// Prints an answer for people, which `--quiet` doesn't suppress; with `--json`,
    /// [`answer`](Self::answer) prints it instead.
    fn show(&self, text: &str) {
        if !self.json {
            self.print(format_args!("{text}"));
        }
    }

    /// Prints a problem that is part of the results. With `--json`, the answer contains it. With
    /// `--quiet`, it goes to standard error: a nightly job suppresses summaries, but must report
    /// problems.
    fn warn(&self, text: &str) {
        if self.quiet && !self.json {
            diagnostics::trouble(text);
        } else {
            self.say(text);
        }
    }

    /// Prints a result as JSON, only with `--json`.
    fn answer(&self, value: impl FnOnce() -> serde_json::Value) {
        if self.json {
            self.print(format_args!("{}", value()));
        }
    }

    /// Prints the reference of a kind of settings, which is in Markdown.
    fn print_reference(&self, text: &str) {
        match self.json {
            true => self.answer(|| serde_json::json!({ "markdown": text })),
            false => self.print(format_args!("{}", text.trim_end())),
        }
    }

    fn print(&self, line: std::fmt::Arguments<'_>) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.print_error.borrow_mut().get_or_insert(error);
        }
    }
}

fn current_folder() -> Result<PathBuf> {
    std::env::current_dir().context("can't determine the current folder")
}

fn main() -> ExitCode {
    let cli = match Cli::parsed() {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    diagnostics::write_as_json(cli.json);
    let session = Session { archive: cli.archive, json: cli.json, quiet: cli.quiet, print_error: RefCell::new(None) };
    let result = match cli.command {
        Command::Init(init) => setup::init(&session, &init),
        Command::Attach(attach) => attach::attach(&session, &attach),
        Command::Put(put) => put::put(&session, &put),
        Command::Ls(ls) => list::ls(&session, &ls),
        Command::Fixity(asked) => fixity::fixity(&session, &asked),
        Command::Get(get) => get::get(&session, &get),
        Command::Rm(rm) => remove::rm(&session, &rm),
        Command::Import(import) => import::import(&session, &import),
        Command::Export(export) => export::export(&session, &export),
        Command::Flush => put::flush(&session),
        Command::Verify { objects } => platters::verify(&session, objects),
        Command::Scrub { replace_absent, replace_unreadable } => {
            platters::scrub(&session, Replace { absent: replace_absent, unreadable: replace_unreadable })
        }
        Command::Status => list::status(&session),
        Command::Platters => platters::platters(&session),
        Command::Inspect(Inspect { images: None, health: None, file, files, .. }) => platters::inspect(&session, &file, files),
        Command::Inspect(inspect) => voxels::inspect(&session, &inspect),
        Command::Recover { platter, store } => platters::recover(&session, &platter, store.as_deref()),
        Command::Catalogue(Catalogue::Rebuild { without_unseen }) => setup::rebuild(&session, without_unseen),
        Command::Catalogue(Catalogue::Forget(forget)) => setup::forget(&session, &forget),
        Command::Catalogue(Catalogue::Check) => setup::check(&session),
        Command::Store(Stores::Add { store }) => setup::add_store(&session, &store),
        Command::Store(Stores::List) => stores::list(&session),
        Command::Store(Stores::Replace { name }) => setup::replace_store(&session, &name),
        Command::Keys(Keys::Export(export)) => keys::export(&session, &export),
        Command::Keys(Keys::Import { files, passphrase_file }) => keys::import(&session, &files, &passphrase_file),
        Command::Keys(Keys::Repair { files, passphrase_file }) => keys::repair(&session, &files, &passphrase_file),
        Command::Serve(serve) => serve::serve(&session, &serve),
        Command::DecodeWorker(worker) => decode_worker::run(&session, &worker),
        Command::Restores => library::restores(&session),
        Command::Library(asked) => library::library(&session, &asked),
        Command::Accounts(accounts) => serve::accounts(&session, &accounts),
        Command::Demo { folder, into, medium } => {
            let medium = if medium == "glass" { Medium::Glass } else { Medium::Disk };
            demo::demo(&session, folder.as_deref(), &into, medium)
        }
        Command::Audit(audit) => audit::audit(&session, &audit),
        Command::Bench(bench) => bench::bench(&session, &bench),
        Command::Ingest(ingest) => ingest::ingest(&session, &ingest),
        Command::Retrieve(retrieve) => retrieve::retrieve(&session, &retrieve),
        Command::Migrate(migrate) => migrate::migrate(&session, &migrate),
        Command::Twin(twin) => twin::twin(&session, &twin),
        Command::Channel(command) => channel::run(&session, &command),
    };
    let result = result.and_then(|outcome| match session.print_error.take() {
        // A reader must not mistake partial output for all of it. A reader that closed the pipe
        // itself, as `head` does, knows.
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(anyhow::Error::from(error).context("standard output")),
        _ => Ok(outcome),
    });
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) if standard_output::is_closed(&error) => return ExitCode::SUCCESS,
        Err(error) => {
            let outcome = Outcome::of_error(&error);
            let advice = executor::advice(&error).map_or_else(String::new, |advice| format!(". {advice}"));
            diagnostics::failure(&format!("{}{advice}", sentence(&error)), outcome);
            outcome
        }
    };
    diagnostics::conclude(outcome);
    outcome.into()
}

/// Handles a command line that can't be parsed, or that asks for help or the version.
fn unparsed(error: &clap::Error) -> ExitCode {
    // Parsing failed, so search the raw arguments for `--json`.
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    diagnostics::write_as_json(json && error.use_stderr());
    if diagnostics::is_json() {
        // Without a command, clap's message is the whole help text.
        let text = match error.kind() {
            clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command given; --help lists the commands".to_owned(),
            _ => error.to_string(),
        };
        diagnostics::failure(text.trim_end().trim_start_matches("error: "), Outcome::Misused);
    } else if let Err(unprinted) = error.print()
        && !error.use_stderr()
        && unprinted.kind() != io::ErrorKind::BrokenPipe
    {
        diagnostics::failure(&format!("standard output: {unprinted}"), Outcome::Troubled);
        return Outcome::Troubled.into();
    }
    if error.use_stderr() { Outcome::Misused.into() } else { ExitCode::SUCCESS }
}

/// An error followed by its causes, without those whose text is already included.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text = if text.is_empty() { cause } else { format!("{text}: {cause}") };
        }
    }
    text
}
