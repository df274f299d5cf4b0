//! The font of figures: DejaVu Sans, embedded, so that pictures don't depend on installed fonts.
//!
//! The files in `assets` are subsets (Latin, Greek, Cyrillic, and signs of mathematics) of DejaVu
//! 2.37 without hints, made by fonttools:
//!
//! ```text
//! pyftsubset DejaVuSans.ttf --no-hinting --desubroutinize --layout-features='' --name-IDs='*'
//!   --unicodes=U+20-7E,U+A0-17F,U+370-3FF,U+400-45F,U+2010-2026,U+2030,U+2032,U+2033,U+2070-209C,
//!   U+2190-2193,U+2212,U+221A,U+221E,U+2248,U+2260,U+2264,U+2265,U+FFFD
//! ```
//!
//! Their licence is in the same folder.

use skrifa::instance::{LocationRef, Size};
use skrifa::outline::OutlineGlyph;
use skrifa::{FontRef, GlyphId, MetadataProvider};

static REGULAR: &[u8] = include_bytes!("../assets/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../assets/DejaVuSans-Bold.ttf");

/// The font families of an SVG, best first. Verdana has nearly the same widths, so labels still
/// fit.
pub(super) const FAMILIES: &str = "DejaVu Sans, Verdana, Geneva, sans-serif";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

pub(super) struct Font {
    regular: Face,
    bold: Face,
}

struct Face {
    font: FontRef<'static>,
    units_per_em: f64,
}

impl Face {
    fn parse(bytes: &'static [u8]) -> Self {
        let font = FontRef::new(bytes).expect("the embedded fonts are whole");
        let units_per_em = f64::from(font.metrics(Size::unscaled(), LocationRef::default()).units_per_em);
        Self { font, units_per_em }
    }

    /// The glyph of a character, or of the replacement character if the font lacks it.
    fn glyph(&self, c: char) -> GlyphId {
        let characters = self.font.charmap();
        characters.map(c).or_else(|| characters.map(char::REPLACEMENT_CHARACTER)).unwrap_or_default()
    }

    fn advance(&self, glyph: GlyphId) -> f64 {
        let metrics = self.font.glyph_metrics(Size::unscaled(), LocationRef::default());
        f64::from(metrics.advance_width(glyph).unwrap_or(0.0))
    }
}

impl Font {
    pub(super) fn embedded() -> Self {
        Self { regular: Face::parse(REGULAR), bold: Face::parse(BOLD) }
    }

    /// Width of a text, in points.
    pub(super) fn width(&self, text: &str, size: f64, weight: Weight) -> f64 {
        let face = self.face(weight);
        let units: f64 = text.chars().map(|c| face.advance(face.glyph(c))).sum();
        units * size / face.units_per_em
    }

    /// The outlines of a text that begins at the origin: `draw` gets each glyph, its distance to
    /// the right in points, and points per unit of the glyph.
    pub(super) fn outline(&self, text: &str, size: f64, weight: Weight, mut draw: impl FnMut(&OutlineGlyph<'_>, f64, f64)) {
        let face = self.face(weight);
        let scale = size / face.units_per_em;
        let outlines = face.font.outline_glyphs();
        let mut at = 0.0;
        for c in text.chars() {
            let glyph = face.glyph(c);
            if let Some(outline) = outlines.get(glyph) {
                draw(&outline, at * scale, scale);
            }
            at += face.advance(glyph);
        }
    }

    /// Breaks a text into lines no wider than `width`, except for single words that are wider.
    pub(super) fn wrapped(&self, text: &str, size: f64, weight: Weight, width: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(&format!("{line} {word}"), size, weight) <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.into()),
            }
        }
        lines
    }

    /// Like [`Font::wrapped`], with lines as narrow as their number allows, so of similar width.
    pub(super) fn balanced(&self, text: &str, size: f64, weight: Weight, width: f64) -> Vec<String> {
        let lines = self.wrapped(text, size, weight, width);
        let narrower = (1..20).rev().map(|part| self.wrapped(text, size, weight, width * f64::from(part) / 20.0));
        narrower.take_while(|other| other.len() == lines.len()).last().unwrap_or(lines)
    }

    fn face(&self, weight: Weight) -> &Face {
        match weight {
            Weight::Regular => &self.regular,
            Weight::Bold => &self.bold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_character_that_labels_use() {
        let font = Font::embedded();
        for weight in [Weight::Regular, Weight::Bold] {
            for c in "0123456789.,%−×·–—⁰¹²³⁴⁵⁶⁷⁸⁹⁻µ ≤≥≈→ABCxyz()äéЖλρσ".chars() {
                assert!(font.face(weight).font.charmap().map(c).is_some(), "{c} in {weight:?}");
            }
        }
    }

    #[test]
    fn a_character_missing_from_the_font_still_takes_up_width() {
        let font = Font::embedded();
        assert!(font.width("玻", 10.0, Weight::Regular) > 5.0);
        assert_eq!(font.width("", 10.0, Weight::Regular), 0.0);
        assert!(font.width("library", 10.0, Weight::Bold) > font.width("library", 10.0, Weight::Regular));
    }

    #[test]
    fn lines_break_between_words_and_keep_all_text() {
        let font = Font::embedded();
        let text = "Tail completion time against drive throughput";
        let lines = font.wrapped(text, 8.0, Weight::Regular, 100.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| font.width(line, 8.0, Weight::Regular) <= 100.0));
        assert_eq!(lines.join(" "), text);
        let balanced = font.balanced("99.9th percentile of completion times", 8.0, Weight::Regular, 140.0);
        assert_eq!(balanced, ["99.9th percentile of", "completion times"]);
        assert_eq!(font.wrapped("Unbreakable", 8.0, Weight::Regular, 1.0), ["Unbreakable"]);
    }
}
