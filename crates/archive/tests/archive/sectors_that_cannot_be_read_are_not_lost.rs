//! A scrub counts sectors that the system refuses to read as unreadable, on platters that the
//! catalogue knows and on others.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Arc;

use crate::support::different_store::{Difference, open_on};
use crate::support::{Home, noise, put_all};
use fulgurite_archive::archive::CATALOGUE_FILE;
use fulgurite_archive::store::{PlatterFile, PlatterStore};
use fulgurite_archive::unread::Hindrance;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, PlatterState};
use fulgurite_domain::PlatterId;
use fulgurite_glass::PlatterSource;

/// A byte of each platter file that can't be read. It is in a sector.
const BAD_BYTE: u64 = 20_000;

/// A store that can't read it.
struct Refusing;

struct File(Arc<dyn PlatterFile>);

impl PlatterSource for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match (offset..offset + buffer.len() as u64).contains(&BAD_BYTE) {
            true => Err(io::Error::other("input/output error")),
            false => self.0.read_at(offset, buffer),
        }
    }
}

impl PlatterFile for File {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

impl Difference for Refusing {
    fn open(&self, inner: &dyn PlatterStore, platter: PlatterId) -> io::Result<Option<Arc<dyn PlatterFile>>> {
        Ok(inner.open(platter)?.map(|file| Arc::new(File(file)) as Arc<dyn PlatterFile>))
    }
}

fn open(home: &Home, catalogue: &str) -> Archive {
    open_on(home, catalogue, || Refusing)
}

#[test]
fn refused_sectors_are_unreadable_whether_or_not_the_catalogue_knows_the_platter() {
    let home = Home::new(2, 1);
    fs::copy(home.path().join(CATALOGUE_FILE), home.path().join("old.db")).expect("an old copy");
    let archive = home.open();
    put_all(&archive, &BTreeMap::from([(b"a".to_vec(), noise(1, 200_000))]));
    archive.flush(&Unwatched).expect("flushed");
    drop(archive);
    let platters = home.platter_files().len();

    let known = open(&home, CATALOGUE_FILE).scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((known.unsound.len(), known.unknown.len()), (platters, 0));
    for finding in &known.unsound {
        assert_eq!((finding.state(), finding.lost_sectors, finding.unreadable), (PlatterState::Unreadable, 0, 1));
    }

    let unknown = open(&home, "old.db").scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((unknown.unsound.len(), unknown.unknown.len()), (0, platters));
    for platter in &unknown.unknown {
        assert_eq!((&platter.why_unreadable, platter.lost_sectors, platter.unreadable), (&None, 0, 1));
    }
    assert_eq!((known.hindrance(), unknown.hindrance()), (Some(Hindrance::Unreadable), Some(Hindrance::Unreadable)));
}
