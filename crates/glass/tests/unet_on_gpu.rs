//! The learned decoder gives the same answers on a graphics processor, or on the software
//! renderer of Debian's package mesa-vulkan-drivers.

#![cfg(feature = "gpu")]

use std::sync::Arc;

use fulgurite_glass::GlassMedium;
use fulgurite_glass::decoder::{DecoderKind, Device, FramesError, ImageDecoder, UNet, VoxelDecoder};
use fulgurite_glass::emulator::{Frames, Preset, sample_stack};

#[test]
#[ignore = "needs a Vulkan driver; `cargo xtask test --only gpu` installs one if it may"]
fn a_gpu_decodes_the_same() {
    let medium = GlassMedium::desk();
    let code = Arc::new(medium.sector_code());
    let device = Device::open_gpu_or_emulate().expect("a GPU, or a software renderer: `apt-get install mesa-vulkan-drivers`");
    assert!(device.gpu_name().is_some_and(|name| !name.is_empty()));
    let samples = sample_stack(&medium, &code, &Preset::Nominal.effects(), 1, 0, 4);
    let blank = Frames { pixels: vec![0; samples[0].frames.pixels.len()], ..samples[0].frames.clone() };
    let mut sectors: Vec<&Frames> = samples.iter().map(|sample| &sample.frames).collect();
    sectors.insert(2, &blank);

    let mut decoders = [&Device::Cpu, &device].map(|device| UNet::embedded(&medium, device).expect("a model for this medium"));
    let [on_cpu, on_gpu] = decoders.each_mut().map(|decoder| decoder.decode_all(&sectors));
    assert_eq!((&on_cpu[2], &on_gpu[2]), (&Err(FramesError::Blank), &Err(FramesError::Blank)));
    assert_eq!(on_gpu.iter().flatten().count(), 4);
    for (on_cpu, on_gpu) in on_cpu.iter().flatten().zip(on_gpu.iter().flatten()) {
        for (on_cpu, on_gpu) in on_cpu.voxels().zip(on_gpu.voxels()) {
            assert!(on_cpu.iter().zip(on_gpu).all(|(a, b)| (a - b).abs() < 1e-4), "{on_cpu:?} and {on_gpu:?}");
        }
    }
    assert_eq!(decoders[1].decode(sectors[3]), on_gpu[3], "one sector as several");

    let addressed: Vec<(&[u8], &Frames)> = samples.iter().map(|sample| (&sample.address[..], &sample.frames)).collect();
    let decoded = ImageDecoder::new(DecoderKind::UNet, &medium, code, &device).decode_all(&addressed);
    for (sample, decoded) in samples.iter().zip(decoded) {
        assert!(decoded.expect("a good sector").payload == sample.payload);
    }
}
