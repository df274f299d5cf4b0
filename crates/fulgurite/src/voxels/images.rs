//! `inspect --images`: one sector, from the camera's frames to the decoder's errors.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_domain::{PhysicalTrack, SectorAddress};
use fulgurite_glass::decoder::Probabilities;
use fulgurite_glass::polarization::FRAMES;
use fulgurite_glass::voxel::Alphabet;
use fulgurite_glass::{GlassMedium, SectorView};
use fulgurite_plot::Raster;
use serde_json::json;

use super::colors::{self, Color};
use super::{Glass, write_new};
use crate::text::{count, phrase};
use crate::{Outcome, Session};

/// Pixels along each side of a voxel.
const VOXEL_PIXELS: usize = 4;
/// Probability of a symbol error at the sure end of the scale of confidence, as a power of ten.
const SURE: f64 = -3.0;

pub(super) fn images(session: &Session, glass: &Glass, folder: &Path, track: u32, sector: u16) -> Result<Outcome> {
    let Look { view, pictures } = look(glass, folder, SectorAddress { track: PhysicalTrack(track), sector })?;
    let quality = &view.quality;
    let medium = glass.medium();
    let needed = medium.needed_information();
    session.answer(|| {
        let mut value = glass.to_json();
        let found = json!({
            "track": track, "sector": sector, "lost": quality.decoded.is_err(), "attempts": quality.attempts,
            "symbols": view.symbols.len(), "symbol_errors": quality.symbol_errors, "bit_errors": quality.bit_errors,
            "information": quality.information, "needed_information": needed, "margin": quality.information - needed,
            "iterations": quality.decoded.as_ref().ok().map(|done| done.iterations),
            "why": quality.decoded.as_ref().err().map(ToString::to_string), "pictures": pictures,
        });
        value.as_object_mut().expect("an object").extend(found.as_object().expect("an object").clone());
        value
    });
    glass.say(session);
    session.say(&format!("sector    track {track}, sector {sector}, imaged {}", phrase(quality.attempts.into(), "time", "times")));
    describe(session, "", medium, &view);
    session.say(&format!("pictures  {}", folder.join(name(track, sector, "*")).display()));
    Ok(Outcome::troubled_if(quality.decoded.is_err()))
}

/// What was seen of a sector, and the files with its pictures.
pub(crate) struct Look {
    pub(crate) view: SectorView,
    pub(crate) pictures: Vec<PathBuf>,
}

/// Reads a sector, and writes its pictures into a folder, which is created. Existing files stay.
pub(crate) fn look(glass: &Glass, folder: &Path, at: SectorAddress) -> Result<Look> {
    let head = glass.platter.head();
    let SectorAddress { track: PhysicalTrack(track), sector } = at;
    if track >= head.tracks {
        bail!("the platter has no track {track}: its tracks are 0 to {}", head.tracks - 1);
    }
    if u32::from(sector) >= head.track_sectors {
        bail!("the tracks of the platter have no sector {sector}: their sectors are 0 to {}", head.track_sectors - 1);
    }
    let view = glass.platter.sector_view(at).with_context(|| format!("can't read the symbols of track {track}, sector {sector}"))?;
    let pictures: Vec<(PathBuf, Raster)> =
        pictures(glass.medium(), &view).into_iter().map(|(what, picture)| (folder.join(name(track, sector, &what)), picture)).collect();
    // Checked for all before any is written, so that an existing file doesn't leave half of them.
    if let Some((path, _)) = pictures.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
        bail!("{} already exists, and is not replaced: remove it, or name another folder", path.display());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("can't create the folder {}", folder.display()))?;
    for (path, picture) in &pictures {
        write_new(path, &picture.png(VOXEL_PIXELS))?;
    }
    Ok(Look { view, pictures: pictures.into_iter().map(|(path, _)| path).collect() })
}

fn name(track: u32, sector: u16, what: &str) -> String {
    format!("track-{track}-sector-{sector}-{what}.png")
}

/// Tells how a sector became bytes again, or why not. Each line begins with `indent`.
pub(crate) fn describe(session: &Session, indent: &str, medium: &GlassMedium, view: &SectorView) {
    let say = |line: String| session.say(&format!("{indent}{line}"));
    let quality = &view.quality;
    let (voxels, bits) = (view.symbols.len(), view.symbols.len() * medium.alphabet.bits_per_voxel() as usize);
    let needed = medium.needed_information();
    let wrong = |what: &str, wrong: usize, of: usize| {
        let share = 100.0 * wrong as f64 / of as f64;
        format!("{} wrong, {share:.2} % of {}", count(wrong as u64, what), phrase(of as u64, "", "").trim_end())
    };
    say(format!("symbols   {}", wrong("symbol", quality.symbol_errors, voxels)));
    say(format!("bits      {}", wrong("bit", quality.bit_errors, bits)));
    say(format!(
        "margin    {:.3}: the images carry {:.3} bits of information a bit, and the code needs {needed:.3}",
        quality.information - needed,
        quality.information,
    ));
    match &quality.decoded {
        Ok(correction) => {
            let iterations = count(correction.iterations.into(), "iteration");
            say(format!("code      corrected {} in {iterations}", count(correction.bits.into(), "bit")));
            say("payload   good: its checksum is right".to_owned());
        }
        Err(why) => say(format!("payload   LOST: {why}")),
    }
}

/// All pictures of a sector, with their names.
fn pictures(medium: &GlassMedium, view: &SectorView) -> Vec<(String, Raster)> {
    let raster = |pixels: Vec<Color>| Raster::new(medium.columns, pixels);
    let frames = &view.frames;
    let voxels = medium.voxels();
    // One scale for all, so that their differences show.
    let white = f64::from(frames.pixels.iter().copied().max().unwrap_or(0).max(1));
    let mut pictures: Vec<(String, Raster)> = (0..FRAMES)
        .map(|frame| {
            let pixels = frames.pixels[frame * voxels..][..voxels].iter().map(|&pixel| colors::gray(f64::from(pixel) / white));
            (format!("frame-{frame}"), raster(pixels.collect()))
        })
        .collect();
    let largest = medium.alphabet.retardance(medium.alphabet.retardance_levels() - 1).expect("an alphabet has retardances");
    let seen = (0..voxels).map(|voxel| {
        let intensities = std::array::from_fn(|frame| f64::from(frames.pixels[frame * voxels + voxel]));
        let seen = medium.microscope.birefringence(intensities);
        colors::azimuth(seen.azimuth, seen.retardance / largest)
    });
    pictures.push(("azimuth".to_owned(), raster(seen.collect())));
    let (confidence, errors) = match &view.probabilities {
        Some(probabilities) => (confidence(probabilities), errors(&medium.alphabet, probabilities, &view.symbols)),
        // Nothing could be decoded: no confidence at all, and everything wrong.
        None => (vec![colors::viridis(0.0); voxels], vec![colors::WRONG_BOTH; voxels]),
    };
    pictures.push(("confidence".to_owned(), raster(confidence)));
    pictures.push(("errors".to_owned(), raster(errors)));
    pictures
}

/// Colors each voxel by the doubt about its likeliest symbol, 1 - p, on a logarithmic scale.
fn confidence(probabilities: &Probabilities) -> Vec<Color> {
    let doubt = |symbols: &[f32]| {
        let chosen = symbols.iter().copied().fold(0.0, f32::max);
        // The sum of the others, in f64: 1 - p in f32 would round to 0 much earlier.
        symbols.iter().map(|&probability| f64::from(probability)).sum::<f64>() - f64::from(chosen)
    };
    probabilities.voxels().map(|symbols| colors::viridis(doubt(symbols).max(1e-30).log10() / SURE)).collect()
}

fn errors(alphabet: &Alphabet, probabilities: &Probabilities, written: &[u8]) -> Vec<Color> {
    let color = |(chosen, &written): (u8, &u8)| {
        let (chosen, written) = (alphabet.birefringence(chosen), alphabet.birefringence(written));
        match (chosen.azimuth == written.azimuth, chosen.retardance == written.retardance) {
            (true, true) => colors::RIGHT,
            (false, true) => colors::WRONG_AZIMUTH,
            (true, false) => colors::WRONG_RETARDANCE,
            (false, false) => colors::WRONG_BOTH,
        }
    };
    probabilities.likeliest().into_iter().zip(written).map(color).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_glass::emulator::Frames;
    use fulgurite_glass::{SectorQuality, SectorTrouble};

    /// A sector of four voxels, of which the last three were decoded to another azimuth, another
    /// retardance, and both.
    fn view(medium: &GlassMedium) -> SectorView {
        let alphabet = &medium.alphabet;
        let symbols = vec![alphabet.symbol(2, 1); 4];
        let chosen = [(2, 1), (3, 1), (2, 0), (3, 0)].map(|(azimuth, retardance)| alphabet.symbol(azimuth, retardance));
        let doubts = [0.0, 0.001, 0.1, 0.5];
        let values = chosen.iter().zip(doubts).flat_map(|(&chosen, doubt)| {
            (0..16).map(move |symbol| match symbol {
                _ if symbol == chosen => 1.0 - doubt,
                _ if symbol == chosen ^ 4 => doubt,
                _ => 0.0,
            })
        });
        let seen = symbols.iter().map(|&symbol| medium.microscope.frames(alphabet.birefringence(symbol)));
        let seen: Vec<[f64; FRAMES]> = seen.collect();
        let pixels = (0..FRAMES).flat_map(|frame| seen.iter().map(move |voxel| (voxel[frame] * 65_535.0) as u16)).collect();
        let decoded = Err(SectorTrouble::Frames(fulgurite_glass::decoder::FramesError::Blank));
        SectorView {
            symbols,
            frames: Frames { rows: 2, columns: 2, bits: 16, pixels },
            probabilities: Some(Probabilities::new(16, values.collect())),
            payload: None,
            quality: SectorQuality { attempts: 1, symbol_errors: 3, bit_errors: 4, information: 0.5, decoded },
        }
    }

    #[test]
    fn pictures_show_what_was_seen_and_decided() {
        let medium = GlassMedium { rows: 2, columns: 2, ..GlassMedium::desk() };
        let mut view = view(&medium);
        let raster = |colors: [Color; 4]| Raster::new(2, colors.to_vec());
        let found = pictures(&medium, &view);
        let names: Vec<&str> = found.iter().map(|(name, _)| &name[..]).collect();
        assert_eq!(names, ["frame-0", "frame-1", "frame-2", "frame-3", "frame-4", "azimuth", "confidence", "errors"]);
        // An azimuth of 45 degrees is brightest in frame 1, and full at the largest retardance.
        assert_eq!(found[1].1, raster([[255; 3]; 4]));
        assert_ne!(found[0].1, found[1].1);
        // Red is at a half, but for the camera's rounding.
        assert!([127, 128].iter().any(|&red| found[5].1 == raster([[red, 255, 0]; 4])), "{:?}", found[5]);
        let third = colors::viridis(1.0 / 3.0);
        assert_eq!(found[6].1, raster([colors::viridis(1.0), colors::viridis(1.0), third, colors::viridis(-(0.5f64.log10()) / 3.0)]));
        assert_eq!(found[7].1, raster([colors::RIGHT, colors::WRONG_AZIMUTH, colors::WRONG_RETARDANCE, colors::WRONG_BOTH]));
        view.probabilities = None;
        let blank = pictures(&medium, &view);
        assert_eq!((&blank[6].1, &blank[7].1), (&raster([colors::viridis(0.0); 4]), &raster([colors::WRONG_BOTH; 4])));
    }
}
