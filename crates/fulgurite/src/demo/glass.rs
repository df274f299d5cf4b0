//! The demonstration on glass: one sector on its way from bytes to voxels and back, and a map of a
//! damaged platter.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::{PlatterPlace, SetDescription};
use fulgurite_domain::{ObjectName, PhysicalTrack, PlatterId, SectorAddress};
use fulgurite_glass::SectorView;
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Preset;
use serde_json::{Value, json};

use super::damage::platter_file;
use crate::Session;
use crate::progress::Progress;
use crate::text::phrase;
use crate::voxels::{Glass, Look, describe, draw_health, look};

/// The folder of pictures in the demonstration's folder.
const PICTURES: &str = "pictures";
/// Values shown of each step.
const SHOWN: usize = 8;

/// What was shown of glass.
pub(crate) struct GlassShown {
    symbols: usize,
    symbol_errors: usize,
    bit_errors: usize,
    /// Whether the bytes that came out are those that the archive reads.
    is_same: bool,
    pub(crate) pictures: Vec<PathBuf>,
}

impl GlassShown {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "symbols": self.symbols, "symbol_errors": self.symbol_errors, "bit_errors": self.bit_errors, "same": self.is_same,
            "pictures": self.pictures,
        })
    }
}

/// Shows the first sector of a set, as a camera with nominal noise sees it. The archive's own
/// camera has less noise, and would leave the code little to correct.
pub(crate) fn show_sector(session: &Session, archive: &Archive, set: &SetDescription, into: &Path) -> Result<GlassShown> {
    let place = &set.platters[0];
    let glass = Glass::open(&platter_file(archive, place), Some(Preset::Nominal), DecoderKind::default())?;
    let at = SectorAddress { track: PhysicalTrack(0), sector: 0 };
    let Look { view, pictures } = look(&glass, &into.join(PICTURES), at)?;
    let whose = first_object(archive, place.platter)?.map_or_else(String::new, |name| format!(", which begins with {}", name.display()));
    session.say(&format!("\nThe first sector of platter {}…{whose}", &place.platter.to_string()[..8]));
    let medium = glass.medium();
    let step = |name: &str, values: &str, what: &str| session.say(&format!("  {name:13}  {values:25}  {what}"));
    // As the archive reads them, not from the images that follow.
    let mut bytes = vec![0; set.geometry.sector_stride()];
    let archives = Glass::open(&platter_file(archive, place), None, DecoderKind::default())?;
    archives.read_exact_at(&mut bytes, set.geometry.sector_offset(at))?;
    step("bytes", &hex(&bytes), "encrypted");
    step("symbols", &numbers(&view.symbols), &format!("of {} bits, with the LDPC code's parity", medium.alphabet.bits_per_voxel()));
    let voxels = phrase(medium.voxels() as u64, "voxel", "voxels");
    step("images", &numbers(&view.frames.pixels), &format!("5 images of {voxels} under polarized light, with nominal noise"));
    if let Some(probabilities) = &view.probabilities {
        let chosen = probabilities.voxels().take(SHOWN).map(|voxel| voxel.iter().copied().fold(0.0, f32::max));
        let chosen: Vec<String> = chosen.map(|probability| format!("{:.0}", 100.0 * probability)).collect();
        step("probabilities", &chosen.join(" "), "of the likeliest symbols, in percent");
    }
    step("symbols again", &view.probabilities.as_ref().map_or_else(String::new, |found| numbers(&found.likeliest())), "the likeliest ones");
    if let Some(payload) = &view.payload {
        step("bytes again", &hex(payload), "corrected by the LDPC code");
    }
    let is_same = view.payload.as_ref().is_some_and(|payload| payload.starts_with(&bytes));
    describe(session, "  ", medium, &view);
    session.say(&format!("Pictures of these steps are in {}.", into.join(PICTURES).display()));
    let SectorView { symbols, quality, .. } = &view;
    Ok(GlassShown { symbols: symbols.len(), symbol_errors: quality.symbol_errors, bit_errors: quality.bit_errors, is_same, pictures })
}

/// Draws the margins of the first platter that has lost sectors but is still there.
pub(crate) fn show_damage(session: &Session, archive: &Archive, set: &SetDescription, into: &Path) -> Result<PathBuf> {
    let there = |place: &&PlatterPlace| platter_file(archive, place).exists();
    let place = set.platters.iter().find(there).expect("only redundancy platters' worth was deleted");
    let map = into.join(PICTURES).join("damaged-platter.png");
    let progress = Progress::new(session.quiet);
    draw_health(&Glass::open(&platter_file(archive, place), None, DecoderKind::default())?, &map, &progress)?;
    progress.finish();
    session.say(&format!("  {} shows the platter on {}: lost sectors, and the margins of the others.", map.display(), place.store));
    Ok(map)
}

/// The object at the start of a platter's content.
fn first_object(archive: &Archive, platter: PlatterId) -> Result<Option<ObjectName>> {
    let mut catalogue = archive.catalogue();
    for row in catalogue.versions_on(&[platter], None, 1_000)? {
        if catalogue.extents(row.row_id)?.iter().any(|extent| extent.platter == platter && extent.offset == 0 && extent.bytes > 0) {
            return Ok(Some(row.record.name));
        }
    }
    Ok(None)
}

fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    words.join(" ")
}

fn numbers<T: ToString>(values: &[T]) -> String {
    let words: Vec<String> = values.iter().take(SHOWN).map(T::to_string).collect();
    words.join(" ")
}
