//! A bucket and a WebDAV folder in memory, as far as the places need them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::server::{Act, Request, Server, answer};
use fulgurite_digest::{Algorithm, Digester};

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().expect("clients send UTF-8").into_owned()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Serves the bucket `bucket`: single puts, gets, heads, deletes, listings, and uploads in parts.
pub(super) fn bucket() -> Server {
    let files: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::default();
    let parts: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::default();
    Server::start(move |request| {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let path = decoded(path);
        let query: BTreeMap<String, String> = query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .collect();
        let (mut files, mut parts) = (files.lock().expect("unpoisoned"), parts.lock().expect("unpoisoned"));
        // It is part of the signature, even if it is 0.
        assert!(request.method != "PUT" || request.headers.contains_key("content-length"), "{request:?}");
        let Some(key) = path.strip_prefix("/bucket") else { return refused("404 Not Found", "NoSuchBucket") };
        let key = key.strip_prefix('/').unwrap_or(key).to_owned();
        match request.method.as_str() {
            "GET" if query.contains_key("list-type") => listing(&files, &query),
            "POST" if query.contains_key("uploads") => {
                parts.clear();
                answer("200 OK", "", "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            }
            "PUT" if query.contains_key("uploadId") => {
                parts.insert(query["partNumber"].parse().expect("a number"), request.body.clone());
                answer("200 OK", "ETag: \"e\"\r\n", "")
            }
            "POST" if query.contains_key("uploadId") => {
                files.insert(key, parts.values().flatten().copied().collect());
                answer("200 OK", "", "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>")
            }
            "DELETE" if query.contains_key("uploadId") => answer("204 No Content", "", ""),
            "PUT" => {
                files.insert(key, request.body.clone());
                answer("200 OK", "ETag: \"e\"\r\n", "")
            }
            "DELETE" => {
                files.remove(&key);
                answer("204 No Content", "", "")
            }
            method => match files.get(&key) {
                Some(content) => content_of(method, content),
                None if method == "HEAD" => answer("404 Not Found", "", ""),
                None => refused("404 Not Found", "NoSuchKey"),
            },
        }
    })
}

fn refused(status: &str, code: &str) -> Vec<Act> {
    answer(status, "Content-Type: application/xml\r\n", format!("<Error><Code>{code}</Code></Error>"))
}

fn content_of(method: &str, content: &[u8]) -> Vec<Act> {
    match method {
        "HEAD" => vec![super::server::send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()))],
        _ => answer("200 OK", "", content),
    }
}

/// Two keys a page, so that listings have several.
fn listing(files: &BTreeMap<String, Vec<u8>>, query: &BTreeMap<String, String>) -> Vec<Act> {
    let after = query.get("continuation-token").cloned().unwrap_or_default();
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    let mut keys = files.iter().filter(|(key, _)| **key > after && key.starts_with(&prefix));
    let page: Vec<_> = keys.by_ref().take(2).collect();
    let more = keys.next().is_some();
    let entries: String = page
        .iter()
        .map(|(key, content)| {
            let (key, size) = (escaped(key), content.len());
            format!("<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-11-25T08:00:00.000Z</LastModified></Contents>")
        })
        .collect();
    let token = page.last().map_or(String::new(), |(key, _)| format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(key)));
    answer("200 OK", "", format!("<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}{entries}</ListBucketResult>"))
}

/// Serves the folder `/dav/ü`.
pub(super) fn folder() -> Server {
    let files: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::default();
    let folders: Mutex<BTreeSet<String>> = Mutex::new(["/dav".to_owned(), "/dav/ü".to_owned()].into());
    Server::start(move |request| {
        let path = decoded(&request.target);
        let path = path.trim_end_matches('/').to_owned();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        let (mut files, mut folders) = (files.lock().expect("unpoisoned"), folders.lock().expect("unpoisoned"));
        match request.method.as_str() {
            "PROPFIND" => propfind(&files, &folders, &path, request),
            "MKCOL" if folders.contains(&path) => answer("405 Method Not Allowed", "", ""),
            "MKCOL" if !folders.contains(&parent) => answer("409 Conflict", "", ""),
            "MKCOL" => {
                folders.insert(path);
                answer("201 Created", "", "")
            }
            "PUT" if !folders.contains(&parent) => answer("409 Conflict", "", ""),
            "PUT" => {
                files.insert(path, request.body.clone());
                answer("201 Created", "", "")
            }
            "MOVE" => {
                let target = decoded(&request.headers["destination"]);
                let target = target.split_once("://").and_then(|(_, rest)| rest.split_once('/')).expect("an absolute URL").1;
                match files.remove(&path) {
                    Some(content) => {
                        files.insert(format!("/{target}"), content);
                        answer("204 No Content", "", "")
                    }
                    None => answer("404 Not Found", "", ""),
                }
            }
            "DELETE" => match files.remove(&path) {
                Some(_) => answer("204 No Content", "", ""),
                None => answer("404 Not Found", "", ""),
            },
            method => match files.get(&path) {
                Some(content) => content_of(method, content),
                None => answer("404 Not Found", "", "no such page"),
            },
        }
    })
}

fn etag(content: &[u8]) -> String {
    let mut digester = Digester::new(&[Algorithm::Md5]);
    digester.update(content);
    digester.finish().remove(0).hex()
}

fn propfind(files: &BTreeMap<String, Vec<u8>>, folders: &BTreeSet<String>, path: &str, request: &Request) -> Vec<Act> {
    let deep = request.headers["depth"] == "1";
    let is_shown = |other: &str| other == path || deep && other.rsplit_once('/').is_some_and(|(parent, _)| parent == path);
    let href =
        |path: &str| path.split('/').map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()).collect::<Vec<_>>().join("/");
    let entry = |href: String, properties: String| {
        format!(
            "<x:response><x:href>{href}</x:href><x:propstat><x:prop>{properties}</x:prop><x:status>HTTP/1.1 200 OK</x:status></x:propstat></x:response>"
        )
    };
    let collection = "<x:resourcetype><x:collection/></x:resourcetype>";
    let mut entries: Vec<_> =
        folders.iter().filter(|other| is_shown(other)).map(|other| entry(format!("{}/", href(other)), collection.to_owned())).collect();
    entries.extend(files.iter().filter(|(other, _)| is_shown(other)).map(|(other, content)| {
        entry(
            format!("http://elsewhere{}", href(other)),
            format!(
                "<x:resourcetype/><x:getcontentlength>{}</x:getcontentlength><x:getetag>\"{}\"</x:getetag>",
                content.len(),
                etag(content)
            ),
        )
    }));
    match entries.is_empty() {
        true => answer("404 Not Found", "", ""),
        false => answer("207 Multi-Status", "", format!("<x:multistatus xmlns:x=\"DAV:\">{}</x:multistatus>", entries.concat())),
    }
}
