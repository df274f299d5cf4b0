//! GPUs against the reference in f64, on a machine without a GPU by a software renderer: Mesa's
//! llvmpipe, in Debian's package mesa-vulkan-drivers.

#![cfg(feature = "gpu")]

use fulgurite_unet::{Gpu, GpuError, GpuRunner, Network, reference};

fn gpu() -> Gpu {
    Gpu::open_or_emulate().expect("a GPU, or a software renderer: `apt-get install mesa-vulkan-drivers`")
}

#[allow(clippy::too_many_arguments, reason = "a list of cases")]
fn agree(gpu: &Gpu, seed: u64, inputs: usize, outputs: usize, widths: &[usize], rows: usize, columns: usize, images: usize) {
    let file = reference::random_model(seed, inputs, outputs, widths);
    let network = Network::from_bytes(&file).expect("a random model");
    let mut runner = GpuRunner::new(&network, gpu, rows, columns).expect("a runner");
    let of_image = inputs * rows * columns;
    let planes = reference::noise(seed + 1, images * of_image);
    let mut found = vec![f32::NAN; images * outputs * rows * columns];
    runner.run(&planes, &mut found).expect("a working GPU");
    for (image, found) in planes.chunks_exact(of_image).zip(found.chunks_exact(outputs * rows * columns)) {
        let expected = reference::logits(&file, rows, columns, image).expect("a random model");
        let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        for (expected, &found) in expected.iter().zip(found) {
            let error = (expected - f64::from(found)).abs() / largest;
            assert!(error < 1e-5, "{inputs} inputs, {outputs} outputs, {widths:?}, {rows} x {columns}: off by {error:e}");
        }
    }
}

#[test]
#[ignore = "needs a Vulkan driver; `cargo xtask test --only gpu` installs one if it may"]
fn gpus_agree_with_the_reference() {
    let gpu = gpu();
    agree(&gpu, 1, 5, 16, &[16, 32, 64], 16, 40, 3);
    agree(&gpu, 2, 1, 1, &[16, 16], 2, 2, 1);
    agree(&gpu, 3, 3, 8, &[16, 32, 48, 64], 24, 40, 2);
    agree(&gpu, 4, 19, 33, &[48, 16], 6, 10, 2);
    for columns in (2..40).step_by(6) {
        agree(&gpu, columns as u64, 2, 3, &[16, 16], 4, columns, 1);
    }
}

#[test]
#[ignore = "needs a Vulkan driver; `cargo xtask test --only gpu` installs one if it may"]
fn images_that_do_not_fit_at_once_are_computed_one_after_the_other() {
    let network = Network::from_bytes(&reference::random_model(5, 1, 1, &[16, 16])).expect("a random model");
    let mut runner = GpuRunner::new(&network, &gpu(), 512, 256).expect("a runner");
    let (pixels, at_once) = (512 * 256, runner.images());
    let planes = reference::noise(6, (at_once + 1) * pixels);
    let mut together = vec![0.0; planes.len()];
    runner.run(&planes, &mut together).expect("a working GPU");
    let mut alone = vec![0.0; pixels];
    for image in [0, at_once] {
        runner.run(&planes[image * pixels..][..pixels], &mut alone).expect("a working GPU");
        assert!(alone == together[image * pixels..][..pixels], "image {image}");
    }
}

#[test]
#[ignore = "needs a Vulkan driver; `cargo xtask test --only gpu` installs one if it may"]
fn threads_share_a_gpu() {
    let network = Network::from_bytes(&reference::random_model(7, 2, 4, &[16, 32])).expect("a random model");
    let gpu = gpu();
    let planes = reference::noise(8, 2 * 64);
    let mut expected = vec![0.0; 4 * 64];
    network.runner(8, 8).expect("a shape of the network").run(&planes, &mut expected);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut runner = GpuRunner::new(&network, &gpu, 8, 8).expect("a runner");
                for _ in 0..20 {
                    let mut logits = vec![0.0; 4 * 64];
                    runner.run(&planes, &mut logits).expect("a working GPU");
                    assert!(logits.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1e-4));
                }
            });
        }
    });
}

#[test]
#[ignore = "needs a Vulkan driver; `cargo xtask test --only gpu` installs one if it may"]
fn sizes_that_do_not_fit_are_refused() {
    let network = Network::from_bytes(&reference::random_model(9, 1, 1, &[16, 16])).expect("a random model");
    assert!(matches!(GpuRunner::new(&network, &gpu(), 3, 2), Err(GpuError::Shape(_))));
}
