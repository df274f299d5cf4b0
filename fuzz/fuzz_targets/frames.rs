//! Decodes arbitrary pixels with both decoders, and their probabilities with the code of a sector,
//! which must not believe them.
#![no_main]

use std::cell::RefCell;

use fulgurite_codec::SectorDecoder;
use fulgurite_glass::GlassMedium;
use fulgurite_glass::decoder::{DecoderKind, Device, VoxelDecoder};
use fulgurite_glass::emulator::Frames;
use fulgurite_glass::polarization::FRAMES;
use libfuzzer_sys::fuzz_target;

struct Decoders {
    medium: GlassMedium,
    voxels: [Box<dyn VoxelDecoder + Send>; 2],
    sectors: SectorDecoder<'static>,
}

thread_local! {
    /// Loading a model and finding a matrix take longer than decoding.
    static DECODERS: RefCell<Decoders> = RefCell::new({
        let medium = GlassMedium::tiny();
        let voxels = DecoderKind::ALL.map(|kind| kind.load(&medium, &Device::Cpu));
        let sectors = Box::leak(Box::new(medium.sector_code())).decoder();
        Decoders { voxels, sectors, medium }
    });
}

fuzz_target!(|data: &[u8]| {
    let Some((&[shape, bits], pattern)) = data.split_first_chunk() else { return };
    if pattern.is_empty() {
        return;
    }
    DECODERS.with_borrow_mut(|Decoders { medium, voxels, sectors }| {
        // A pattern fills the frames; some shapes don't fit the medium.
        let rows = medium.rows - usize::from(shape & 1);
        let columns = medium.columns - usize::from(shape >> 1 & 1);
        let missing = usize::from(shape >> 2 & 1);
        let pixels = pattern.iter().cycle().enumerate().map(|(at, &pixel)| u16::from(pixel) << (at / pattern.len() % 9));
        let pixels = pixels.take(FRAMES * rows * columns - missing).collect();
        let frames = Frames { rows, columns, bits: 1 + u32::from(bits % 16), pixels };
        for decoder in voxels {
            let Ok(probabilities) = decoder.decode(&frames) else { continue };
            assert_eq!(shape & 7, 0, "these frames have another shape");
            assert!(probabilities.voxels().flatten().all(|probability| !(*probability < 0.0 || *probability > 1.001)));
            assert!(sectors.decode(&[0; 20], &probabilities.ratios()).is_err(), "no sector was written");
        }
    });
});
