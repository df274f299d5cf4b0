//! Platter files with malicious headers: valid checksums, but values that no writer produces.

use std::path::Path;
use std::time::{Duration, Instant};

use fulgurite_archive::inspect::{Inspection, inspect};
use fulgurite_chance::Xorshift;
use fulgurite_domain::Geometry;
use fulgurite_format::Header;

fn golden() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v1/information-0.platter");
    std::fs::read(path).expect("a golden file")
}

/// Changes the first header of a golden platter, truncates the file to `length`, and inspects it.
fn inspected(length: usize, change: impl FnOnce(&mut Header)) -> Option<Inspection> {
    let mut image = golden();
    let mut header = Header::from_block(&image[..Geometry::HEADER_BYTES as usize]).expect("a good header");
    change(&mut header);
    // Headers that can't be encoded can't be read either, so they do no harm.
    let block = header.to_block().ok()?;
    image[..block.len()].copy_from_slice(&block);
    image.truncate(length);
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), image).expect("written");
    inspect(file.path(), &mut |_| {}).ok()
}

#[test]
fn a_header_that_claims_petabytes_is_inspected_quickly() {
    let start = Instant::now();
    for group_information in [1, 200] {
        for length in [16_384, 100_000, usize::MAX] {
            let found = inspected(length, |header| {
                header.geometry = Geometry {
                    sector_bytes: 65_536,
                    track_information: 200,
                    track_redundancy: 55,
                    group_information,
                    group_redundancy: 1,
                    information_tracks: 1 << 29,
                };
            });
            let found = found.expect("a header that can be read");
            assert_eq!((found.lost_information_tracks, found.tracks_by_group), (1 << 29, 0));
            assert_eq!(found.lost_sectors, found.sectors);
            assert!(matches!(found.entries, Some(Err(_))));
        }
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn random_header_values_do_no_harm() {
    let mut random = Xorshift::new(0x9e37_79b9_7f4a_7c15);
    let mut below = |bound: u64| random.bits() % bound;
    let mut read = 0;
    for _ in 0..400 {
        let length = if below(2) == 0 { usize::MAX } else { below(400_000) as usize };
        let mut some = |usual: u64, most: u64| match below(4) {
            0 => below(most + 1),
            1 => [0, 1, most, most / 2][below(4) as usize],
            _ => usual,
        };
        let found = inspected(length, |header| {
            let geometry = &mut header.geometry;
            geometry.sector_bytes = 1 << some(geometry.sector_bytes.ilog2().into(), 17);
            geometry.track_information = some(geometry.track_information.into(), 256) as u16;
            geometry.track_redundancy = some(geometry.track_redundancy.into(), 256) as u16;
            geometry.group_information = some(geometry.group_information.into(), 65_535) as u16;
            geometry.group_redundancy = some(geometry.group_redundancy.into(), 65_535) as u16;
            geometry.information_tracks = some(geometry.information_tracks.into(), u32::MAX.into()) as u32;
            let content = geometry.content_bytes();
            for member in header.members.iter_mut().filter(|member| member.table_bytes > 0) {
                member.table_offset = some(member.table_offset, content);
                member.table_bytes = some(member.table_bytes, content);
            }
            header.written = some(header.written, u64::MAX - 1);
        });
        read += u32::from(found.is_some());
    }
    assert!(read > 20, "only {read} of these headers could be read at all");
}
