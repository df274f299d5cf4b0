//! Reads platters in full.

use std::cell::OnceCell;

use fulgurite_domain::{Geometry, TrackIndex};
use fulgurite_format::Header;
use fulgurite_glass::Track;

use super::{PlatterFinding, PlatterState};
use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Repair, SetDescription, UNKNOWN_STORE};
use crate::clock::unix_s;
use crate::set_reader::OpenSet;
use crate::store::{PlatterFile, read_exact_at};
use crate::store_snapshot::StoreSnapshot;
use crate::unread::{Loaded, NoPlatter, Presence};
use crate::watch::{Trouble, Watcher, check_not_stopped};

/// Reads a platter in full. Also returns the bytes read. Fails if the watcher stops it: what was
/// found until then says nothing about the rest of the platter.
///
/// What is wrong or missing is looked for again, over newly checked stores and a newly opened file,
/// before it counts: a fault on the way to a platter must not pass for damage.
pub(super) fn read_platter(
    archive: &Archive,
    set: &OpenSet,
    position: u16,
    watcher: &dyn Watcher,
) -> Result<(PlatterFinding, u64), ArchiveError> {
    let mut finding = PlatterFinding::new(&set.description, position);
    let place = &set.description.platters[usize::from(position)];
    let again;
    let presence = match &set.members[usize::from(position)] {
        Presence::Unavailable(NoPlatter::Missing { .. }) => {
            again = look_again(archive, set, position);
            &again
        }
        first => first,
    };
    let loaded = match presence {
        Presence::Loaded(loaded) => loaded,
        Presence::Unavailable(why) => {
            if let (UNKNOWN_STORE, NoPlatter::Unavailable(store)) = (finding.store.as_str(), why) {
                // `why` names the only store that may hold it.
                finding.store.clone_from(&store.store);
            }
            finding.unavailable = Some(why.clone());
            watcher.done(0, set.description.geometry.file_bytes());
            return Ok((finding, 0));
        }
    };
    let bytes = read_tracks(loaded, &set.description, &mut finding, &|| look_again(archive, set, position).loaded(), watcher)?;
    let mut snapshot = StoreSnapshot::take(archive);
    let mut headers = finding.clone();
    if let Ok(found) = snapshot.find(place) {
        read_headers(&*found.file.for_verification().unwrap_or(found.file), &set.description, &mut headers);
        if headers.bad_headers > 0 {
            snapshot = StoreSnapshot::take(archive);
        }
    }
    match snapshot.find(place) {
        Ok(found) => {
            if let Some(what) = found.file.not_a_file() {
                watcher.trouble(Trouble::Note(&format!("platter {}: {what}", place.platter)));
            }
            if headers.bad_headers > 0 {
                let file = found.file.for_verification().unwrap_or(found.file);
                read_headers(&*file, &set.description, &mut finding);
                finding.good_when_reread += u64::from(finding.bad_headers == 0 && finding.unreadable == 0);
            } else {
                finding = headers;
            }
            if place.store == UNKNOWN_STORE {
                finding.turned_up = true;
                finding.store = found.store;
            } else {
                finding.elsewhere = (found.store != place.store).then_some(found.store);
                finding.own_store = snapshot.hindrance(&place.store);
            }
        }
        // The platter disappeared while it was read.
        Err(why) => finding.unavailable = Some(why),
    }
    Ok((finding, bytes))
}

/// Opens a platter once more, after a fresh look at the stores.
fn look_again(archive: &Archive, set: &OpenSet, position: u16) -> Presence {
    OpenSet::for_verification(archive, &set.description).members.swap_remove(usize::from(position))
}

/// Reads all tracks of a present platter, and returns the bytes read. Losses that are normal for
/// the set's medium are counted apart. Fails if the watcher stops it.
///
/// A track that is wrong is read again from what `open_again` returns, which is called once; the
/// second reading counts. `None` means that the platter can't be opened again.
pub(super) fn read_tracks(
    loaded: &Loaded,
    set: &SetDescription,
    finding: &mut PlatterFinding,
    open_again: &dyn Fn() -> Option<Loaded>,
    watcher: &dyn Watcher,
) -> Result<u64, ArchiveError> {
    let reopened: OnceCell<Option<Loaded>> = OnceCell::new();
    let drive = &loaded.drive;
    let bearable_losses = set.bearable_losses();
    let geometry = drive.geometry();
    let mut track = Track::new(geometry);
    let mut bytes = 0;
    for group in (0..geometry.groups()).map(|index| geometry.group(index)) {
        for physical in group.information_tracks().chain(group.redundancy_tracks()) {
            loaded.wait_until_cheap(&|| {
                watcher.waits();
                !watcher.is_stopped()
            });
            check_not_stopped(watcher)?;
            let mut read = drive.read(physical, &mut track);
            let mut refused = loaded.unreadable_sectors(physical);
            let is_wrong = |read: &Result<usize, _>, refused| refused == 0 && !matches!(read, Ok(sectors) if *sectors <= bearable_losses);
            if is_wrong(&read, refused)
                && let Some(again) = reopened.get_or_init(open_again)
            {
                read = again.drive.read(physical, &mut track);
                refused = again.unreadable_sectors(physical);
                bytes += geometry.track_stride() as u64;
                watcher.expect(0, geometry.track_stride() as u64);
                watcher.done(0, geometry.track_stride() as u64);
                if refused == 0 && !is_wrong(&read, refused) {
                    finding.good_when_reread += 1;
                }
                finding.why_unreadable = finding.why_unreadable.take().or_else(|| again.why_unreadable().map(str::to_owned));
            }
            finding.unreadable += refused;
            match read {
                Ok(sectors) if sectors <= bearable_losses && refused == 0 => finding.expected_losses += sectors as u64,
                Ok(sectors) => finding.lost_sectors += (sectors as u64).saturating_sub(refused),
                Err(lost) => {
                    finding.lost_sectors += (lost.sectors as u64).saturating_sub(refused);
                    finding.lost_tracks += 1;
                    if physical.0 < group.physical.0 + group.information {
                        let index = TrackIndex(group.first.0 + (physical.0 - group.physical.0));
                        finding.lost.insert(index, (0..geometry.track_information).filter(|&s| track.is_lost(s)).collect());
                    }
                }
            }
            bytes += (geometry.track_stride() as u64).saturating_sub(refused * geometry.sector_stride() as u64);
            watcher.done(0, geometry.track_stride() as u64);
            check_not_stopped(watcher)?;
        }
    }
    if finding.expected_losses > set.bearable_losses_of_platter() {
        finding.lost_sectors += std::mem::take(&mut finding.expected_losses);
    }
    finding.why_unreadable = loaded.why_unreadable().map(str::to_owned).or(finding.why_unreadable.take());
    Ok(bytes)
}

pub(super) fn read_headers(file: &dyn PlatterFile, set: &SetDescription, finding: &mut PlatterFinding) {
    for offset in set.geometry.header_offsets() {
        let mut block = vec![0; Geometry::HEADER_BYTES as usize];
        let is_good = match read_exact_at(file, offset, &mut block) {
            Ok(()) => Header::from_block(&block).is_ok_and(|header| header.platter == finding.platter && header.set == set.id),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => false,
            Err(error) => {
                finding.unreadable += 1;
                finding.why_unreadable.get_or_insert_with(|| error.to_string());
                continue;
            }
        };
        finding.bad_headers += u32::from(!is_good);
    }
    match file.bad_heads() {
        Ok(bad) => finding.bad_headers += bad,
        Err(error) => {
            finding.unreadable += 1;
            finding.why_unreadable.get_or_insert_with(|| error.to_string());
        }
    }
    // If parts can't be read, the file length is no evidence of damage.
    let length_is_wrong = finding.unreadable == 0 && file.length().is_ok_and(|length| length != set.geometry.file_bytes());
    finding.bad_headers = finding.bad_headers.max(length_is_wrong.into());
}

/// Records what the reading of a platter of `set` has shown. `repaired_from` is the state in which
/// the platter was found, with its lost sectors, if it has been rewritten since.
pub(super) fn record(
    archive: &Archive,
    set: &SetDescription,
    finding: &PlatterFinding,
    repaired_from: Option<(PlatterState, u64)>,
) -> Result<(), ArchiveError> {
    // A read-only archive can't record anything.
    if archive.is_read_only() {
        return Ok(());
    }
    // Under one lock, so that nothing changes the platter's health in between.
    let mut catalogue = archive.catalogue();
    if finding.turned_up {
        catalogue.move_platter(finding.platter, &finding.store)?;
    }
    let rows = catalogue.platters_of(set.id)?;
    let before = rows.iter().find(|row| row.place.platter == finding.platter).map(|row| row.health).unwrap_or_default();
    let at = unix_s();
    // Absent platters yield no new information.
    let Some(mut after) = finding.health(&before, at) else { return Ok(()) };
    if let Some((found, lost_sectors)) = repaired_from {
        after.repaired = Some(Repair { at, found, lost_sectors });
    }
    Ok(catalogue.record_health(finding.platter, after)?)
}
