//! Gaps of a catalogue, which make answers from it incomplete: places that were not read when it
//! was rebuilt, and versions that can't be listed, mostly because their keys are missing.

use anyhow::{Result, anyhow};
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::{Archive, CatalogueGaps};
use fulgurite_domain::ObjectName;

use crate::Outcome;
use crate::diagnostics::note;
use crate::list::unseen_text;
use crate::outcome::Incomplete;
use crate::text::count;

/// The gaps that may concern versions of `name` and of everything below it; an empty name means
/// everything. With [`Versions::Newest`], an unlisted version that is older than a listed one isn't
/// a gap.
pub(crate) fn find_gaps(archive: &Archive, name: &[u8], versions: Versions) -> Result<CatalogueGaps> {
    let is_below = |other: &ObjectName| match other.0.strip_prefix(name) {
        Some(rest) => name.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    };
    let is_newest = |other: &ObjectName, number| {
        let listed = archive.catalogue().versions_of(other).ok().and_then(|rows| rows.first().map(|row| row.record.version));
        listed.is_none_or(|listed| listed < number)
    };
    let concerns = |other: &ObjectName, number| is_below(other) && (versions == Versions::All || is_newest(other, number));
    Ok(CatalogueGaps::find(archive, &concerns)?)
}

fn text(gaps: &CatalogueGaps) -> String {
    let mut parts = Vec::new();
    if gaps.unlisted > 0 {
        parts.push(format!("{} can't be listed, and `fulgurite verify` says why", count(gaps.unlisted, "version")));
    }
    if !gaps.unseen.is_empty() {
        parts.push(unseen_text(&gaps.unseen));
    }
    parts.join("; ")
}

fn outcome(gaps: &CatalogueGaps) -> Outcome {
    let unseen = if gaps.unseen.is_empty() { Outcome::Good } else { Outcome::Absent };
    Outcome::troubled_if(gaps.unlisted > 0).worst(unseen)
}

/// Prints a note if the catalogue has gaps, with their consequence, and returns the outcome.
pub(crate) fn say_gaps(gaps: &CatalogueGaps, consequence: &str) -> Outcome {
    if !gaps.is_empty() {
        note(&format!("the catalogue is incomplete, so {consequence}: {}", text(gaps)));
    }
    outcome(gaps)
}

/// Fails if the catalogue has gaps, with their consequence.
pub(crate) fn refuse_gaps(gaps: &CatalogueGaps, consequence: &str) -> Result<()> {
    match outcome(gaps) {
        Outcome::Good => Ok(()),
        outcome => Err(Incomplete { text: format!("the catalogue is incomplete, so {consequence}: {}", text(gaps)), outcome }.into()),
    }
}

/// The error for a name without a listed version.
pub(crate) fn nothing_stored(archive: &Archive, name: &ObjectName) -> Result<anyhow::Error> {
    let shown = name.display();
    let gaps = find_gaps(archive, &name.0, Versions::All)?;
    let text = match archive.catalogue().latest_number(name)? {
        Some(_) => format!("{shown} exists, but no version of it can be listed; `fulgurite verify` says why"),
        None if gaps.is_empty() => return Ok(anyhow!("nothing is stored as {shown}")),
        None => format!("nothing is known to be stored as {shown}, but the catalogue is incomplete: {}", text(&gaps)),
    };
    Ok(match outcome(&gaps) {
        Outcome::Good => anyhow!(text),
        outcome => Incomplete { text, outcome }.into(),
    })
}
