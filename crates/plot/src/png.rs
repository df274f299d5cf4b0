//! PNG output: a scene, drawn by `tiny-skia` at three pixels per point (216 dpi).

use super::font::Font;
use super::scene::{Anchor, Area, Colour, Coordinates, Item, RIM_WIDTH, Scene, Stroke, Text, WHITE};
use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use tiny_skia::{Color, FillRule, LineJoin, Mask, Paint, Path, PathBuilder, Pixmap, Rect, Stroke as SkiaStroke, StrokeDash, Transform};

const PIXELS_TO_A_POINT: f64 = 3.0;
/// Maximum width and height, in pixels. Larger scenes are cropped.
const SIDE_MAX: f64 = 20_000.0;

pub(super) fn write(scene: &Scene, font: &Font) -> Vec<u8> {
    let pixels = |points: f64| (points * PIXELS_TO_A_POINT).ceil().clamp(1.0, SIDE_MAX) as u32;
    let (width, height) = (pixels(scene.width), pixels(scene.height));
    let mut canvas = Pixmap::new(width, height).expect("sides of 1 to SIDE_MAX pixels are allowed");
    canvas.fill(Color::WHITE);
    let to_pixels = Transform::from_scale(PIXELS_TO_A_POINT as f32, PIXELS_TO_A_POINT as f32);
    for item in &scene.items {
        match item {
            Item::Shape { contours, closed, fill, stroke, clip } => {
                let Some(path) = polygons(contours, *closed) else { continue };
                let mask = clip.map(|area| mask(area, width, height, to_pixels));
                draw(&mut canvas, &path, *fill, *stroke, to_pixels, mask.as_ref());
            }
            Item::Circle { centre, radius, fill, stroke } => {
                let Some(path) = PathBuilder::from_circle(centre.0 as f32, centre.1 as f32, *radius as f32) else { continue };
                draw(&mut canvas, &path, fill.map(|colour| (colour, 1.0)), *stroke, to_pixels, None);
            }
            Item::Text(text) => write_text(&mut canvas, text, font, to_pixels),
        }
    }
    encoded(&canvas)
}

fn polygons(contours: &[Vec<Coordinates>], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for contour in contours {
        for (at, &(x, y)) in contour.iter().enumerate() {
            if at == 0 { builder.move_to(x as f32, y as f32) } else { builder.line_to(x as f32, y as f32) }
        }
        if closed {
            builder.close();
        }
    }
    builder.finish()
}

fn mask(area: Area, width: u32, height: u32, to_pixels: Transform) -> Mask {
    let mut mask = Mask::new(width, height).expect("a mask is as large as the canvas");
    if let Some(area) = Rect::from_ltrb(area.left as f32, area.top as f32, area.right as f32, area.bottom as f32) {
        mask.fill_path(&PathBuilder::from_rect(area), FillRule::Winding, true, to_pixels);
    }
    mask
}

fn draw(canvas: &mut Pixmap, path: &Path, fill: Option<(Colour, f64)>, stroke: Option<Stroke>, to_pixels: Transform, mask: Option<&Mask>) {
    if let Some((colour, opacity)) = fill {
        canvas.fill_path(path, &paint(colour, opacity), FillRule::Winding, to_pixels, mask);
    }
    if let Some(Stroke { colour, width, dashes }) = stroke {
        let dash = StrokeDash::new(dashes.iter().map(|&length| length as f32).collect(), 0.0);
        let stroke = SkiaStroke { width: width as f32, line_join: LineJoin::Round, dash, ..SkiaStroke::default() };
        canvas.stroke_path(path, &paint(colour, 1.0), &stroke, to_pixels, mask);
    }
}

fn paint(Colour(red, green, blue): Colour, opacity: f64) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, (opacity * 255.0 + 0.5) as u8);
    paint
}

fn write_text(canvas: &mut Pixmap, text: &Text, font: &Font, to_pixels: Transform) {
    let width = font.width(&text.text, text.size, text.weight);
    let left = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -0.5 * width,
        Anchor::End => -width,
    };
    // Uses libm, because the platform's sine may differ in its last bit. Text that reads upwards is
    // exactly upright: pi has no exact value, so the computed cosine is not quite zero.
    let angle = text.turned * std::f64::consts::PI / 180.0;
    let (sine, cosine) = if text.turned == -90.0 { (-1.0, 0.0) } else { (libm::sin(angle), libm::cos(angle)) };
    let mut glyphs = Glyphs { builder: PathBuilder::new(), right: 0.0, scale: 1.0, left, sine, cosine, at: text.at };
    font.outline(&text.text, text.size, text.weight, |glyph, right, scale| {
        (glyphs.right, glyphs.scale) = (right, scale);
        let settings = DrawSettings::unhinted(Size::unscaled(), LocationRef::default());
        glyph.draw(settings, &mut glyphs).expect("the embedded fonts are whole");
    });
    let Some(path) = glyphs.builder.finish() else { return };
    if text.rim {
        draw(canvas, &path, None, Some(Stroke::solid(WHITE, RIM_WIDTH)), to_pixels, None);
    }
    draw(canvas, &path, Some((text.colour, 1.0)), None, to_pixels, None);
}

/// Moves the outline of a glyph, which points upwards, to its place in the text.
struct Glyphs {
    builder: PathBuilder,
    /// Distance from the beginning of the text.
    right: f64,
    scale: f64,
    left: f64,
    sine: f64,
    cosine: f64,
    at: Coordinates,
}

impl Glyphs {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        // Rounds to single precision here and at the end. Without the first rounding, existing
        // figures could change in a few pixels.
        let (x, y) = ((self.right + f64::from(x) * self.scale) as f32, (f64::from(y) * self.scale) as f32);
        let (x, y) = (f64::from(x) + self.left, -f64::from(y));
        ((self.at.0 + x * self.cosine - y * self.sine) as f32, (self.at.1 + x * self.sine + y * self.cosine) as f32)
    }
}

impl OutlinePen for Glyphs {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.builder.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.builder.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.builder.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.builder.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}

const SIGNATURE: &[u8; 8] = b"\x89PNG\r\n\x1a\n";

// Values of the fields of IHDR.
const BIT_DEPTH: u8 = 8;
const COLOUR_TYPE_TRUECOLOUR: u8 = 2;
const COMPRESSION_METHOD_DEFLATE: u8 = 0;
const FILTER_METHOD_ADAPTIVE: u8 = 0;
const INTERLACE_METHOD_NONE: u8 = 0;

/// The filter type that stores differences from the row above.
const FILTER_TYPE_UP: u8 = 2;
/// The unit specifier of pHYs, the chunk of physical pixel dimensions.
const UNIT_METRE: u8 = 1;
const POINTS_TO_AN_INCH: f64 = 72.0;
const METRES_TO_AN_INCH: f64 = 0.0254;

/// Red, green and blue.
const FILE_PIXEL_BYTES: usize = 3;
/// Red, green, blue and alpha.
const CANVAS_PIXEL_BYTES: usize = 4;

/// `miniz_oxide` has levels 0 to 10.
const COMPRESSION_LEVEL: u8 = 8;

/// Encodes the canvas as PNG. There is no alpha, since the background is white.
fn encoded(canvas: &Pixmap) -> Vec<u8> {
    let pixels: Vec<[u8; 3]> = canvas.data().chunks_exact(CANVAS_PIXEL_BYTES).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let pixels_to_a_metre = (PIXELS_TO_A_POINT * POINTS_TO_AN_INCH / METRES_TO_AN_INCH + 0.5) as u32;
    encode(canvas.width(), &pixels, Some(pixels_to_a_metre))
}

/// Encodes rows of `width` pixels, red, green and blue, as PNG. Each row is stored as its
/// difference from the row above, which in a figure is nearly always zero.
///
/// Source: PNG Specification, 3rd ed., W3C 2025, clauses 5, 9 and 11.
pub(super) fn encode(width: u32, pixels: &[[u8; FILE_PIXEL_BYTES]], pixels_to_a_metre: Option<u32>) -> Vec<u8> {
    let rows = pixels.chunks_exact(width as usize);
    let mut header = Vec::new();
    header.extend(width.to_be_bytes());
    header.extend(u32::try_from(rows.len()).expect("as many rows as PNG allows").to_be_bytes());
    header.extend([BIT_DEPTH, COLOUR_TYPE_TRUECOLOUR, COMPRESSION_METHOD_DEFLATE, FILTER_METHOD_ADAPTIVE, INTERLACE_METHOD_NONE]);
    let size = pixels_to_a_metre.map(|pixels| [&pixels.to_be_bytes()[..], &pixels.to_be_bytes(), &[UNIT_METRE]].concat());
    let mut above = vec![0_u8; width as usize * FILE_PIXEL_BYTES];
    let mut raw = Vec::with_capacity((above.len() + 1) * rows.len());
    for row in rows.map(<[_]>::as_flattened) {
        raw.push(FILTER_TYPE_UP);
        raw.extend(row.iter().zip(&above).map(|(here, above)| here.wrapping_sub(*above)));
        above.copy_from_slice(row);
    }
    let image = miniz_oxide::deflate::compress_to_vec_zlib(&raw, COMPRESSION_LEVEL);
    let mut png = SIGNATURE.to_vec();
    let chunks = [Some((b"IHDR", header)), size.map(|size| (b"pHYs", size)), Some((b"IDAT", image)), Some((b"IEND", Vec::new()))];
    for (kind, content) in chunks.into_iter().flatten() {
        let length = u32::try_from(content.len()).expect("a picture takes less than 4 GiB");
        png.extend(length.to_be_bytes());
        png.extend(kind);
        png.extend(&content);
        png.extend(crc32(kind.iter().chain(&content)).to_be_bytes());
    }
    png
}

/// The cyclic redundancy check of PNG, annex D of its specification.
fn crc32<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    /// The generator polynomial, lowest power first.
    const POLYNOMIAL: u32 = 0xedb8_8320;
    /// The remainder of each value of a byte.
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut at = 0;
        while at < 256 {
            let mut value = at as u32;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { POLYNOMIAL ^ (value >> 1) } else { value >> 1 };
                bit += 1;
            }
            table[at] = value;
            at += 1;
        }
        table
    };
    !bytes.fold(!0, |crc: u32, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_matches_the_published_check_values() {
        assert_eq!(crc32(b"123456789".iter()), 0xcbf4_3926);
        assert_eq!(crc32(b"IEND".iter()), 0xae42_6082);
    }
}
