//! `channel frames`: images and symbols of emulated sectors, to train a decoder with.

use std::fs;

use anyhow::{Context, Result};
use fulgurite_chance::Stream;
use fulgurite_glass::GlassMedium;
use fulgurite_glass::emulator::{Effect, Effects, sample_stack};
use fulgurite_glass::polarization::FRAMES;
use serde_json::json;

use super::args::TrainingFrames;
use super::npy::NpyFile;
use crate::{Outcome, Session};

/// Sectors on top of each other, with the same strengths of effects.
const LAYERS: u32 = 8;

pub(crate) fn frames(session: &Session, arguments: &TrainingFrames) -> Result<Outcome> {
    let medium = GlassMedium::desk();
    let code = medium.sector_code();
    let stacks = arguments.sectors.div_ceil(LAYERS);
    let sectors = (stacks * LAYERS) as usize;
    let folder = &arguments.into;
    fs::create_dir_all(folder).with_context(|| format!("can't create the folder {}", folder.display()))?;
    let create = |name: &str, value_bytes: usize, shape: &[usize]| {
        let path = folder.join(name);
        NpyFile::create(&path, value_bytes, shape).with_context(|| format!("can't write {}", path.display()))
    };
    let failed = || format!("can't write frames.npy and symbols.npy in {}: they are incomplete", folder.display());
    let pixel_bytes = if medium.pixel_bits <= 8 { 1 } else { 2 };
    let mut images = create("frames.npy", pixel_bytes, &[sectors, FRAMES, medium.rows, medium.columns])?;
    let mut labels = create("symbols.npy", 1, &[sectors, medium.rows, medium.columns])?;
    for stack in 0..stacks {
        let effects = drawn_effects(arguments, stack);
        for sample in sample_stack(&medium, &code, &effects, arguments.noise.seed, stack, LAYERS) {
            let pixels = images.write(sample.frames.pixels.iter().copied());
            let symbols = labels.write(sample.symbols.iter().map(|&symbol| u16::from(symbol)));
            pixels.and(symbols).with_context(failed)?;
        }
    }
    images.finish().and_then(|()| labels.finish()).with_context(failed)?;
    session.answer(|| json!({"sectors": sectors, "rows": medium.rows, "columns": medium.columns, "folder": folder}));
    session.say(&format!("{sectors} sectors of {} x {} voxels in {}", medium.rows, medium.columns, folder.display()));
    Ok(Outcome::Good)
}

/// The effects of one stack, with the strengths drawn for it.
fn drawn_effects(arguments: &TrainingFrames, stack: u32) -> Effects {
    let (low, high) = arguments.strength;
    let mut random = Stream::numbered(arguments.noise.seed, "strengths", stack);
    let mut effects = arguments.noise.effects();
    let common = random.between(low, high);
    for effect in Effect::ALL {
        effects.scale(effect, if arguments.independent { random.between(low, high) } else { common });
    }
    effects
}
