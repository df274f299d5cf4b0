//! Places that a rebuild could not read. The catalogue records them, so that it isn't mistaken for
//! complete.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;

use fulgurite_domain::{ObjectName, PlatterId, SetId, VersionId};
use fulgurite_format::Header;
use serde::{Deserialize, Serialize};

use super::earlier::Earlier;
use super::{BATCH, RebuildReport, UnseenStores, each_unlisted};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Catalogue, SqliteCatalogue, Unlisted, UnlistedVersion};
use crate::keystore::KeyStoreError;
use crate::paging::Pager;
use crate::staging::Staging;
use crate::store_snapshot::StoreSnapshot;
use crate::tables::HeaderTrouble;
use crate::uncatalogued::{UncataloguedPlatter, find_uncatalogued};
use crate::unread::{Hindrance, UnavailableStore};
use crate::watch::{Trouble, Watcher};

/// A place that a rebuild could not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UnseenPlace {
    /// A configured store, by name: all of it, or platters whose sets no other platter names.
    Store(String),
    /// The staging folder.
    Staging,
    /// Unknown places: surplus keys, or sets with platters on no store, show that something was not
    /// found.
    Others,
}

/// Numbers that mark the rows of staging and [`UnseenPlace::Others`] among the unlisted versions.
/// Stores have 0.
const STAGING_NUMBER: u64 = 1;
const OTHERS_NUMBER: u64 = 2;

const FIRST_PAGE_ROWS: usize = 100;

impl UnseenPlace {
    fn to_record(&self) -> (ObjectName, u64) {
        let (name, number) = match self {
            Self::Store(name) => (name.as_str(), 0),
            Self::Staging => ("staging", STAGING_NUMBER),
            Self::Others => ("others", OTHERS_NUMBER),
        };
        (ObjectName(name.as_bytes().to_vec()), number)
    }

    /// The place that an unlisted version's row represents.
    pub(crate) fn of(version: &UnlistedVersion) -> Option<Self> {
        let (name, number) = version.known_as.as_ref().filter(|_| version.why == Unlisted::UnseenStore)?;
        Some(match *number {
            STAGING_NUMBER => Self::Staging,
            OTHERS_NUMBER => Self::Others,
            _ => Self::Store(name.display()),
        })
    }
}

impl fmt::Display for UnseenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(name) => write!(f, "store {name}"),
            Self::Staging => f.write_str("the staging folder"),
            Self::Others => f.write_str("unknown places"),
        }
    }
}

/// A place that a rebuild could not read, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// The place.
    pub place: UnseenPlace,
    /// The kind of failure.
    pub hindrance: Hindrance,
    /// Details: what was found, or the error of the operating system.
    pub why: String,
}

impl From<UnavailableStore> for Unseen {
    fn from(UnavailableStore { store, hindrance, why }: UnavailableStore) -> Self {
        Self { place: UnseenPlace::Store(store), hindrance, why }
    }
}

impl Archive {
    /// Forgets the unseen places of the last rebuild because they are gone for good. Returns them.
    /// Platters that the catalogue doesn't know, because too much of their sets was in these places
    /// or none of their headers is good, are left out; keys of versions that it doesn't know are
    /// kept, and no longer counted. If the places turn up after all, a rebuild finds those sets
    /// again.
    ///
    /// # Errors
    /// [`ArchiveError`] if the catalogue fails.
    pub fn give_up_unseen(&self) -> Result<GivenUp, ArchiveError> {
        let mut ids = Vec::new();
        let GivenUp { mut places, mut platters } = GivenUp::default();
        each_unlisted(self, &mut |version| {
            if let Some(place) = UnseenPlace::of(version) {
                ids.push(version.id);
                places.push(place);
            }
        })?;
        if !places.is_empty() {
            platters = platters_of_unseen_sets(self)?;
            self.catalogue().leave_out(&platters)?;
        }
        if places.contains(&UnseenPlace::Others) {
            let mut surplus = Vec::new();
            let listed = each_surplus_key(self, None, &mut |_, id| {
                surplus.push(as_left_out(id));
                Ok(())
            });
            // What can't be read of a damaged key store isn't given up.
            if !matches!(listed, Err(ArchiveError::Keys(KeyStoreError::Damaged { .. }))) {
                listed?;
            }
            self.catalogue().leave_out(&surplus)?;
        }
        self.catalogue().forget_unlisted(&ids, &[])?;
        Ok(GivenUp { places, platters })
    }
}

/// What [`Archive::give_up_unseen`] gave up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenUp {
    /// The unseen places.
    pub places: Vec<UnseenPlace>,
    /// Platters that are left out from now on.
    pub platters: Vec<PlatterId>,
}

/// Platters on the stores that the catalogue doesn't know, of sets that can't be read without more
/// platters, or without a good header that tells their set. Those that the system refuses to read
/// stay: they may be good.
fn platters_of_unseen_sets(archive: &Archive) -> Result<Vec<PlatterId>, ArchiveError> {
    // A platter may be on several stores; copies of it don't help.
    let mut on_stores: BTreeSet<PlatterId> = BTreeSet::new();
    let mut headless: BTreeSet<PlatterId> = BTreeSet::new();
    let mut sets: HashMap<SetId, Header> = HashMap::new();
    for UncataloguedPlatter { platter, header, .. } in find_uncatalogued(archive)? {
        on_stores.insert(platter);
        match header {
            Ok(header) => _ = sets.entry(header.set).or_insert(header),
            Err(HeaderTrouble::Unreadable(_)) => {}
            Err(HeaderTrouble::Bad(_) | HeaderTrouble::Misnamed { .. }) => _ = headless.insert(platter),
        }
    }
    for header in sets.into_values() {
        let members: Vec<PlatterId> = header.members.iter().map(|member| member.platter).filter(|id| on_stores.contains(id)).collect();
        // The set needs its headless platters, and can do without their headers.
        let is_readable = members.len() >= usize::from(header.shape.information);
        for platter in members {
            if is_readable {
                headless.remove(&platter);
            } else {
                headless.insert(platter);
            }
        }
    }
    Ok(headless.into_iter().collect())
}

/// True if the last rebuild found signs of stores that are not in the settings.
pub(crate) fn has_unknown_places(archive: &Archive) -> bool {
    // Their identifiers are the lowest.
    let first = archive.catalogue().unlisted(None, FIRST_PAGE_ROWS);
    first.is_ok_and(|first| first.iter().any(|version| UnseenPlace::of(version) == Some(UnseenPlace::Others)))
}

/// Checks that the staging folder is present, or that the operator gave it up. A folder without
/// a mark is accepted if it has segments, or if the earlier catalogue needs no segment and
/// never recorded a mark.
pub(super) fn find_staging(
    staging: &Staging,
    earlier: Option<&mut SqliteCatalogue>,
    unseen: UnseenStores,
    folder: &Path,
    watcher: &dyn Watcher,
) -> Result<Option<Unseen>, ArchiveError> {
    if staging.has_some_mark()? || staging.segments().is_ok_and(|segments| !segments.is_empty()) {
        return Ok(None);
    }
    let mut unseen_staging = None;
    let had_none = match earlier {
        Some(earlier) => !earlier.is_staging_marked()? && earlier.segments_in_use()?.is_empty(),
        None => false,
    };
    if !had_none {
        let absent = staging.absent();
        if unseen == UnseenStores::Refuse {
            return Err(absent.into());
        }
        let why = absent.to_string();
        watcher.trouble(Trouble::Note(&why));
        unseen_staging = Some(Unseen { place: UnseenPlace::Staging, hindrance: Hindrance::Absent, why });
    }
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        return Err(ArchiveError::NotAFolder(folder.to_owned()));
    }
    std::fs::create_dir_all(folder).map_err(ArchiveError::io(folder))?;
    Ok(unseen_staging)
}

/// True if the catalogue was rebuilt while staging was absent, and no later rebuild has seen
/// staging.
pub(crate) fn was_staging_unseen(archive: &Archive) -> Result<bool, ArchiveError> {
    Ok(unseen_places(&mut **archive.catalogue())?.contains(&UnseenPlace::Staging))
}

/// The stores that can't be used, or can't be listed.
pub(crate) fn unseen_stores(archive: &Archive) -> Vec<UnavailableStore> {
    let snapshot = StoreSnapshot::take(archive);
    let unlisted = snapshot.readable().filter_map(|(name, store)| {
        let why = store.list().err()?.to_string();
        Some(UnavailableStore { store: name.to_owned(), hindrance: Hindrance::Unreadable, why })
    });
    snapshot.unavailable.iter().cloned().chain(unlisted).collect()
}

pub(super) fn refuse_unseen_stores(archive: &Archive) -> Result<(), ArchiveError> {
    let unseen = unseen_stores(archive);
    match unseen.is_empty() {
        true => Ok(()),
        false => Err(ArchiveError::StoresUnseen(unseen)),
    }
}

pub(super) fn note_unseen(archive: &Archive, report: &RebuildReport) -> Result<(), ArchiveError> {
    let place = |(index, unseen): (usize, &Unseen)| UnlistedVersion {
        known_as: Some(unseen.place.to_record()),
        ..UnlistedVersion::new(VersionId((index as u128).to_be_bytes()), Unlisted::UnseenStore)
    };
    let places: Vec<_> = report.unseen.iter().enumerate().map(place).collect();
    Ok(archive.catalogue().adopt_unlisted(&places)?)
}

/// Calls `each` for the keys of versions that the catalogue doesn't [know](Catalogue::knows): all of
/// them, or those newer than `newest`.
fn each_surplus_key(
    archive: &Archive,
    newest: Option<VersionId>,
    each: &mut dyn FnMut(&mut dyn Catalogue, VersionId) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut pages = Pager::after(newest);
    while let Some(page) = pages.next(|after| archive.keys().page(after.copied(), BATCH))? {
        let mut catalogue = archive.catalogue();
        for (id, _) in page {
            if !catalogue.knows(id)? {
                each(&mut **catalogue, id)?;
            }
        }
    }
    Ok(())
}

/// The identifier by which a catalogue remembers, among the platters that it leaves out, that a key
/// was [given up](Archive::give_up_unseen).
fn as_left_out(key: VersionId) -> PlatterId {
    PlatterId(key.0)
}

/// Counts [surplus keys](each_surplus_key) in a rebuild, except those given up in the earlier
/// catalogue.
pub(super) fn surplus_keys(archive: &Archive, newest: Option<VersionId>, earlier: &mut Earlier<'_>) -> Result<u64, ArchiveError> {
    let (mut surplus, mut given_up) = (0, Vec::new());
    each_surplus_key(archive, newest, &mut |_, id| {
        let id = as_left_out(id);
        match earlier.query(|earlier| earlier.is_left_out(id)) {
            Some(true) => given_up.push(id),
            _ => surplus += 1,
        }
        Ok(())
    })?;
    archive.catalogue().leave_out(&given_up)?;
    Ok(surplus)
}

/// Counts the keys that are newer than all versions that the catalogue knows, except those that
/// were given up.
pub(crate) fn keys_of_later_versions(archive: &Archive) -> Result<u64, ArchiveError> {
    let newest = archive.catalogue().newest_id()?;
    let mut surplus = 0;
    each_surplus_key(archive, newest, &mut |catalogue, id| {
        surplus += u64::from(!catalogue.is_left_out(as_left_out(id))?);
        Ok(())
    })?;
    Ok(surplus)
}

pub(crate) fn unseen_places(catalogue: &mut dyn Catalogue) -> Result<Vec<UnseenPlace>, crate::catalogue::CatalogueError> {
    let mut places = Vec::new();
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| catalogue.unlisted(after.copied(), BATCH))? {
        places.extend(page.iter().filter_map(UnseenPlace::of));
    }
    Ok(places)
}

impl RebuildReport {
    /// Adds a platter that is on this store and can't be read, so that its set may be unknown.
    pub(super) fn add_unread_platter(&mut self, store: String, why: String) {
        let place = UnseenPlace::Store(store);
        match self.unseen.iter_mut().find(|unseen| unseen.place == place) {
            Some(unseen) => {
                unseen.why.push_str("; ");
                unseen.why.push_str(&why);
            }
            None => self.unseen.push(Unseen { place, hindrance: Hindrance::Unreadable, why }),
        }
    }

    /// Adds a sign of stores or folders that are not in the settings.
    pub(super) fn add_others(&mut self, why: String) {
        match self.unseen.iter_mut().find(|unseen| unseen.place == UnseenPlace::Others) {
            Some(others) => {
                others.why.push_str("; ");
                others.why.push_str(&why);
            }
            None => self.unseen.push(Unseen { place: UnseenPlace::Others, hindrance: Hindrance::Absent, why }),
        }
    }
}
