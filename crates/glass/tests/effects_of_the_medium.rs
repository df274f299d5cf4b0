//! The emulated medium: without effects, symbols come back exactly; each effect changes the frames,
//! and does to the symbols what it would do in glass.

use std::f64::consts::PI;

use fulgurite_chance::noise;
use fulgurite_codec::{SectorCode, SectorLoss};
use fulgurite_glass::decoder::{FramesError, NearestSymbol, Probabilities, VoxelDecoder};
use fulgurite_glass::emulator::{Effects, Frames, Neighbors, ReadEffects, SectorSeed, WrittenLayer, image, write};
use fulgurite_glass::polarization::Microscope;
use fulgurite_glass::voxel::Alphabet;

const ROWS: usize = 96;
const COLUMNS: usize = 128;
const MICROSCOPE: Microscope = Microscope { swing: 0.2 * PI, bright: 0.9, dark: 0.02 };

fn alphabet() -> Alphabet {
    Alphabet::new(vec![0.25, 0.5]).unwrap()
}

/// The symbols of a layer: 16 kinds, at random.
fn symbols(layer: u64) -> Vec<u8> {
    noise(layer, ROWS * COLUMNS).iter().map(|byte| byte % 16).collect()
}

fn frames(effects: &Effects, read: u32) -> Frames {
    let layers = [1, 0, 2].map(|layer| {
        let seed = SectorSeed { platter: 5, sector: layer };
        write(&alphabet(), COLUMNS, &symbols(u64::from(layer)), &effects.write, seed)
    });
    let neighbors = Neighbors { above: Some(&layers[0]), below: Some(&layers[2]) };
    image(&MICROSCOPE, 8, &layers[1], neighbors, &effects.read, SectorSeed { platter: 5, sector: 0 }, read)
}

fn decode(frames: &Frames) -> Result<Probabilities, FramesError> {
    NearestSymbol::new(MICROSCOPE, &alphabet(), ROWS, COLUMNS).decode(frames)
}

/// Share of symbols that come back wrong.
fn symbol_errors(effects: &Effects) -> f64 {
    let got = decode(&frames(effects, 0)).unwrap().likeliest();
    let wrong = got.iter().zip(symbols(0)).filter(|&(&got, written)| got != written).count();
    wrong as f64 / got.len() as f64
}

#[test]
fn without_effects_every_symbol_comes_back() {
    assert_eq!(symbol_errors(&Effects::NONE), 0.0);
}

/// A setting of one effect.
type Setting = fn(&mut Effects, f64);

#[test]
fn each_effect_costs_symbols_once_it_is_strong_enough() {
    // The effect, a strength that the classical decoder bears, one that it doesn't, and the errors
    // to expect from that at least.
    let cases: [(&str, Setting, f64, f64, f64); 15] = [
        ("azimuth jitter", |e, x| e.write.azimuth_jitter = x, 0.03, 0.12, 0.05),
        ("retardance jitter", |e, x| e.write.retardance_jitter = x, 0.05, 0.2, 0.05),
        ("position jitter", |e, x| e.write.position_jitter = x, 0.08, 0.3, 0.05),
        ("dropouts", |e, x| e.write.dropouts = x, 0.0005, 0.1, 0.05),
        ("energy drift", |e, x| e.write.energy_drift = x, 0.3, 0.9, 0.05),
        ("blur", |e, x| e.read.blur = x, 0.4, 0.7, 0.2),
        ("crosstalk", |e, x| e.read.crosstalk = x, 0.2, 1.0, 0.002),
        ("focus", |e, x| e.read.focus = x, 0.1, 1.0, 0.5),
        ("vignette", |e, x| e.read.vignette = x, 0.5, 1.0, 0.0),
        ("shift", |e, x| e.read.shift = x, 0.3, 3.0, 0.5),
        ("rotation", |e, x| e.read.rotation = x, 0.004, 0.1, 0.3),
        ("magnification", |e, x| e.read.magnification = x, 0.003, 0.1, 0.3),
        ("background", |e, x| e.read.background = x, 0.1, 0.2, 0.0),
        ("shot noise", |e, x| e.read.electrons = x, 30_000.0, 50.0, 0.2),
        ("read noise", |e, x| (e.read.electrons, e.read.read_noise) = (30_000.0, x), 20.0, 2_000.0, 0.2),
    ];
    for (name, set, mild, strong, least) in cases {
        let mut effects = Effects::NONE;
        set(&mut effects, mild);
        assert_ne!(frames(&effects, 0), frames(&Effects::NONE, 0), "{name} of {mild} changes nothing");
        let errors = symbol_errors(&effects);
        assert!(errors < 1e-3, "{name} of {mild} costs {errors}");
        set(&mut effects, strong);
        let errors = symbol_errors(&effects);
        assert!(errors >= least, "{name} of {strong} costs only {errors}");
    }
}

#[test]
fn writing_and_imaging_repeat_and_reads_differ() {
    let mut effects = Effects::NONE;
    effects.write.azimuth_jitter = 0.05;
    effects.read.electrons = 2_000.0;
    effects.read.shift = 0.3;
    assert_eq!(frames(&effects, 0), frames(&effects, 0));
    assert_ne!(frames(&effects, 0), frames(&effects, 1));
    // Without effects of reading, all reads are alike, whatever was written.
    effects.read = Effects::NONE.read;
    assert_eq!(frames(&effects, 0), frames(&effects, 1));
    assert_ne!(frames(&effects, 0), frames(&Effects::NONE, 0));
}

#[test]
fn a_changed_symbol_and_a_scratch_show_where_they_are() {
    let written = write(&alphabet(), COLUMNS, &symbols(0), &Effects::NONE.write, SectorSeed { platter: 5, sector: 0 });
    let look = |layer| {
        let frames = image(&MICROSCOPE, 8, &layer, Neighbors::default(), &Effects::NONE.read, SectorSeed { platter: 5, sector: 0 }, 0);
        decode(&frames).unwrap().likeliest()
    };
    assert_eq!(look(written.clone()), symbols(0));

    let mut flipped = symbols(0);
    flipped[40 * COLUMNS + 17] ^= 8;
    let layer = write(&alphabet(), COLUMNS, &flipped, &Effects::NONE.write, SectorSeed { platter: 5, sector: 0 });
    assert_eq!(look(layer), flipped);

    let mut scratched = written;
    let scratch = |row: usize, column: usize| column == row / 2 + 20;
    scratched.erase(scratch);
    let wrong: Vec<(usize, usize)> = look(scratched)
        .iter()
        .zip(symbols(0))
        .enumerate()
        .filter(|(_, (got, written))| *got != written)
        .map(|(index, _)| (index / COLUMNS, index % COLUMNS))
        .collect();
    assert!(wrong.len() > ROWS / 2, "a scratch over all rows costs only {} voxels", wrong.len());
    assert!(wrong.iter().all(|&(row, column)| scratch(row, column)), "voxels beside the scratch are wrong");
}

#[test]
fn a_wrong_focus_reads_the_layer_above_or_below_and_the_checksum_refuses_it() {
    let code = SectorCode::new(ROWS * COLUMNS, 4, 15).unwrap();
    let address = |layer: u32| layer.to_le_bytes();
    // Layers 0, 1 and 2 from below.
    let written: Vec<Vec<u8>> = (0..3).map(|layer| code.encode(&address(layer), &noise(u64::from(layer), code.payload_bytes()))).collect();
    let layers: Vec<WrittenLayer> = (0..)
        .zip(&written)
        .map(|(sector, symbols)| write(&alphabet(), COLUMNS, symbols, &Effects::NONE.write, SectorSeed { platter: 5, sector }))
        .collect();
    let neighbors = Neighbors { above: Some(&layers[2]), below: Some(&layers[0]) };
    let effects = ReadEffects { focus: 1.0, ..Effects::NONE.read };
    let mut sectors = code.decoder();
    let mut seen = [false; 3];
    for read in 0..60 {
        let frames = image(&MICROSCOPE, 8, &layers[1], neighbors, &effects, SectorSeed { platter: 5, sector: 1 }, read);
        let ratios = decode(&frames).unwrap().ratios();
        for layer in 0..3 {
            seen[layer as usize] |= sectors.decode(&address(layer), &ratios).is_ok();
        }
        // Whatever the focus is on, nothing but the payload of this address passes for it.
        match sectors.decode(&address(1), &ratios) {
            Ok(sector) => assert_eq!(sector.payload, noise(1, code.payload_bytes())),
            Err(SectorLoss::Checksum) => {
                assert!(sectors.decode(&address(0), &ratios).is_ok() || sectors.decode(&address(2), &ratios).is_ok())
            }
            Err(SectorLoss::Noise { .. }) => {}
        }
    }
    assert_eq!(seen, [true; 3], "layers that 60 reads with a focus anywhere between them found");
}

#[test]
fn a_misaligned_camera_sees_the_symbols_at_other_places() {
    let effects = Effects { read: ReadEffects { shift: 3.0, ..Effects::NONE.read }, ..Effects::NONE };
    let written = symbols(0);
    // Share of symbols that come back `down` and `right` of their places.
    let found = |got: &[u8], down: isize, right: isize| {
        let (mut equal, mut all) = (0, 0);
        for row in 8..ROWS as isize - 8 {
            for column in 8..COLUMNS as isize - 8 {
                let at = |row: isize, column: isize| (row * COLUMNS as isize + column) as usize;
                equal += usize::from(got[at(row + down, column + right)] == written[at(row, column)]);
                all += 1;
            }
        }
        equal as f64 / all as f64
    };
    let mut displaced = 0;
    for read in 0..12 {
        let got = decode(&frames(&effects, read)).unwrap().likeliest();
        let places = (-4..=4).flat_map(|down| (-4..=4).map(move |right| (down, right)));
        let (place, share) =
            places.map(|(down, right)| ((down, right), found(&got, down, right))).max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        // Half a voxel beside the grid, symbols are hard to tell.
        displaced += usize::from(place != (0, 0) && share > 0.95);
    }
    assert!(displaced >= 4, "only {displaced} of 12 reads have their symbols at another place");
}

#[test]
fn particles_leave_discs_without_voxels() {
    let mut effects = Effects::NONE;
    effects.write.particles = 4.0;
    effects.write.particle_radius = 6.0;
    let errors = symbol_errors(&effects);
    assert!((0.001..0.1).contains(&errors), "{errors}");
}

#[test]
fn frames_without_content_or_of_another_shape_are_refused() {
    let good = frames(&Effects::NONE, 0);
    for value in [0, 255, 77] {
        let blank = Frames { pixels: vec![value; good.pixels.len()], ..good.clone() };
        assert_eq!(decode(&blank), Err(FramesError::Blank), "pixels of {value}");
    }
    let shapes = [
        Frames { rows: COLUMNS, columns: ROWS, ..good.clone() },
        Frames { pixels: good.pixels[1..].to_vec(), ..good.clone() },
        Frames { rows: 0, columns: 0, pixels: Vec::new(), ..good.clone() },
    ];
    for shape in shapes {
        assert!(matches!(decode(&shape), Err(FramesError::Shape { .. })));
    }
    // Noise is decoded to something: the code of the sector finds out.
    let noisy = Frames { pixels: noise(1, good.pixels.len()).iter().map(|&byte| u16::from(byte)).collect(), ..good };
    let probabilities = decode(&noisy).unwrap();
    assert!(probabilities.voxels().flatten().all(|probability| (0.0..=1.0).contains(probability)));
}
