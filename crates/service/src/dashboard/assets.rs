//! The dashboard's files, compiled into the program.

use fulgurite_viewer::web;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use super::{PATH, text};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// Paths below the dashboard's, types and contents.
const FILES: [(&str, &str, &str); 23] = [
    ("", HTML, include_str!("web/index.html")),
    ("/colours.css", STYLE, web::COLOURS),
    ("/panel.css", STYLE, web::PANEL_STYLE),
    ("/style.css", STYLE, include_str!("web/style.css")),
    ("/icon.svg", ICON, include_str!("web/icon.svg")),
    ("/app.js", SCRIPT, include_str!("web/app.js")),
    ("/activity.js", SCRIPT, include_str!("web/activity.js")),
    ("/api.js", SCRIPT, include_str!("web/api.js")),
    ("/format.js", SCRIPT, include_str!("web/format.js")),
    ("/chart.js", SCRIPT, include_str!("web/chart.js")),
    ("/events.js", SCRIPT, include_str!("web/events.js")),
    ("/fixity.js", SCRIPT, include_str!("web/fixity.js")),
    ("/library.js", SCRIPT, include_str!("web/library.js")),
    ("/names.js", SCRIPT, include_str!("web/names.js")),
    ("/objects.js", SCRIPT, include_str!("web/objects.js")),
    ("/platters.js", SCRIPT, include_str!("web/platters.js")),
    ("/restores.js", SCRIPT, include_str!("web/restores.js")),
    ("/tables.js", SCRIPT, include_str!("web/tables.js")),
    ("/dom.js", SCRIPT, web::DOM),
    ("/drawing.js", SCRIPT, web::DRAWING),
    ("/course.js", SCRIPT, web::COURSE),
    ("/panel.js", SCRIPT, web::PANEL),
    ("/plots.js", SCRIPT, web::PLOTS),
];

/// A file, or 304 if the browser has it. Browsers ask each time, so a new version of the server is
/// never shown with scripts of an old one.
pub(super) fn answer(below: &str, headers: &HeaderMap) -> Response<s3s::Body> {
    if below == "/" {
        let mut response = text(StatusCode::PERMANENT_REDIRECT, "the dashboard has no slash at its end\n");
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(PATH));
        return response;
    }
    let Some((_, media_type, content)) = FILES.iter().find(|(path, ..)| *path == below) else {
        return text(StatusCode::NOT_FOUND, "no such page\n");
    };
    let tag = format!("\"{:016x}\"", twox_hash::XxHash3_64::oneshot(content.as_bytes()));
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        Response::new(if is_known { s3s::Body::empty() } else { s3s::Body::from(bytes::Bytes::from_static(content.as_bytes())) });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard/web");
        for entry in std::fs::read_dir(folder).expect("the folder").flatten() {
            let name = entry.file_name().into_string().expect("a name");
            let path = if name == "index.html" { String::new() } else { format!("/{name}") };
            // Declarations are for the type checker alone.
            let is_served = FILES.iter().any(|(served, ..)| *served == path);
            assert_eq!(is_served, !name.ends_with(".d.ts") && !name.ends_with(".json"), "{name}");
        }
    }

    #[test]
    fn a_browser_that_has_a_file_gets_it_once() {
        let first = answer("/app.js", &HeaderMap::new());
        let tag = first.headers()[header::ETAG].clone();
        assert_eq!(first.status(), StatusCode::OK);
        let again = answer("/app.js", &HeaderMap::from_iter([(header::IF_NONE_MATCH, tag)]));
        assert_eq!((again.status(), again.body().bytes().map(|body| body.len())), (StatusCode::NOT_MODIFIED, Some(0)));
        assert_eq!(answer("/../app.js", &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
        assert_eq!(answer("/", &HeaderMap::new()).headers()[header::LOCATION], PATH);
    }
}
