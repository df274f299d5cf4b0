//! The commands of migrations: they read scenarios, simulate them with the crate `migration`, and
//! print the results.
//!
//! Exit status: 0 if the plan says when the migration ends; 1 if a search finds no configuration
//! that ends in time; 2 if a scenario or argument is invalid.

mod plan;

use anyhow::Result;
use clap::Subcommand;

use crate::{Outcome, Session};

/// The subcommands of `fulgurite migrate`.
#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Simulate a migration: when it ends, what each stream does, and what limits the rate
    Plan(Box<plan::Plan>),
    /// Print the reference of all settings of scenario files
    Reference,
}

pub(crate) fn migrate(session: &Session, migrate: &Migrate) -> Result<Outcome> {
    match migrate {
        Migrate::Plan(asked) => plan::plan(session, asked),
        Migrate::Reference => {
            session.print(format_args!("{}", fulgurite_migration::plan::reference().trim_end()));
            Ok(Outcome::Good)
        }
    }
}
