//! The commands of migrations, on the crate `migration`: [`plan`] simulates one, the others carry
//! one out. A migration is a folder with its settings, its database and its reports.
//!
//! Exit status: 0 if everything asked for is done and well; 1 if files failed or wait, something is
//! wrong, or the command was stopped or failed; 2 if settings or arguments are invalid.

mod after;
mod apart;
mod archive;
mod compared;
mod folder;
mod init;
mod lock;
mod metrics;
mod page;
mod plan;
mod progress;
mod recall;
mod report;
mod run;
mod scenario;
mod status;
mod tapes;
mod watching;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use crate::{Outcome, Session};

/// The subcommands of `fulgurite migrate`.
#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Simulate a migration: when it ends, what each stream does, and what limits the rate
    Plan(Box<plan::Plan>),
    /// Begin a migration: make its folder, with its settings and its database
    ///
    /// PLACE is a folder, a URL such as s3://BUCKET/PREFIX, sftp://USER@HOST/PATH or
    /// webdavs://HOST/PATH, archive:FOLDER for an archive of this program (the option prefix names a
    /// folder in it), or, as a source, tapes:FOLDER for a library of emulated tapes. Secrets are
    /// never stored: name the variable or the file that contains one, as in
    /// `--from-option secret_access_key=env:KEY`.
    Init(init::Init),
    /// List the source again, and add known digests of its files
    Inventory(init::Inventory),
    /// Migrate what is waiting: read, write, read back and compare
    ///
    /// Ctrl-C finishes the files that were read, then stops; a second one stops at once. The next
    /// run continues from there.
    Run(run::Run),
    /// Show the progress of a migration, and the estimated time left
    Status {
        /// The migration's folder
        folder: PathBuf,
    },
    /// Pause: start no more files, and finish those in progress
    Pause {
        /// The migration's folder
        folder: PathBuf,
    },
    /// Resume a paused migration
    Resume {
        /// The migration's folder
        folder: PathBuf,
    },
    /// Migrate the named files first, also during a run
    Recall(recall::Recall),
    /// List the files that failed, and what each stream of the last run did
    Report(report::Report),
    /// Replay the journal of the last run, and compare the commands with those in the journal
    Replay {
        /// The migration's folder
        folder: PathBuf,
    },
    /// Read all migrated files back from the destination, and compare them again
    ///
    /// A wrong or missing file waits to be migrated again, or counts as failed if it was released.
    Scan {
        /// The migration's folder
        folder: PathBuf,
    },
    /// Remove migrated files from the source, once their hold time is over
    ///
    /// Each file is read once more before it is removed; one that has changed since its migration
    /// stays. Without --yes, only counts what would be removed.
    Forget(after::Forget),
    /// Make libraries of emulated tapes, and list their tapes
    #[command(subcommand)]
    Tapes(tapes::Tapes),
    /// Print the reference of all settings of scenario files
    Reference,
}

pub(crate) fn migrate(session: &Session, migrate: &Migrate) -> Result<Outcome> {
    match migrate {
        Migrate::Plan(asked) => plan::plan(session, asked),
        Migrate::Init(asked) => init::init(session, asked),
        Migrate::Inventory(asked) => init::inventory(session, asked),
        Migrate::Run(asked) => run::run(session, asked),
        Migrate::Status { folder } => status::status(session, folder),
        Migrate::Pause { folder } => status::pause(session, folder, true),
        Migrate::Resume { folder } => status::pause(session, folder, false),
        Migrate::Recall(asked) => recall::recall(session, asked),
        Migrate::Tapes(asked) => tapes::tapes(session, asked),
        Migrate::Report(asked) => report::report(session, asked),
        Migrate::Replay { folder } => status::replay(session, folder),
        Migrate::Scan { folder } => after::scan(session, folder),
        Migrate::Forget(asked) => after::forget(session, asked),
        Migrate::Reference => {
            session.print_reference(&fulgurite_migration::plan::reference());
            Ok(Outcome::Good)
        }
    }
}
