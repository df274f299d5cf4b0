//! Inspects a platter file without an archive: its header, its entries and its damage.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fulgurite_format::{Entry, FindHeaderError, FoundHeader, Header, find_header};
use fulgurite_glass::{GlassHead, PlatterSource, Track};

use crate::catalogue::SetDescription;
use crate::set_reader::{OpenSet, SetReader};
use crate::settings::{GlassSettings, Limits};
use crate::store::{GlassDrives, PlatterFile, read_exact_at};
use crate::tables::{TableTrouble, read_table};
use crate::unread::{Loaded, Presence};
use crate::watch::Unwatched;

/// The name of the store of an inspected file: it is on no store.
const NO_STORE: &str = "";

/// Results of an inspection.
#[derive(Debug)]
pub struct Inspection {
    /// The header, and which copies of it are good.
    pub found: FoundHeader,
    /// Length of the file.
    pub file_bytes: u64,
    /// The head of the glass; `None` on the disk medium.
    pub glass: Option<GlassHead>,
    /// Sectors of the platter.
    pub sectors: u64,
    /// Number of sectors that reads did not provide: damaged ones, those past the end of the file,
    /// and `unreadable_sectors`. (The findings of a scrub count unreadable sectors apart.)
    pub lost_sectors: u64,
    /// Those of `lost_sectors` that the system refused to read, and that may be intact.
    pub unreadable_sectors: u64,
    /// How many of `lost_sectors` are normal: some sectors of glass can never be read.
    pub expected_losses: u64,
    /// How many of the glass's two heads are damaged.
    pub bad_heads: u32,
    /// Tracks that lost sectors, all of which the track's own code can rebuild.
    pub tracks_by_track: u32,
    /// Tracks that their own code can't rebuild.
    pub lost_tracks: u32,
    /// Lost information tracks that the large groups can rebuild.
    pub tracks_by_group: u32,
    /// Lost information tracks.
    pub lost_information_tracks: u32,
    /// Number of entries in the file table, or why the table can't be read from this platter alone;
    /// `None` for a redundancy platter, which has no table.
    pub entries: Option<Result<u64, String>>,
}

/// Why a file can't be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The file can't be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a platter, its format is newer, or its header is lost.
    #[error("{path}: {source}")]
    Header {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: FindHeaderError,
    },
}

struct Source(File);

impl PlatterSource for Source {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

impl PlatterFile for Source {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// Reads a platter file in full, and calls `on_entry` with each entry of its file table.
///
/// # Errors
/// [`InspectError`] if the file isn't a readable platter.
pub fn inspect(path: &Path, on_entry: &mut dyn FnMut(&Entry)) -> Result<Inspection, InspectError> {
    let io_error = |source| InspectError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io_error)?;
    let metadata = file.metadata().map_err(io_error)?;
    if !metadata.is_file() {
        return Err(io_error(io::Error::new(io::ErrorKind::InvalidInput, "not a file")));
    }
    let drives = GlassDrives::new(GlassSettings::default(), Limits::default().threads);
    let platter = Arc::new(drives.load(Arc::new(Source(file))));
    let glass = platter.glass().map_err(io_error)?.map(|glass| glass.head().clone());
    let platter_bytes = platter.length().map_err(io_error)?;
    let found = find(path, &*platter, platter_bytes)?;
    let header = &found.header;
    let geometry = header.geometry;
    let bad_heads = platter.bad_heads().map_err(io_error)?;
    let loaded = Loaded::new(header.platter, geometry, platter, NO_STORE);
    let mut inspection = Inspection {
        file_bytes: metadata.len(),
        glass,
        sectors: u64::from(geometry.physical_tracks()) * u64::from(geometry.track_sectors()),
        lost_sectors: 0,
        unreadable_sectors: 0,
        expected_losses: 0,
        bad_heads,
        tracks_by_track: 0,
        lost_tracks: 0,
        tracks_by_group: 0,
        lost_information_tracks: 0,
        entries: None,
        found: found.clone(),
    };
    inspection.read_tracks(&loaded, platter_bytes);
    if header.carries_information() {
        inspection.entries = Some(read_entries(header, loaded, on_entry));
    }
    Ok(inspection)
}

fn find(path: &Path, platter: &dyn PlatterFile, platter_bytes: u64) -> Result<FoundHeader, InspectError> {
    let mut io_error = None;
    let found = find_header(platter_bytes, |offset, buffer| {
        let read = read_exact_at(platter, offset, buffer);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            io_error.get_or_insert_with(|| io::Error::new(error.kind(), error.to_string()));
        }
        read
    });
    match (found, io_error) {
        (Ok(found), _) => Ok(found),
        // If a header copy could not be read, the file may still be a platter.
        (Err(_), Some(source)) => Err(InspectError::Io { path: path.to_owned(), source }),
        (Err(source), None) => Err(InspectError::Header { path: path.to_owned(), source }),
    }
}

impl Inspection {
    /// The length that the file of an intact platter would have.
    #[must_use]
    pub fn expected_file_bytes(&self) -> u64 {
        self.glass.as_ref().map_or_else(|| self.found.header.geometry.file_bytes(), GlassHead::file_bytes)
    }

    /// Reads the tracks of a platter of `end` bytes.
    fn read_tracks(&mut self, loaded: &Loaded, end: u64) {
        let drive = &loaded.drive;
        let geometry = drive.geometry();
        let set = SetDescription::of(&self.found.header, |_| String::new());
        // A forged header in a short file can claim a platter that would take years to read.
        let is_beyond_end = |physical| geometry.track_offset(physical) >= end;
        let mut track = Track::new(geometry);
        for group in (0..geometry.groups()).map(|index| geometry.group(index)) {
            if is_beyond_end(group.physical) {
                let tracks = geometry.physical_tracks() - group.physical.0;
                self.lost_tracks += tracks;
                self.lost_sectors += u64::from(tracks) * u64::from(geometry.track_sectors());
                self.lost_information_tracks += geometry.information_tracks - group.first.0;
                break;
            }
            let mut lost_information = 0;
            let mut is_information_beyond_end = false;
            for (index, physical) in group.information_tracks().chain(group.redundancy_tracks()).enumerate() {
                if is_beyond_end(physical) {
                    self.lost_sectors += u64::from(geometry.track_sectors());
                    self.lost_tracks += 1;
                    if index < group.information as usize {
                        is_information_beyond_end = true;
                        lost_information += 1;
                    }
                    continue;
                }
                let read = drive.read(physical, &mut track);
                self.unreadable_sectors += loaded.unreadable_sectors(physical);
                match read {
                    Ok(sectors) => {
                        self.lost_sectors += sectors as u64;
                        if sectors <= set.bearable_losses() && loaded.unreadable_sectors(physical) == 0 {
                            self.expected_losses += sectors as u64;
                        }
                        self.tracks_by_track += u32::from(sectors > 0);
                    }
                    Err(found) => {
                        self.lost_sectors += found.sectors as u64;
                        self.lost_tracks += 1;
                        if index < group.information as usize {
                            lost_information += 1;
                        }
                    }
                }
            }
            self.lost_information_tracks += lost_information;
            // If the file ends before an information track, all redundancy tracks of the group are
            // past its end too, so nothing can rebuild it. Otherwise this asks only whether the
            // group could be repaired: no sectors are wanted.
            if lost_information > 0 && !is_information_beyond_end && drive.repair_group(group, &[]).is_ok() {
                self.tracks_by_group += lost_information;
            }
        }
        // More than chance explains: then none are expected, and all count as damage.
        if self.expected_losses > set.bearable_losses_of_platter() {
            self.expected_losses = 0;
        }
    }
}

/// Reads the file table of a single platter, and counts its entries.
fn read_entries(header: &Header, platter: Loaded, on_entry: &mut dyn FnMut(&Entry)) -> Result<u64, String> {
    let mut members: Vec<Presence> = header.members.iter().map(|_| Presence::missing(NO_STORE)).collect();
    members[usize::from(header.position)] = Presence::Loaded(platter);
    let rebuilding = Mutex::new(());
    let mut reader = SetReader::new(&rebuilding, 1);
    reader.open(Arc::new(OpenSet { description: SetDescription::of(header, |_| String::new()), members }));
    let mut count = 0;
    let read = read_table::<Infallible>(&mut reader, header, &Unwatched, &mut |entry| {
        on_entry(&entry);
        count += 1;
        Ok(())
    });
    match read {
        Ok(()) => Ok(count),
        Err(TableTrouble::Unreadable(why)) => Err(why),
    }
}
