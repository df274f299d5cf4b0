//! The page that plays a recording: one file, which loads nothing and needs no server.

use crate::{Recording, web};

const PAGE: &str = include_str!("web/player.html");
/// The styles, each before those that build on it.
const STYLES: [&str; 3] = [web::COLOURS, include_str!("web/player.css"), web::PANEL_STYLE];
/// The modules of the script, each after those that it imports.
const MODULES: [&str; 6] = [web::DOM, web::DRAWING, web::COURSE, web::PANEL, web::PLOTS, include_str!("web/player.js")];

/// Halfway between fast and small.
const COMPRESSION: u8 = 6;

/// The page that plays a recording.
#[must_use]
pub fn page(recording: &Recording) -> String {
    let packed = miniz_oxide::deflate::compress_to_vec(recording.json().to_string().as_bytes(), COMPRESSION);
    let data = base64_simd::STANDARD.encode_to_string(packed);
    let title = recording.title.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (style, script) = (STYLES.concat(), script());
    let mut page = String::with_capacity(PAGE.len() + style.len() + script.len() + data.len() + title.len());
    let mut rest = PAGE;
    for (mark, text) in [("{title}", title.as_str()), ("{style}", &style), ("{recording}", &data), ("{script}", &script)] {
        let (before, after) = rest.split_once(mark).expect("the page has each mark once, in this order");
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// The modules as one, without imports and exports: a page in a file can't load others.
fn script() -> String {
    let lines = MODULES.iter().flat_map(|module| module.lines()).filter(|line| !line.starts_with("import "));
    lines.flat_map(|line| [line.strip_prefix("export ").unwrap_or(line), "\n"]).collect()
}
