//! SVG output: text stays text, so that it can be searched, copied and edited.

use super::font::{FAMILIES, Weight};
use super::scene::{Anchor, Area, Colour, Coordinates, Item, RIM_WIDTH, Scene, Stroke, Text};
use std::fmt::Write;

pub(super) fn write(scene: &Scene) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}pt\" height=\"{height}pt\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"{FAMILIES}\" font-kerning=\"none\" role=\"img\">\n<title>{}</title>\n",
        escaped(&scene.title)
    );
    let mut clips: Vec<Area> = Vec::new();
    for item in &scene.items {
        if let Item::Shape { clip: Some(area), .. } = item
            && !clips.contains(area)
        {
            let id = clips.len();
            let (left, top, width, height) = (number(area.left), number(area.top), number(area.width()), number(area.height()));
            let _ = writeln!(
                svg,
                "<clipPath id=\"clip{id}\"><rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\"/></clipPath>"
            );
            clips.push(*area);
        }
    }
    let _ = writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
    for item in &scene.items {
        // Writing to a string can't fail.
        let _ = match item {
            Item::Shape { contours, closed, fill, stroke, clip } => {
                let clip = clip.and_then(|area| clips.iter().position(|other| *other == area));
                let clip = clip.map_or(String::new(), |id| format!(" clip-path=\"url(#clip{id})\""));
                writeln!(svg, "<path d=\"{}\"{}{}{clip}/>", path(contours, *closed), filled(*fill), stroked(*stroke))
            }
            Item::Circle { centre, radius, fill, stroke } => {
                let (x, y, radius) = (number(centre.0), number(centre.1), number(*radius));
                writeln!(
                    svg,
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"{}{}/>",
                    filled(fill.map(|colour| (colour, 1.0))),
                    stroked(*stroke)
                )
            }
            Item::Text(text) => writeln!(svg, "{}", written(text)),
        };
    }
    svg + "</svg>\n"
}

fn written(text: &Text) -> String {
    let (x, y) = (number(text.at.0), number(text.at.1));
    let mut attributes = format!("x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"", number(text.size), hex(text.colour));
    match text.anchor {
        Anchor::Start => {}
        Anchor::Middle => attributes += " text-anchor=\"middle\"",
        Anchor::End => attributes += " text-anchor=\"end\"",
    }
    if text.weight == Weight::Bold {
        attributes += " font-weight=\"bold\"";
    }
    if text.turned != 0.0 {
        attributes += &format!(" transform=\"rotate({} {x} {y})\"", number(text.turned));
    }
    let words = escaped(&text.text);
    let written = format!("<text {attributes}>{words}</text>");
    if text.rim {
        // The rim is a separate element: many programs ignore `paint-order` and would draw the rim
        // over the letters.
        let width = number(RIM_WIDTH);
        let rim = format!("stroke=\"#ffffff\" stroke-width=\"{width}\" stroke-linejoin=\"round\" aria-hidden=\"true\"");
        return format!("<text {attributes} {rim}>{words}</text>\n{written}");
    }
    written
}

fn path(contours: &[Vec<Coordinates>], closed: bool) -> String {
    let mut path = String::new();
    for contour in contours {
        for (at, (x, y)) in contour.iter().enumerate() {
            path.push_str(if at == 0 { "M" } else { "L" });
            path.push_str(&number(*x));
            path.push(' ');
            path.push_str(&number(*y));
        }
        if closed {
            path.push('Z');
        }
    }
    path
}

fn filled(fill: Option<(Colour, f64)>) -> String {
    match fill {
        None => " fill=\"none\"".into(),
        Some((colour, opacity)) if opacity < 1.0 => format!(" fill=\"{}\" fill-opacity=\"{}\"", hex(colour), number(opacity)),
        Some((colour, _)) => format!(" fill=\"{}\"", hex(colour)),
    }
}

fn stroked(stroke: Option<Stroke>) -> String {
    let Some(Stroke { colour, width, dashes }) = stroke else { return String::new() };
    let mut text = format!(" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"", hex(colour), number(width));
    if !dashes.is_empty() {
        let dashes: Vec<String> = dashes.iter().map(|&length| number(length)).collect();
        text += &format!(" stroke-dasharray=\"{}\"", dashes.join(" "));
    }
    text
}

fn hex(Colour(red, green, blue): Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Two decimals, a resolution of 0.01 points, without trailing zeros.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // XML 1.0 can't represent most control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
