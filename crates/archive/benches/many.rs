//! Reads all objects of an archive into memory, as `get_many` of the Python package does.
//!
//! `cargo bench -p fulgurite-archive --bench many -- ARCHIVE [ROUNDS]` prints the seconds of each
//! round: finding the objects by name, and reading them. `python/benches/many.py` runs it beside
//! the Python package.

use std::path::PathBuf;
use std::time::Instant;

use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::many::ReadInto;
use fulgurite_archive::paging::Pager;
use fulgurite_archive::reserved::is_reserved;
use fulgurite_archive::{Access, Archive};

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let home = PathBuf::from(arguments.next().expect("the folder of an archive"));
    let rounds: u32 = arguments.next().map_or(3, |text| text.parse().expect("a number of rounds"));
    let archive = Archive::open(&home, Access::Read).expect("open");
    let mut names = Vec::new();
    let mut pages = Pager::default();
    while let Some(page) = pages.next(|after| archive.reading().list(b"", Versions::Newest, after, 1_000)).expect("listed") {
        names.extend(page.into_iter().filter(|row| !is_reserved(&row.record.name)).map(|row| (row.record.name, None)));
    }
    for _ in 0..rounds {
        let begun = Instant::now();
        let rows: Vec<_> = archive.find_many(&names).into_iter().map(|row| row.expect("found")).collect();
        let positions = archive.place_many(&rows.iter().collect::<Vec<_>>());
        let found = begun.elapsed();
        let mut content = vec![0; rows.iter().map(|row| row.record.size as usize).sum()];
        let mut rest = &mut content[..];
        let read = |(version, position): (_, Result<_, _>)| {
            let version: &fulgurite_archive::catalogue::VersionRow = version;
            let out = rest.split_off_mut(..version.record.size as usize).expect("as long as all of them");
            ReadInto { version, position: position.expect("placed"), range: 0..version.record.size, out }
        };
        let reads = rows.iter().zip(positions).map(read).collect();
        let (results, _) = archive.read_many(reads);
        assert!(results.iter().all(Result::is_ok));
        println!("{:.4} {:.4} {} {}", found.as_secs_f64(), begun.elapsed().as_secs_f64(), rows.len(), content.len());
    }
}
