//! Properties of demand: order, repeatability, shards, accounts, and that sources add up.

use std::collections::{BTreeMap, BTreeSet};

use fulgurite_domain::Micros;
use fulgurite_workload::{
    AccountLayout, Arrivals, Demand, Interval, Platters, Popularity, Preset, Read, SHARD_BYTES, Sizes, Source, Spec, SpecError, Statistics,
};

fn spec(sources: &[Source]) -> Spec {
    Spec { platters: Platters::new(4_000), shard_bytes: SHARD_BYTES, until: Micros::NEVER, sources: sources.to_vec() }
}

fn reads(spec: &Spec, seed: u64, count: usize) -> Vec<Read> {
    Demand::new(spec, seed).unwrap().take(count).collect()
}

const POISSON: Arrivals = Arrivals::Poisson { per_second: 10.0 };

fn hash(reads: &[Read]) -> u64 {
    let fields = |read: &Read| {
        let Read { at, request, group, object, file_bytes, bytes, platter, first_track, tracks, shard, shards } = *read;
        let small = [platter, first_track, tracks, shard, shards].map(u64::from);
        [at.0, request, group, object, file_bytes, bytes].into_iter().chain(small)
    };
    let bytes = reads.iter().flat_map(fields).flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn a_seed_gives_the_same_reads_on_every_machine() {
    let hashes = Preset::ALL.map(|preset| hash(&reads(&preset.spec().unwrap(), 42, 20_000)));
    assert_eq!(hashes, GOLDEN_PRESETS);
    let modulated =
        Arrivals::Modulated { median_per_second: 0.01, spread: 1e4, period: Micros::HOUR, persistence: 0.6, most_per_second: 100.0 };
    let zipf = Source {
        popularity: Popularity::Zipf { exponent: 1.1 },
        account_files: 5,
        layout: AccountLayout::Scattered,
        ..Source::plain(modulated, Sizes::Exponential { mean_bytes: 5e6 })
    };
    assert_eq!(hash(&reads(&spec(&[zipf]), 42, 20_000)), GOLDEN_ZIPF);
}

const GOLDEN_PRESETS: [u64; 4] =
    [13_869_066_997_249_435_469, 427_047_463_063_128_189, 10_940_851_643_491_435_167, 7_876_386_423_937_121_562];
const GOLDEN_ZIPF: u64 = 8_961_156_074_757_151_613;

#[test]
fn seeds_are_repeatable_and_differ() {
    let spec = Preset::Typical.spec().unwrap();
    assert_eq!(reads(&spec, 1, 1000), reads(&spec, 1, 1000));
    assert_ne!(reads(&spec, 1, 1000), reads(&spec, 2, 1000));
}

#[test]
fn reads_come_in_order_of_time_and_requests_are_complete() {
    for preset in Preset::ALL {
        let mut spec = preset.spec().unwrap();
        spec.until = Micros(12 * Micros::HOUR.0);
        let platters = spec.platters;
        let mut last: Option<Read> = None;
        let mut left = 0;
        for read in Demand::new(&spec, 7).unwrap() {
            assert!(read.at < spec.until);
            assert!(read.platter < platters.count && read.first_track + read.tracks <= platters.tracks, "{read:?}");
            assert!(read.bytes >= 1 && read.bytes <= spec.shard_bytes);
            let (request, at) = last.map_or((0, Micros::ZERO), |last| (last.request + u64::from(left == 0), last.at));
            assert_eq!(read.request, request, "{preset}: {read:?}");
            assert!(read.at >= at, "{preset}: {read:?}");
            if read.shard == 0 {
                assert_eq!(left, 0, "{preset}: a request starts before the previous one is complete");
                left = read.file_bytes;
            }
            left -= read.bytes;
            assert_eq!(left == 0, read.shard + 1 == read.shards, "{preset}: {read:?}");
            last = Some(read);
        }
        assert_eq!(left, 0);
        assert!(last.is_some());
    }
}

#[test]
fn a_file_always_has_the_same_size_and_place() {
    let small = Spec { platters: Platters { count: 10, tracks: 200, track_bytes: 20_000_000 }, ..spec(&[]) };
    for (layout, account_files) in [(AccountLayout::Together, 1), (AccountLayout::Together, 4), (AccountLayout::Scattered, 4)] {
        let sizes = Sizes::Exponential { mean_bytes: 5e7 };
        let source = Source { layout, account_files, ..Source::plain(POISSON, sizes) };
        let spec = Spec { sources: vec![source], ..small.clone() };
        let mut known: BTreeMap<(u64, u32), (u64, u32, u32, u32)> = BTreeMap::new();
        for read in reads(&spec, 3, 20_000) {
            let found = (read.file_bytes, read.platter, read.first_track, read.tracks);
            assert_eq!(*known.entry((read.object, read.shard)).or_insert(found), found, "object {}", read.object);
        }
        assert!(known.len() < 1000, "every file must be read many times");
    }
}

#[test]
fn both_layouts_of_an_account_get_the_same_requests() {
    let source = Source { account_files: 16, ..Source::plain(POISSON, Sizes::Fixed { bytes: 3_000_000 }) };
    let together = reads(&spec(&[source]), 5, 1600);
    let scattered = reads(&spec(&[Source { layout: AccountLayout::Scattered, ..source }]), 5, 1600);
    for (one, other) in together.iter().zip(&scattered) {
        assert_eq!(
            (one.at, one.request, one.group, one.object, one.bytes),
            (other.at, other.request, other.group, other.object, other.bytes)
        );
    }
    for (account, files) in together.chunks(16).enumerate() {
        assert!(files.iter().all(|read| read.group == account as u64 && read.at == files[0].at));
        assert!(files.iter().all(|read| read.platter == files[0].platter));
        // 48 MB from the start of a track: 3 tracks of 20 MB; files that cross a track boundary are
        // in two.
        let tracks: BTreeSet<u32> = files.iter().flat_map(|read| read.first_track..read.first_track + read.tracks).collect();
        assert_eq!(tracks.len(), 3);
        assert!(files.windows(2).all(|pair| pair[0].first_track <= pair[1].first_track));
    }
    for files in scattered.chunks(16) {
        let platters: BTreeSet<u32> = files.iter().map(|read| read.platter).collect();
        assert!(platters.len() >= 14, "{platters:?}");
    }
}

#[test]
fn both_layouts_distribute_the_load_over_platters_by_the_same_law() {
    for layout in [AccountLayout::Together, AccountLayout::Scattered] {
        let source = Source {
            popularity: Popularity::Zipf { exponent: 1.0 },
            account_files: 2,
            layout,
            ..Source::plain(POISSON, Sizes::Fixed { bytes: 1_000_000 })
        };
        let spec = Spec { platters: Platters::new(100), ..spec(&[source]) };
        let mut counts = [0_u32; 100];
        reads(&spec, 6, 400_000).iter().for_each(|read| counts[read.platter as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The harmonic number of 100 is 5.18738.
        for rank in [1, 2, 5, 20] {
            let wanted = 400_000.0 / 5.18738 / f64::from(rank);
            let found = f64::from(counts[rank as usize - 1]);
            assert!((found / wanted - 1.0).abs() < 0.03, "{layout:?}, rank {rank}: {found} instead of {wanted}");
        }
    }
}

#[test]
fn sources_add_up_and_each_reads_its_own_files() {
    let slow = Source::plain(Arrivals::Constant { per_second: 1.0 }, Sizes::Fixed { bytes: 1 });
    let fast = Source::plain(Arrivals::Constant { per_second: 3.0 }, Sizes::Fixed { bytes: 2 });
    let found = reads(&spec(&[slow, fast]), 0, 4000);
    assert_eq!(found.iter().filter(|read| read.bytes == 1).count(), 1000);
    let objects = |bytes| found.iter().filter(move |read| read.bytes == bytes).map(|read| read.object).collect::<BTreeSet<_>>();
    assert!(objects(1).is_disjoint(&objects(2)));
    // Adding a source doesn't change the ones before it.
    let alone = reads(&spec(&[slow]), 0, 1000);
    let place = |read: &Read| (read.at, read.object, read.platter, read.first_track);
    let among: Vec<_> = found.iter().filter(|read| read.bytes == 1).map(place).collect();
    assert_eq!(among, alone.iter().map(place).collect::<Vec<_>>());
}

#[test]
fn drawn_sizes_have_the_published_marginals() {
    let spec = spec(&[Source::plain(POISSON, Sizes::PUBLISHED)]);
    let mut statistics = Statistics::default();
    for read in Demand::new(&spec, 21).unwrap() {
        statistics.observe(&read);
        if statistics.requests() == 2_000_000 {
            break;
        }
    }
    // Visible with `-- --nocapture`; docs/workload.md shows it.
    println!("{statistics}");
    let figure = |name: &str| statistics.rows().into_iter().find(|row| row.name == name).unwrap().generated.unwrap();
    // Shares of reads are within four standard errors. Bytes depend on few large files and are only
    // on average closer than a tenth.
    assert!((figure("requests up to 4 MiB, of all requests") - 0.587).abs() < 0.0014);
    assert!((figure("requests under 10 MiB, of all requests") - 0.8).abs() < 0.0012);
    assert!((figure("requests over 256 MiB, of all requests") - 0.019).abs() < 0.0004);
    assert!((figure("requests over 256 MiB, of all bytes") - 0.85).abs() < 0.03);
    assert!((figure("requests up to 4 MiB, of all bytes") - 0.012).abs() < 0.0015);
    assert!((figure("mean file, bytes") / 1e8 - 1.0).abs() < 0.15);
    assert!(figure("largest over smallest, orders of magnitude") > 9.0);
}

#[test]
fn intervals_of_different_seeds_resemble_each_other() {
    let requests = |seed| {
        let spec = Spec { until: Interval::IOPS.period, ..Preset::Iops.spec().unwrap() };
        Demand::new(&spec, seed).unwrap().filter(|read| read.shard == 0).count() as f64
    };
    let wanted = 2.3 * 43_200.0;
    for seed in 0..5 {
        // The bursts have 24,000 requests in every interval; the rest is Poisson with a standard
        // deviation of 0.28 % of all.
        assert!((requests(seed) / wanted - 1.0).abs() < 0.012, "seed {seed}");
    }
}

#[test]
fn invalid_specs_are_rejected() {
    let plain = Source::plain(POISSON, Sizes::Fixed { bytes: 1 });
    let refused = |spec: Spec| Demand::new(&spec, 0).unwrap_err();
    assert_eq!(refused(spec(&[])), SpecError::Sources { found: 0 });
    assert!(matches!(refused(Spec { platters: Platters::new(0), ..spec(&[plain]) }), SpecError::Range { setting: "platters.count", .. }));
    assert!(matches!(refused(Spec { shard_bytes: 0, ..spec(&[plain]) }), SpecError::Range { setting: "shard_bytes", .. }));
    assert!(matches!(refused(Spec { shard_bytes: u64::MAX, ..spec(&[plain]) }), SpecError::Range { setting: "shard_bytes", .. }));
    let huge = Source::plain(POISSON, Sizes::Fixed { bytes: u64::MAX });
    assert!(matches!(refused(spec(&[huge])), SpecError::File { largest: u64::MAX, .. }));
    let account = Source { account_files: 3, ..Source::plain(POISSON, Sizes::Fixed { bytes: 1_000_000_000_000 }) };
    assert_eq!(refused(spec(&[account])), SpecError::Account { files: 3, fit: 2 });
    assert!(matches!(refused(spec(&[Source { account_files: 0, ..plain }])), SpecError::Range { setting: "account_files", .. }));
    let message = refused(spec(&[Source::plain(Arrivals::Poisson { per_second: f64::NAN }, plain.sizes)])).to_string();
    assert_eq!(message, "arrivals.per_second is NaN: a finite number above 0 is expected");
}
