//! Gaps of a catalogue, which make answers from it incomplete: places that were not read when it
//! was rebuilt, versions that can't be listed, mostly because their keys are missing, and platters
//! and staged versions that an old copy of the catalogue doesn't know, or that absent stores may
//! hold.

use anyhow::{Result, anyhow};
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::unread::{UnavailableStore, store_names};
use fulgurite_archive::{Archive, ArchiveError, CatalogueGaps, count_unknown_staged, hiding_stores};
use fulgurite_domain::ObjectName;

use crate::Outcome;
use crate::diagnostics::note;
use crate::list::unseen_text;
use crate::outcome::Incomplete;
use crate::text::{count, phrase};

/// What an answer from the catalogue may lack.
pub(crate) struct Gaps {
    catalogue: CatalogueGaps,
    /// Platters of the archive that the catalogue doesn't know though no place remains unseen: it
    /// is an old copy.
    unknown_platters: u64,
    /// Versions and removals in staging that the catalogue doesn't know.
    unknown_staged: u64,
    /// Stores that can't be used, if they may hold a whole set that the catalogue doesn't know.
    hiding: Vec<UnavailableStore>,
}

impl Gaps {
    fn is_empty(&self) -> bool {
        self.catalogue.is_empty() && self.unknown_platters + self.unknown_staged == 0 && self.hiding.is_empty()
    }

    fn outcome(&self) -> Outcome {
        let unseen = if self.catalogue.unseen.is_empty() { Outcome::Good } else { Outcome::Absent };
        let hiding = self.hiding.iter().map(|store| store.hindrance).max();
        Outcome::troubled_if(self.catalogue.unlisted + self.unknown_platters + self.unknown_staged > 0)
            .worst(unseen)
            .worst(Outcome::hindered(hiding))
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
    Ok(Gaps {
        unknown_staged: count_unknown_staged(archive)?,
        hiding: hiding_stores(archive)?,
        catalogue: CatalogueGaps::find(archive, &concerns)?,
        unknown_platters,
    })
}

fn text(Gaps { catalogue: gaps, unknown_platters, unknown_staged, hiding }: &Gaps) -> String {
    let mut parts = Vec::new();
    if *unknown_platters > 0 {
        let platters = count(*unknown_platters, "platter");
        parts.push(format!(
            "it is an old copy and doesn't know {platters} on the stores; `fulgurite catalogue rebuild` brings it up to date"
        ));
    }
    if *unknown_staged > 0 {
        parts.push(format!("it doesn't know {}", unknown_staged_text(*unknown_staged)));
    }
    if gaps.unlisted > 0 {
        parts.push(format!("{} can't be listed, and `fulgurite verify` says why", count(gaps.unlisted, "version")));
    }
    if !gaps.unseen.is_empty() {
        parts.push(unseen_text(&gaps.unseen));
    }
    if !hiding.is_empty() {
        parts.push(format!(
            "{} can't be read, and may hold sets that it doesn't know if it is an old copy",
            store_names(hiding.iter().map(|store| store.store.as_str()))
        ));
    }
    parts.join("; ")
}

/// Describes versions and removals in staging that the catalogue doesn't know.
pub(crate) fn unknown_staged_text(records: u64) -> String {
    format!(
        "{} in staging: the catalogue is an old copy, or a put or a removal was interrupted; `fulgurite catalogue rebuild` brings it up to \
         date",
        phrase(records, "version or removal", "versions or removals")
    )
}

/// Prints a note if the catalogue has gaps, with their consequence, and returns the outcome.
pub(crate) fn say_gaps(gaps: &Gaps, consequence: &str) -> Outcome {
    if !gaps.is_empty() {
        let is = if gaps.outcome() == Outcome::Troubled || !gaps.catalogue.is_empty() { "is" } else { "may be" };
        note(&format!("the catalogue {is} incomplete, so {consequence}: {}", text(gaps)));
    }
    gaps.outcome()
}

/// Fails if the catalogue has gaps, with their consequence. Absent stores that may hold unknown
/// sets only cause a note: what the other stores hold must not be locked up with them.
pub(crate) fn refuse_gaps(mut gaps: Gaps, consequence: &str) -> Result<()> {
    if gaps.catalogue.is_empty() && gaps.unknown_platters + gaps.unknown_staged == 0 {
        say_gaps(&gaps, consequence);
        gaps.hiding.clear();
    }
    match gaps.outcome() {
        Outcome::Good => Ok(()),
        outcome => Err(Incomplete { text: format!("the catalogue is incomplete, so {consequence}: {}", text(&gaps)), outcome }.into()),
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
    Ok(match gaps.outcome() {
        Outcome::Good => anyhow!(text),
        outcome => Incomplete { text, outcome }.into(),
    })
}
