//! The learned decoder: it computes what its training computed, and bears more noise than the
//! classical one.

use std::num::NonZero;

use fulgurite_glass::GlassMedium;
use fulgurite_glass::decoder::{DecoderKind, Device, FramesError, UNet, UNetError, VoxelDecoder};
use fulgurite_glass::emulator::{Frames, Preset, sample_stack};
use fulgurite_glass::polarization::FRAMES;
use fulgurite_glass::sector_errors::{SectorEffort, SectorErrors, sector_errors};
use fulgurite_glass::voxel::Alphabet;

/// The values of a file of NumPy, format 1.0 with a short header.
fn values(npy: &[u8]) -> &[u8] {
    assert_eq!(npy[..10], *b"\x93NUMPY\x01\x00\x76\x00");
    &npy[128..]
}

#[test]
fn probabilities_are_those_of_the_trained_network() {
    let medium = GlassMedium { rows: 32, columns: 32, ..GlassMedium::desk() };
    let pixels: Vec<u16> = values(include_bytes!("unet/frames.npy")).iter().map(|&pixel| pixel.into()).collect();
    let expected = values(include_bytes!("unet/logits.npy"));
    assert_eq!((pixels.len(), expected.len()), (FRAMES * 32 * 32, 4 * 32 * 32 * 16));
    let frames = Frames { rows: 32, columns: 32, bits: 8, pixels };
    let got = UNet::embedded(&medium, &Device::Cpu).unwrap().decode(&frames).unwrap();
    for (got, expected) in got.voxels().zip(expected.chunks_exact(4 * 16)) {
        let likelihoods: Vec<f64> =
            expected.chunks_exact(4).map(|bytes| f64::from(f32::from_le_bytes(bytes.try_into().unwrap())).exp()).collect();
        let sum: f64 = likelihoods.iter().sum();
        for (got, likelihood) in got.iter().zip(likelihoods) {
            assert!((f64::from(*got) - likelihood / sum).abs() < 1e-4, "{got} instead of {}", likelihood / sum);
        }
    }
}

fn lost(kind: DecoderKind, strength: f64) -> SectorErrors {
    let medium = GlassMedium::desk();
    let effort = SectorEffort { sectors: 8, failures: 100, seed: 1, threads: NonZero::new(2).unwrap() };
    let effects = Preset::Nominal.effects().scaled(strength);
    sector_errors(&medium, &effects, || kind.load(&medium, &Device::Cpu), &[], effort)
}

#[test]
fn at_nominal_noise_it_loses_no_sector() {
    let learned = lost(DecoderKind::UNet, 1.0);
    assert_eq!((learned.sectors, learned.failed, learned.wrong), (8, 0, 0));
    assert!(learned.information_per_voxel() > 3.7, "{learned:?}");
}

#[test]
fn under_strong_noise_it_learns_more_from_images_than_the_classical_decoder() {
    let (learned, classical) = (lost(DecoderKind::UNet, 1.2), lost(DecoderKind::Nearest, 1.2));
    assert!(learned.failed < classical.failed, "{learned:?}, {classical:?}");
    assert_eq!((learned.wrong, classical.wrong), (0, 0));
    let gained = learned.information_per_voxel() / classical.information_per_voxel();
    assert!(gained > 1.2, "{gained} times the information");
}

#[test]
fn frames_without_content_or_of_another_shape_are_refused() {
    let medium = GlassMedium::desk();
    let mut decoder = UNet::embedded(&medium, &Device::Cpu).unwrap();
    let good = sample_stack(&medium, &medium.sector_code(), &Preset::Clean.effects(), 1, 0, 1).remove(0);
    assert!(decoder.decode(&good.frames).is_ok());
    for value in [0, 255, 77] {
        let blank = Frames { pixels: vec![value; good.frames.pixels.len()], ..good.frames.clone() };
        assert_eq!(decoder.decode(&blank), Err(FramesError::Blank), "pixels of {value}");
    }
    let shapes = [
        Frames { rows: medium.columns, columns: medium.rows, ..good.frames.clone() },
        Frames { pixels: good.frames.pixels[1..].to_vec(), ..good.frames.clone() },
        Frames { rows: 0, columns: 0, pixels: Vec::new(), ..good.frames.clone() },
    ];
    for shape in shapes {
        assert!(matches!(decoder.decode(&shape), Err(FramesError::Shape { .. })));
    }
    for bits in [0, 17, 40] {
        assert_eq!(decoder.decode(&Frames { bits, ..good.frames.clone() }), Err(FramesError::Bits { bits }));
    }
    // Pixels that no microscope makes are decoded to something: the code of the sector finds out.
    let noisy = Frames { pixels: (0..good.frames.pixels.len()).map(|n| (n * 40_503 % 65_536) as u16).collect(), ..good.frames };
    let probabilities = decoder.decode(&noisy).unwrap();
    let code = medium.sector_code();
    assert!(code.decoder().decode(&good.address, &probabilities.ratios()).is_err());
}

#[test]
fn a_model_for_another_medium_is_refused() {
    let other = |medium: GlassMedium| UNet::embedded(&medium, &Device::Cpu).unwrap_err().to_string();
    let alphabet = Alphabet::new(vec![0.25, 0.6]).unwrap();
    let message = other(GlassMedium { alphabet, ..GlassMedium::desk() });
    assert!(message.contains("0.25 and 0.5 ") && message.contains("retardances 0.25 and 0.6"), "{message}");
    assert!(other(GlassMedium { rows: 126, ..GlassMedium::desk() }).contains("126 x 160"));
    assert!(matches!(UNet::from_bytes(b"{}", &GlassMedium::desk(), &Device::Cpu), Err(UNetError::Model(_))));
    // Such a medium is still read, with the classical decoder.
    let odd = GlassMedium { rows: 126, ..GlassMedium::desk() };
    let mut decoder = DecoderKind::UNet.load(&odd, &Device::Cpu);
    assert!(matches!(
        decoder.decode(&Frames { rows: 1, columns: 1, bits: 8, pixels: vec![0; 5] }),
        Err(FramesError::Shape { expected_rows: 126, .. })
    ));
}
