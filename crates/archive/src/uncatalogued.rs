//! Platters on the stores, and records in staging, that the catalogue doesn't know: a sign that the
//! catalogue is an old copy, or that a rebuild did not see the rest of their sets.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use fulgurite_domain::PlatterId;
use fulgurite_format::{Header, RecordKind, SegmentError};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{PlatterRow, SetState, UNKNOWN_STORE};
use crate::lock::Lock;
use crate::rebuild::{unseen_places, unseen_stores};
use crate::store::PlatterStore;
use crate::store_snapshot::StoreSnapshot;
use crate::tables::{HeaderTrouble, read_header};
use crate::unread::UnavailableStore;

/// A platter of this archive that the catalogue doesn't know.
#[derive(Debug, Clone)]
pub(crate) struct UncataloguedPlatter {
    pub(crate) platter: PlatterId,
    pub(crate) store: String,
    /// Its header, or why none can be read; the platter's archive is unknown then.
    pub(crate) header: Result<Header, HeaderTrouble>,
}

pub(crate) struct StoreComparison {
    /// See [`find_uncatalogued`].
    pub(crate) uncatalogued: Vec<UncataloguedPlatter>,
    /// Platters of complete sets that are on no store that could be listed, if their own store was
    /// listed, or all stores were.
    pub(crate) missing: HashSet<PlatterId>,
}

/// Finds platters on the stores that the catalogue doesn't know, except those of other archives and
/// those that it ignores. Skips stores that are absent or can't be listed.
pub(crate) fn find_uncatalogued(archive: &Archive) -> Result<Vec<UncataloguedPlatter>, ArchiveError> {
    Ok(compare_stores(archive)?.uncatalogued)
}

/// A store with its name and what it lists.
type Listed = (String, Arc<dyn PlatterStore>, io::Result<Vec<PlatterId>>);

/// What the stores list.
struct Listing {
    snapshot: StoreSnapshot,
    found: Vec<Listed>,
    on_stores: HashSet<PlatterId>,
}

impl Listing {
    fn of(snapshot: StoreSnapshot) -> Self {
        let found: Vec<_> = snapshot.readable().map(|(name, store)| (name.to_owned(), store.clone(), store.list())).collect();
        let on_stores = found.iter().flat_map(|(_, _, listed)| listed.iter().flatten().copied()).collect();
        Self { snapshot, found, on_stores }
    }

    /// Whether a platter of a complete set is on no store that could be listed, and its own store,
    /// or each store, was listed. The set must have been complete before the stores were listed.
    fn is_missing(&self, row: &PlatterRow) -> bool {
        let is_listed = |store: &str| self.found.iter().any(|(name, _, listed)| *name == store && listed.is_ok());
        let all_listed = || self.snapshot.unavailable.is_empty() && self.found.iter().all(|(_, _, listed)| listed.is_ok());
        let may_be_elsewhere = row.place.store == UNKNOWN_STORE && self.snapshot.has_unknown;
        !may_be_elsewhere && !self.on_stores.contains(&row.place.platter) && (is_listed(&row.place.store) || all_listed())
    }
}

/// Platters of complete sets that are missing from stores that could be listed. Others can commit
/// meanwhile.
pub(crate) fn find_missing(archive: &Archive) -> Result<Vec<PlatterRow>, ArchiveError> {
    let snapshot = StoreSnapshot::take(archive);
    let mut rows = archive.reading().platters()?;
    rows.retain(|row| row.state == SetState::Complete);
    let listing = Listing::of(snapshot);
    let mut missing = Vec::new();
    for row in rows.into_iter().filter(|row| listing.is_missing(row)) {
        // The set may have been removed since.
        if archive.reading().set_of(row.place.platter)?.is_some() {
            missing.push(row);
        }
    }
    Ok(missing)
}

/// Compares the platters that the stores list with those in the catalogue.
pub(crate) fn compare_stores(archive: &Archive) -> Result<StoreComparison, ArchiveError> {
    let snapshot = StoreSnapshot::take(archive);
    // The order matters. A set begun in between is in the catalogue before its platters are on
    // stores; a complete set is on the stores before the catalogue lists it as complete.
    let complete: Vec<PlatterRow> = archive.catalogue().platters()?.into_iter().filter(|row| row.state == SetState::Complete).collect();
    let listing = Listing::of(snapshot);
    let known: HashSet<PlatterId> = archive.catalogue().platters()?.into_iter().map(|row| row.place.platter).collect();
    // Its set may have been removed from the catalogue since `complete` was read.
    let is_missing = |row: &&PlatterRow| known.contains(&row.place.platter) && listing.is_missing(row);
    let missing = complete.iter().filter(is_missing).map(|row| row.place.platter).collect();
    let mut uncatalogued = Vec::new();
    for (name, store, listed) in listing.found {
        let listed = listed.unwrap_or_default();
        for platter in listed {
            if known.contains(&platter) || archive.catalogue().is_left_out(platter)? {
                continue;
            }
            let header = read_header(&*store, platter);
            let owner = match &header {
                Ok(header) => Some(header.archive),
                Err(HeaderTrouble::Misnamed { archive, .. }) => Some(*archive),
                Err(_) => None,
            };
            if owner.is_none_or(|owner| owner == archive.id()) {
                uncatalogued.push(UncataloguedPlatter { platter, store: name.clone(), header });
            }
        }
    }
    Ok(StoreComparison { uncatalogued, missing })
}

/// Fails if the stores have platters of this archive that the catalogue doesn't know: new versions
/// would get numbers that unknown versions already have. Ignores platters whose header can't be
/// read, since they may belong to another archive.
pub(crate) fn refuse_uncatalogued(archive: &Archive) -> Result<(), ArchiveError> {
    let uncatalogued = find_uncatalogued(archive)?;
    let mut ours = uncatalogued.iter().filter(|platter| platter.header.is_ok());
    let Some(first) = ours.next() else { return Ok(()) };
    let unseen = unseen_places(&mut **archive.catalogue())?;
    Err(ArchiveError::UnknownPlatters {
        platters: 1 + ours.count() as u64,
        first: first.platter,
        store: first.store.clone(),
        is_unseen: !unseen.is_empty(),
    })
}

/// The stores that can't be used or listed, if there are more of them than the redundancy of a set.
/// They may then hold all platters of a small set, and no other store shows that the catalogue is
/// an old copy without it.
///
/// # Errors
/// [`ArchiveError`] if the catalogue fails.
pub fn hiding_stores(archive: &Archive) -> Result<Vec<UnavailableStore>, ArchiveError> {
    let unavailable = unseen_stores(archive);
    if unavailable.is_empty() {
        return Ok(unavailable);
    }
    let sets = archive.catalogue().sets()?;
    let mut shapes = sets.iter().map(|set| set.description.shape).chain([archive.settings().shape()]);
    let hides = shapes.any(|shape| unavailable.len() > usize::from(shape.redundancy));
    Ok(if hides { unavailable } else { Vec::new() })
}

/// A staging segment and the position from which the catalogue doesn't know its records.
type UnknownPart = (u64, u64);

/// Counts the versions and removals in staging that the catalogue doesn't know: it is an old copy,
/// or a put or a removal was interrupted. Returns 0 while a process may change the archive, which
/// has [reconciled](Archive::reconcile) it, and if staging can't be listed.
///
/// # Errors
/// [`ArchiveError`] if the catalogue fails.
pub fn count_unknown_staged(archive: &Archive) -> Result<u64, ArchiveError> {
    let Ok(existing) = archive.staging().segments() else { return Ok(0) };
    // Segments that disappear were released.
    let lengths: HashMap<u64, u64> =
        existing.iter().filter_map(|&segment| Some((segment, archive.staging().length(segment).ok()?))).collect();
    // The order matters. A put in progress has records that the catalogue doesn't know. If no
    // process holds the lock now, the catalogue knows whatever was acknowledged in these segments.
    if unknown_parts(archive, &existing, &lengths)?.is_empty() || !Lock::is_free(archive.home()) {
        return Ok(0);
    }
    let mut records = 0;
    for (segment, from) in unknown_parts(archive, &existing, &lengths)? {
        let scan = archive.staging().scan(segment, false, |record| {
            records += u64::from(record.position >= from && record.kind != RecordKind::Data);
        });
        // A segment that can't be read may have any records.
        let is_refused = matches!(scan, Err(_) | Ok(Err(SegmentError::Read { .. })));
        records += u64::from(is_refused && archive.staging().segments().is_ok_and(|now| now.binary_search(&segment).is_ok()));
    }
    Ok(records)
}

fn unknown_parts(archive: &Archive, existing: &[u64], lengths: &HashMap<u64, u64>) -> Result<Vec<UnknownPart>, ArchiveError> {
    let mut catalogue = archive.catalogue();
    let used = catalogue.segments_in_use()?;
    let ends: HashMap<u64, u64> = catalogue.segment_ends()?.into_iter().map(|end| (end.segment, end.bytes)).collect();
    let released = catalogue.old_segments(existing, &used)?;
    let unknown = existing.iter().filter(|segment| released.binary_search(segment).is_err()).filter_map(|&segment| {
        let from = match used.binary_search(&segment) {
            Ok(_) => ends.get(&segment).copied().filter(|end| lengths.get(&segment).is_some_and(|length| length > end))?,
            Err(_) => 0,
        };
        Some((segment, from))
    });
    Ok(unknown.collect())
}
