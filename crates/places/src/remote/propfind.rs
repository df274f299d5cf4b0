//! Answers to PROPFIND: what a WebDAV server says about a file, or about the members of a folder.
//!
//! RFC 4918, sections 9.1 and 14. Prefixes of names are the server's choice, so elements are found
//! by namespace.

use percent_encoding::percent_decode_str;
use quick_xml::NsReader;
use quick_xml::events::Event;
use quick_xml::name::ResolveResult;

use super::super::{Cause, Refusal};

/// Asks for what is needed.
pub(super) const REQUEST: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/><D:getcontentlength/><D:getetag/><D:getlastmodified/></D:prop>\
    </D:propfind>";

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Member {
    /// Path segments of its URL, decoded.
    pub(super) path: Vec<String>,
    pub(super) is_folder: bool,
    pub(super) bytes: Option<u64>,
    pub(super) etag: Option<String>,
    /// As the server writes it.
    pub(super) modified: Option<String>,
}

/// Calls `each` for all members of an answer.
///
/// # Errors
/// [`Cause::Fault`] if the answer is malformed or incomplete, [`Cause::Unsupported`] if a name
/// isn't UTF-8.
pub(super) fn members(answer: &[u8], each: &mut dyn FnMut(Member) -> Result<(), Refusal>) -> Result<(), Refusal> {
    let malformed = |problem: &dyn std::fmt::Display| Refusal::new(Cause::Fault, format!("malformed answer to PROPFIND: {problem}"));
    let answer = std::str::from_utf8(answer).map_err(|error| malformed(&error))?;
    let mut reader = NsReader::from_str(answer);
    // Of the elements below multistatus/response.
    let (mut depth, mut closed) = (0_usize, false);
    let mut response = Response::default();
    let mut text: Option<String> = None;
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|error| malformed(&error))?;
        let is_dav = matches!(namespace, ResolveResult::Bound(namespace) if namespace.0 == "DAV:");
        match event {
            Event::Start(element) => {
                depth += 1;
                let name = element.local_name();
                match name.as_ref() {
                    "multistatus" if depth == 1 && is_dav => {}
                    _ if depth == 1 => return Err(malformed(&"it isn't a multistatus")),
                    "response" if depth == 2 && is_dav => response = Response::default(),
                    "propstat" if depth == 3 && is_dav => response.begin_properties(),
                    "collection" if is_dav => response.properties.is_folder = true,
                    "href" | "getcontentlength" | "getetag" | "getlastmodified" | "status" if is_dav => text = Some(String::new()),
                    _ => {}
                }
            }
            Event::Empty(element) => {
                if depth == 0 {
                    return Err(malformed(&"it is empty"));
                }
                if is_dav && element.local_name().as_ref() == "collection" {
                    response.properties.is_folder = true;
                }
            }
            Event::Text(part) => {
                if let Some(text) = &mut text {
                    text.push_str(&part);
                }
            }
            Event::GeneralRef(reference) => {
                if let Some(text) = &mut text {
                    let resolved = match reference.resolve_char_ref().map_err(|error| malformed(&error))? {
                        Some(character) => Some(character),
                        None => match &*reference {
                            "amp" => Some('&'),
                            "lt" => Some('<'),
                            "gt" => Some('>'),
                            "quot" => Some('"'),
                            "apos" => Some('\''),
                            _ => None,
                        },
                    };
                    text.push(resolved.ok_or_else(|| malformed(&"an unknown entity"))?);
                }
            }
            Event::CData(part) => {
                if let Some(text) = &mut text {
                    text.push_str(&part);
                }
            }
            Event::End(element) => {
                if is_dav {
                    let text = text.take().unwrap_or_default();
                    match element.local_name().as_ref() {
                        // A response may contain further hrefs, such as those of locks.
                        "href" if depth == 3 => response.href = Some(text),
                        "getcontentlength" => response.properties.bytes = text.trim().parse().ok(),
                        "getetag" => response.properties.etag = stated(&text),
                        "getlastmodified" => response.properties.modified = stated(&text),
                        "status" if depth == 4 => response.properties_found = status(&text) == Some(200),
                        "status" if depth == 3 => response.status = status(&text),
                        "propstat" if depth == 3 => response.end_properties(),
                        "response" if depth == 2 => each(std::mem::take(&mut response).member().map_err(|refusal| match refusal {
                            Ok(problem) => malformed(&problem),
                            Err(refusal) => refusal,
                        })?)?,
                        _ => {}
                    }
                }
                depth = depth.saturating_sub(1);
                closed |= depth == 0;
            }
            Event::Eof if closed => return Ok(()),
            Event::Eof => return Err(malformed(&"it ends early")),
            _ => {}
        }
    }
}

#[derive(Default)]
struct Response {
    href: Option<String>,
    /// Of the resource as a whole.
    status: Option<u16>,
    /// Of the propstat that is being read, and whether its properties exist.
    properties: Member,
    properties_found: bool,
    found: Member,
}

impl Response {
    fn begin_properties(&mut self) {
        (self.properties, self.properties_found) = (Member::default(), false);
    }

    fn end_properties(&mut self) {
        if self.properties_found {
            self.found.is_folder |= self.properties.is_folder;
            self.found.bytes = self.found.bytes.or(self.properties.bytes);
            self.found.etag = self.found.etag.take().or(self.properties.etag.take());
            self.found.modified = self.found.modified.take().or(self.properties.modified.take());
        }
    }

    fn member(self) -> Result<Member, Result<&'static str, Refusal>> {
        let href = self.href.ok_or(Ok("a response without href"))?;
        if self.status.is_some_and(|status| status >= 400) {
            return Err(Err(Refusal::new(Cause::Fault, format!("the server can't tell about {href:?}"))));
        }
        Ok(Member { path: segments(href.trim()).map_err(Err)?, ..self.found })
    }
}

/// The text of a property, unless it is empty.
fn stated(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The code in a line such as `HTTP/1.1 200 OK`.
fn status(line: &str) -> Option<u16> {
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The decoded segments of a URL's path. The URL may lack scheme and host.
///
/// # Errors
/// [`Cause::Unsupported`] if a name isn't UTF-8 or contains a slash.
pub(super) fn segments(url: &str) -> Result<Vec<String>, Refusal> {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let unusable = |segment: &str| Refusal::new(Cause::Unsupported, format!("the name {segment:?} is not UTF-8, or contains a slash"));
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| {
            let name = percent_decode_str(segment).decode_utf8().map_err(|_| unusable(segment))?;
            if name.contains(['/', '\0']) { Err(unusable(segment)) } else { Ok(name.into_owned()) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(answer: &str) -> Result<Vec<Member>, Refusal> {
        let mut found = Vec::new();
        members(answer.as_bytes(), &mut |member| {
            found.push(member);
            Ok(())
        })?;
        Ok(found)
    }

    fn member(path: &[&str], is_folder: bool, bytes: Option<u64>) -> Member {
        Member { path: path.iter().map(|name| (*name).to_owned()).collect(), is_folder, bytes, ..Member::default() }
    }

    const APACHE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
        <D:multistatus xmlns:D="DAV:" xmlns:ns0="DAV:">
        <D:response xmlns:lp1="DAV:"><D:href>/dav/</D:href>
          <D:propstat><D:prop><lp1:resourcetype><D:collection/></lp1:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
          <D:propstat><D:prop><D:getcontentlength/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>
        </D:response>
        <D:response><D:href>http://host/dav/a%20b&amp;c</D:href>
          <D:propstat><D:prop><lp:resourcetype xmlns:lp="DAV:"/><getcontentlength xmlns="DAV:">42</getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
        </D:response></D:multistatus>"#;

    #[test]
    fn folders_and_files_are_found_under_any_prefix() {
        assert_eq!(parse(APACHE), Ok(vec![member(&["dav"], true, None), member(&["dav", "a b&c"], false, Some(42))]));
    }

    #[test]
    fn the_etag_and_the_time_of_modification_are_read_as_they_are_written() {
        let answer = r#"<D:multistatus xmlns:D="DAV:"><D:response><D:href>/f</D:href><D:propstat><D:prop>
            <D:getetag>W/&quot;1-a&quot;</D:getetag><D:getlastmodified>Thu, 01 Jan 1970 00:00:00 GMT</D:getlastmodified></D:prop>
            <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response><D:response><D:href>/g</D:href><D:propstat><D:prop>
            <D:getetag/><D:getlastmodified/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response></D:multistatus>"#;
        let (etag, modified) = (Some("W/\"1-a\"".to_owned()), Some("Thu, 01 Jan 1970 00:00:00 GMT".to_owned()));
        let found = Member { etag, modified, ..member(&["f"], false, None) };
        assert_eq!(parse(answer), Ok(vec![found, member(&["g"], false, None)]));
    }

    #[test]
    fn properties_of_another_namespace_are_ignored() {
        let answer = r#"<m:multistatus xmlns:m="DAV:" xmlns:x="urn:x"><m:response><m:href>/f</m:href><m:propstat><m:prop>
            <x:getcontentlength>1</x:getcontentlength><x:collection/></m:prop><m:status>HTTP/1.1 200 OK</m:status></m:propstat></m:response></m:multistatus>"#;
        assert_eq!(parse(answer), Ok(vec![member(&["f"], false, None)]));
    }

    #[test]
    fn every_truncation_is_noticed() {
        for end in 0..APACHE.len() {
            let refusal = parse(&APACHE[..end]).expect_err("cut off");
            assert_eq!(refusal.cause, Cause::Fault, "at {end}: {refusal}");
        }
    }

    #[test]
    fn malformed_answers_are_faults() {
        for answer in [
            "",
            "<html><body>Log in</body></html>",
            "<multistatus/>",
            "not XML",
            "<D:multistatus xmlns:D=\"DAV:\"><D:response></D:response></D:multistatus>",
            "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>&bomb;</D:href></D:response></D:multistatus>",
        ] {
            assert_eq!(parse(answer).map_err(|refusal| refusal.cause), Err(Cause::Fault), "{answer}");
        }
        let refused = "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/a</D:href><D:status>HTTP/1.1 403 Forbidden</D:status></D:response></D:multistatus>";
        assert_eq!(parse(refused).map_err(|refusal| refusal.cause), Err(Cause::Fault));
    }

    #[test]
    fn names_that_are_not_utf_8_or_hide_a_slash_are_refused() {
        assert_eq!(segments("/a/%ff").map_err(|refusal| refusal.cause), Err(Cause::Unsupported));
        assert_eq!(segments("/a/b%2Fc").map_err(|refusal| refusal.cause), Err(Cause::Unsupported));
        assert_eq!(segments("https://host"), Ok(vec![]));
        assert_eq!(segments("https://host/%C3%BC/b?q=/x"), Ok(vec!["ü".to_owned(), "b".to_owned()]));
    }
}
