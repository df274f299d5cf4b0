//! All kernels against the reference in f64.

use fulgurite_unet::{Kernel, Network, reference};

/// The largest difference, relative to the largest logit.
fn error(expected: &[f64], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let scale = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    let error = expected.iter().zip(found).map(|(expected, &found)| (expected - f64::from(found)).abs());
    error.fold(0.0f64, |most, error| if error > most || error.is_nan() { error } else { most }) / scale
}

fn agree(seed: u64, inputs: usize, outputs: usize, widths: &[usize], rows: usize, columns: usize) {
    let file = reference::random_model(seed, inputs, outputs, widths);
    let network = Network::from_bytes(&file).expect("a random model");
    let planes = reference::noise(seed + 1, inputs * rows * columns);
    let expected = reference::logits(&file, rows, columns, &planes).expect("a random model");
    for &kernel in Kernel::available() {
        let mut runner = network.runner_with_kernel(rows, columns, kernel).expect("a shape of the network");
        let mut logits = vec![f32::NAN; rows * columns * outputs];
        runner.run(&planes, &mut logits);
        let error = error(&expected, &logits);
        assert!(error < 1e-5, "{kernel:?}, {inputs} inputs, {outputs} outputs, {widths:?}, {rows} x {columns}: off by {error:e}");
        // Nothing may remain of an earlier image.
        runner.run(&reference::noise(seed + 2, planes.len()), &mut logits);
        let first = logits.clone();
        runner.run(&planes, &mut logits);
        assert!(logits != first);
        assert!(self::error(&expected, &logits) < 1e-5, "{kernel:?}: another result for the same image");
    }
}

#[test]
fn kernels_agree_with_the_reference_for_our_network() {
    agree(1, 5, 16, &[16, 32, 64], 16, 40);
}

/// Small enough for Miri, in minutes.
#[test]
fn kernels_agree_with_the_reference_for_the_smallest_image() {
    agree(12, 1, 1, &[16, 16], 2, 2);
}

#[test]
fn kernels_agree_with_the_reference_for_all_widths_of_an_image() {
    for columns in (2..64).step_by(2) {
        agree(columns as u64, 2, 3, &[16, 16], 4, columns);
    }
}

#[test]
fn kernels_agree_with_the_reference_for_two_to_four_levels() {
    agree(2, 5, 16, &[16, 32], 2, 8);
    agree(3, 1, 1, &[32, 16, 48], 8, 20);
    agree(4, 3, 8, &[16, 32, 48, 64], 16, 24);
    agree(5, 5, 16, &[16, 16, 16, 16], 8, 8);
}

#[test]
fn kernels_agree_with_the_reference_for_images_of_many_bands() {
    // Bands of one, two and three rows of tiles, and a last row of half a tile.
    agree(8, 2, 4, &[16, 16], 22, 126);
    agree(9, 2, 4, &[16, 16, 16], 36, 60);
    agree(10, 2, 4, &[16, 32], 62, 42);
    agree(11, 2, 4, &[16, 16], 130, 2);
}

#[test]
fn kernels_agree_with_the_reference_for_more_than_sixteen_inputs_and_outputs() {
    agree(6, 19, 33, &[16, 32], 6, 10);
    agree(7, 32, 48, &[32, 32], 4, 6);
}

#[test]
fn values_that_are_not_finite_do_no_harm() {
    let file = reference::random_model(8, 2, 4, &[16, 32]);
    let network = Network::from_bytes(&file).expect("a random model");
    for &kernel in Kernel::available() {
        let mut runner = network.runner_with_kernel(8, 8, kernel).expect("a shape of the network");
        let clean = reference::noise(9, 2 * 64);
        let (mut before, mut logits) = (vec![0.0; 4 * 64], vec![0.0; 4 * 64]);
        runner.run(&clean, &mut before);
        for value in [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN] {
            let mut planes = clean.clone();
            planes[70] = value;
            runner.run(&planes, &mut logits);
            assert_ne!(before, logits);
        }
        runner.run(&vec![f32::NAN; 2 * 64], &mut logits);
        assert!(logits.iter().all(|logit| logit.is_nan()), "{kernel:?} makes numbers of an image without any");
        // None of it stays in the runner.
        runner.run(&clean, &mut logits);
        assert_eq!(before, logits);
    }
}

#[test]
fn runners_of_one_network_work_side_by_side() {
    let network = Network::from_bytes(&reference::random_model(10, 2, 4, &[16, 32])).expect("a random model");
    let planes = &reference::noise(11, 2 * 64);
    let logits: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let run = || {
            let mut logits = vec![0.0; 4 * 64];
            // Made here and moved there, as a pool of workers does.
            let mut runner = network.runner(8, 8).expect("a shape of the network");
            scope.spawn(move || {
                runner.run(planes, &mut logits);
                logits
            })
        };
        let threads = [run(), run()];
        threads.map(|thread| thread.join().expect("a run")).into()
    });
    assert_eq!(logits[0], logits[1]);
}
