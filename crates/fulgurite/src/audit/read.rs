//! `audit read` and `audit url`: one copy, for a person.

use std::io::{BufWriter, Write};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use fulgurite_places::{Cause, Place};

use super::{Opened, place};
use crate::outcome::Misuse;
use crate::standard_output::standard_output;
use crate::{Outcome, Session, text};

/// What S3 and Google allow.
const LONGEST_VALID: Duration = Duration::from_secs(7 * 86_400);

#[derive(Debug, Args)]
pub(super) struct Copy {
    /// Name of the node
    node: String,
    /// The file's name, as in the inventory
    file: String,
}

/// The place of a copy, and where it is there.
fn found(opened: &mut Opened, copy: &Copy) -> Result<(Box<dyn Place>, String)> {
    let node = opened.node(&copy.node)?.clone();
    let file = opened.database.history(&copy.file)?;
    let found = file.and_then(|file| file.copies.into_iter().find(|found| found.node == node.id));
    let none = || Misuse(format!("by the inventory, node {} has no copy of {}", node.name, text::one_line(&copy.file)));
    Ok((place(&node)?, found.ok_or_else(none)?.location))
}

/// Writes the bytes of a copy to standard output, whatever they are.
pub(super) fn read(opened: &mut Opened, copy: &Copy) -> Result<Outcome> {
    let (place, location) = found(opened, copy)?;
    let mut out = BufWriter::with_capacity(1 << 16, standard_output());
    let (mut failed, mut written) = (None, 0);
    let mut sink = |piece: &[u8]| match out.write_all(piece) {
        Ok(()) => {
            written += piece.len();
            true
        }
        Err(error) => {
            failed = Some(error);
            false
        }
    };
    let passed = place.connect().and_then(|mut connection| connection.read(&location, &mut sink));
    match (passed, failed) {
        (_, Some(error)) => return Err(error).context("can't write to standard output"),
        (Err(refusal), None) if written == 0 || refusal.cause == Cause::Missing => Err(anyhow!("{}: {refusal}", place.describe())),
        (Err(refusal), None) => Err(anyhow!("{}: {refusal}; what was written is not the whole copy", place.describe())),
        (Ok(_), None) => Ok(()),
    }?;
    out.flush().context("can't write to standard output")?;
    Ok(Outcome::Good)
}

/// Prints a URL from which anyone can read a copy for a while.
pub(super) fn url(session: &Session, opened: &mut Opened, copy: &Copy, valid: Duration) -> Result<Outcome> {
    if valid > LONGEST_VALID {
        return Err(Misuse("a signed URL is valid for 7 days at most".into()).into());
    }
    let (place, location) = found(opened, copy)?;
    let url = place.connect().and_then(|mut connection| connection.presigned_url(&location, valid)).with_context(|| place.describe())?;
    let url = url.ok_or_else(|| Misuse(format!("node {} signs no URLs", copy.node)))?;
    if session.json {
        session.answer(|| serde_json::json!({ "url": url, "valid_s": valid.as_secs() }));
    } else {
        writeln!(standard_output(), "{url}")?;
    }
    Ok(Outcome::Good)
}
