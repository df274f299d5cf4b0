//! Files that a command line or a list names.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_audit::database::FileHistory;

use super::{Opened, inventory};
use crate::outcome::Incomplete;
use crate::{Outcome, diagnostics, text};

/// Unknown names that are reported, so that the wrong list doesn't fill the terminal.
const MOST_REPORTED: u64 = 100;

/// Names have at most 16 KiB, so a file with such lines is no list.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A list of names, one a line.
#[derive(Debug, Args)]
pub(super) struct List {
    /// Read names of files from this file, one a line; - means standard input
    #[arg(long, value_name = "FILE")]
    pub(super) files_from: Option<PathBuf>,
}

/// The error for a file without a copy at the chosen nodes.
pub(super) fn no_copy_here(name: &str) -> anyhow::Error {
    let text = format!("by the inventory, no copy of {} is at these nodes", text::one_line(name));
    Incomplete { text, outcome: Outcome::Troubled }.into()
}

/// Passes what is known of each file to `found`, with its name.
///
/// # Errors
/// If a name is in no inventory, after all known files were passed on; or if there are no names.
pub(super) fn each_file(
    opened: &mut Opened,
    names: &[String],
    list: &List,
    mut found: impl FnMut(&Opened, &str, FileHistory) -> Result<()>,
) -> Result<()> {
    let (mut count, mut unknown, mut first) = (0_u64, 0, String::new());
    let mut look = |name: &str| {
        count += 1;
        if let Some(file) = opened.database.history(name)? {
            return found(opened, name, file);
        }
        unknown += 1;
        match unknown {
            1 => first = format!("no inventory has listed {}", text::one_line(name)),
            2..=MOST_REPORTED => diagnostics::trouble(&format!("no inventory has listed {}", text::one_line(name))),
            _ => {}
        }
        Ok(())
    };
    names.iter().try_for_each(|name| look(name))?;
    if let Some(path) = &list.files_from {
        let (path, source) = inventory::source(path)?;
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let read = (&mut source).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.with_context(|| format!("can't read {}", text::path(path)))? == 0 {
                break;
            }
            if line.len() as u64 == LINE_BYTES_MAX {
                bail!("{}, line {number}: it is longer than any name", text::path(path));
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Ok(name) = std::str::from_utf8(line) else { bail!("{}, line {number}: it isn't UTF-8", text::path(path)) };
            if !name.is_empty() {
                look(name)?;
            }
        }
    }
    match unknown {
        0 if count == 0 => bail!("the list contains no names"),
        0 => Ok(()),
        1 => Err(Incomplete { text: first, outcome: Outcome::Troubled }.into()),
        more => Err(Incomplete { text: format!("{first}, nor {} more", more - 1), outcome: Outcome::Troubled }.into()),
    }
}
