//! The font of figures: DejaVu Sans, embedded, so that a picture is the same on a machine without any fonts.
//!
//! The files in `assets` are subsets (Latin, Greek, Cyrillic, and signs of mathematics) of DejaVu 2.37 without hints, made by fonttools:
//! `pyftsubset DejaVuSans.ttf --unicodes=U+20-7E,U+A0-17F,U+370-3FF,U+400-45F,U+2010-2026,U+2030,U+2032,U+2033,U+2070-209C,U+2190-2193,`
//! `U+2212,U+221A,U+221E,U+2248,U+2260,U+2264,U+2265,U+FFFD --no-hinting --desubroutinize --layout-features='' --name-IDs='*'`.
//! Their licence lies beside them.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static REGULAR: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");
static BOLD: &[u8] = include_bytes!("../../assets/DejaVuSans-Bold.ttf");

/// The families that an SVG asks for, best first. Verdana is as wide, so labels fit with it too.
pub(super) const FAMILIES: &str = "DejaVu Sans, Verdana, Geneva, sans-serif";

/// How heavy a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Regular,
    Bold,
}

/// Both weights, ready to measure and to draw.
#[derive(Debug)]
pub(super) struct Font {
    regular: Face<'static>,
    bold: Face<'static>,
}

impl Font {
    pub(super) fn embedded() -> Self {
        let face = |bytes| Face::parse(bytes, 0).expect("the embedded fonts are whole");
        Self { regular: face(REGULAR), bold: face(BOLD) }
    }

    /// How wide a text is, in points.
    pub(super) fn width(&self, text: &str, size: f64, weight: Weight) -> f64 {
        let face = self.face(weight);
        let units: f64 = text.chars().map(|c| advance(face, glyph(face, c))).sum();
        units * size / f64::from(face.units_per_em())
    }

    /// Draws the outlines of a text that begins at the origin. The builder is told coordinates in points, upwards.
    pub(super) fn outline(&self, text: &str, size: f64, weight: Weight, to: &mut impl OutlineBuilder) {
        let face = self.face(weight);
        let scale = size / f64::from(face.units_per_em());
        let mut at = 0.0;
        for c in text.chars() {
            let glyph = glyph(face, c);
            face.outline_glyph(glyph, &mut Moved { to, right: at * scale, scale });
            at += advance(face, glyph);
        }
    }

    /// A text in lines that are no wider than `width`, unless a word is.
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

    /// Like [`Font::wrapped`], with lines of about the same width: no last word alone.
    pub(super) fn balanced(&self, text: &str, size: f64, weight: Weight, width: f64) -> Vec<String> {
        let lines = self.wrapped(text, size, weight, width);
        let narrower = (1..20).rev().map(|part| self.wrapped(text, size, weight, width * f64::from(part) / 20.0));
        narrower.take_while(|other| other.len() == lines.len()).last().unwrap_or(lines)
    }

    fn face(&self, weight: Weight) -> &Face<'static> {
        match weight {
            Weight::Regular => &self.regular,
            Weight::Bold => &self.bold,
        }
    }
}

/// The glyph of a character, or the sign for one that the font lacks.
fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).or_else(|| face.glyph_index(char::REPLACEMENT_CHARACTER)).unwrap_or_default()
}

fn advance(face: &Face<'_>, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0))
}

/// Passes an outline on, scaled and moved to the right.
struct Moved<'a, B> {
    to: &'a mut B,
    right: f64,
    scale: f64,
}

impl<B> Moved<'_, B> {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        ((self.right + f64::from(x) * self.scale) as f32, (f64::from(y) * self.scale) as f32)
    }
}

impl<B: OutlineBuilder> OutlineBuilder for Moved<'_, B> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.to.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.to.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.to.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.to.curve_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.to.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_that_labels_use_is_in_the_font() {
        let font = Font::embedded();
        for weight in [Weight::Regular, Weight::Bold] {
            for c in "0123456789.,%−×·–—⁰¹²³⁴⁵⁶⁷⁸⁹⁻µ ≤≥≈→ABCxyz()äéЖλρσ".chars() {
                assert!(font.face(weight).glyph_index(c).is_some(), "{c} in {weight:?}");
            }
        }
    }

    #[test]
    fn a_character_that_the_font_lacks_still_takes_its_place() {
        let font = Font::embedded();
        assert!(font.width("玻", 10.0, Weight::Regular) > 5.0);
        assert_eq!(font.width("", 10.0, Weight::Regular), 0.0);
        assert!(font.width("library", 10.0, Weight::Bold) > font.width("library", 10.0, Weight::Regular));
    }

    #[test]
    fn lines_break_between_words_and_nothing_is_lost() {
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
