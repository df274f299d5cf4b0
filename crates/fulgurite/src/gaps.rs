//! Gaps of a catalogue, which make answers from it incomplete: places that were not read when it
//! was rebuilt, versions that can't be listed, mostly because their keys are missing, and platters
//! that an old copy of the catalogue doesn't know.

use anyhow::{Result, anyhow};
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::{Archive, ArchiveError, CatalogueGaps};
use fulgurite_domain::ObjectName;

use crate::Outcome;
use crate::diagnostics::note;
use crate::list::unseen_text;
use crate::outcome::Incomplete;
use crate::text::count;

/// What an answer from the catalogue may lack.
pub(crate) struct Gaps {
    catalogue: CatalogueGaps,
    /// Platters of the archive that the catalogue doesn't know though no place remains unseen: it
    /// is an old copy.
    unknown_platters: u64,
}

impl Gaps {
    fn is_empty(&self) -> bool {
        self.catalogue.is_empty() && self.unknown_platters == 0
    }
}

/// The gaps that may concern versions of `name` and of everything below it; an empty name means
/// everything. With [`Versions::Newest`], an unlisted version that is older than a listed one isn't
/// a gap. Lists all stores.
pub(crate) fn find_gaps(archive: &Archive, name: &[u8], versions: Versions) -> Result<Gaps> {
    let is_below = |other: &ObjectName| match other.0.strip_prefix(name) {
        Some(rest) => name.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    };
    let is_newest = |other: &ObjectName, number| {
        let listed = archive.catalogue().versions_of(other).ok().and_then(|rows| rows.first().map(|row| row.record.version));
        listed.is_none_or(|listed| listed < number)
    };
    let concerns = |other: &ObjectName, number| is_below(other) && (versions == Versions::All || is_newest(other, number));
    let unknown_platters = match archive.check_catalogue_is_current() {
        Ok(()) => 0,
        Err(ArchiveError::UnknownPlatters { is_unseen: true, .. }) => 0,
        Err(ArchiveError::UnknownPlatters { platters, .. }) => platters,
        Err(error) => return Err(error.into()),
    };
    Ok(Gaps { catalogue: CatalogueGaps::find(archive, &concerns)?, unknown_platters })
}

fn text(Gaps { catalogue: gaps, unknown_platters }: &Gaps) -> String {
    let mut parts = Vec::new();
    if *unknown_platters > 0 {
        let platters = count(*unknown_platters, "platter");
        parts.push(format!(
            "it is an old copy and doesn't know {platters} on the stores; `fulgurite catalogue rebuild` brings it up to date"
        ));
    }
    if gaps.unlisted > 0 {
        parts.push(format!("{} can't be listed, and `fulgurite verify` says why", count(gaps.unlisted, "version")));
    }
    if !gaps.unseen.is_empty() {
        parts.push(unseen_text(&gaps.unseen));
    }
    parts.join("; ")
}

fn outcome(Gaps { catalogue: gaps, unknown_platters }: &Gaps) -> Outcome {
    let unseen = if gaps.unseen.is_empty() { Outcome::Good } else { Outcome::Absent };
    Outcome::troubled_if(gaps.unlisted + unknown_platters > 0).worst(unseen)
}

/// Prints a note if the catalogue has gaps, with their consequence, and returns the outcome.
pub(crate) fn say_gaps(gaps: &Gaps, consequence: &str) -> Outcome {
    if !gaps.is_empty() {
        note(&format!("the catalogue is incomplete, so {consequence}: {}", text(gaps)));
    }
    outcome(gaps)
}

/// Fails if the catalogue has gaps, with their consequence.
pub(crate) fn refuse_gaps(gaps: &Gaps, consequence: &str) -> Result<()> {
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
