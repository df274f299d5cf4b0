//! The optics of `polarization` against waveorder, an independent implementation of the five-frame
//! method: `waveorder/make_frames.py` wrote the table.

use std::f64::consts::PI;

use fulgurite_glass::polarization::{Birefringence, FRAMES, Microscope};

const AGREES: f64 = 1e-6;

#[test]
fn frames_and_the_birefringence_from_them_agree_with_waveorder() {
    let rows: Vec<Vec<f64>> = include_str!("waveorder/frames.csv")
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| line.split(',').map(|value| value.parse().expect("a number")).collect())
        .collect();
    assert_eq!(rows.len(), 396);
    for row in rows {
        let [swing, retardance, azimuth, f0, f1, f2, f3, f4, retardance_back, azimuth_back] = row[..] else {
            panic!("10 columns: {row:?}")
        };
        let expected: [f64; FRAMES] = [f0, f1, f2, f3, f4];
        // A beam of intensity 2, without light in the dark.
        let microscope = Microscope { swing, bright: 2.0, dark: 0.0 };
        let frames = microscope.frames(Birefringence { retardance, azimuth });
        assert!(frames.iter().zip(expected).all(|(ours, theirs)| (ours - theirs).abs() < AGREES), "{row:?}: {frames:?}");
        let back = microscope.birefringence(expected);
        assert!((back.retardance - retardance_back).abs() < AGREES, "{row:?}: {back:?}");
        let turn = (back.azimuth - azimuth_back).rem_euclid(PI);
        assert!(turn.min(PI - turn) < AGREES, "{row:?}: {back:?}");
    }
}
