//! The command `export`: writes objects of the archive as bags and OCFL objects.
//!
//! ```text
//! listing --> survey: is every name and kind possible? --> content, checked as `get` does --> writer
//! ```
//!
//! A bag, or a version of an OCFL object, appears as a whole or not at all.

mod bagit;
mod objects;
mod ocfl;
mod paths;

use anyhow::Result;
use clap::{Args, Subcommand};
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::VersionRow;
use fulgurite_digest::Algorithm;
use time::OffsetDateTime;

use crate::premis::{Deed, Provenance, Subject};
use crate::{Outcome, Session};

#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// Write the objects below a name as a BagIt bag
    ///
    /// Every byte is checked as `get` does, and the bag gets its name only when it is whole. The
    /// files of an imported bag, kept below NAME/.bag/, become its tag files again: the fields of
    /// bag-info.txt, in their order, and the others as they are. The manifests and Payload-Oxum are
    /// computed, and Bagging-Date is today.
    ///
    /// Bags contain neither empty folders nor symbolic links, and only names in UTF-8.
    Bagit(bagit::Bag),
    /// Write the objects below a name as an OCFL object, or as a new version of one
    ///
    /// Every byte is checked as `get` does, and the version appears as a whole or not at all. If
    /// the object exists, its new version has exactly the objects below NAME; if these are what
    /// its newest version has already, nothing is written. Content that the object has already
    /// isn't stored again; its files are read, and a damaged or missing one ends the export. The
    /// object must be where the storage root's layout puts it: it isn't searched for elsewhere. The
    /// inventory that `import ocfl` keeps in NAME/.ocfl/ is not exported.
    ///
    /// OCFL objects contain neither empty folders nor symbolic links, and only names in UTF-8.
    Ocfl(Box<ocfl::Object>),
}

/// What both formats can't contain.
#[derive(Debug, Args)]
struct LeaveOut {
    /// Leave out empty folders and symbolic links, and name them; otherwise they are an error
    #[arg(long)]
    leave_out: bool,
}

pub(crate) fn export(session: &Session, export: &Export) -> Result<Outcome> {
    match export {
        Export::Bagit(bag) => bagit::export(session, bag),
        Export::Ocfl(object) => ocfl::export(session, object),
    }
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    text.parse().map_err(|error: fulgurite_digest::UnknownAlgorithm| error.to_string())
}

/// Notes that an object was read whole and found right.
fn read(provenance: Option<&Provenance>, row: &VersionRow) {
    if let Some(provenance) = provenance {
        provenance.note(Subject::version(row), Deed::FixityCheck, true, "all of its bytes were read, and have its SHA-256");
    }
}

/// Writes the PREMIS document; `whither` says where the objects that were read are now.
fn describe(provenance: Option<&Provenance>, archive: &Archive, whither: Option<&str>) -> Result<()> {
    let Some(provenance) = provenance else { return Ok(()) };
    if let Some(whither) = whither {
        provenance.disseminated(whither);
    }
    provenance.finish(archive)
}

/// Today's date in UTC, as YYYY-MM-DD.
fn today() -> String {
    OffsetDateTime::now_utc().date().to_string()
}

/// The present time in UTC, as in RFC 3339, to the second.
fn now() -> String {
    let now = OffsetDateTime::now_utc();
    format!("{}T{:02}:{:02}:{:02}Z", now.date(), now.hour(), now.minute(), now.second())
}
