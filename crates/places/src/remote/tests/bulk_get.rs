//! Bulk gets of a stand-in for a Fulgurite server.

use serde_json::{Value, json};

use super::server::{Act, Request, Server, answer};
use super::*;

pub(super) const OURS: &str = "Server: fulgurite\r\n";

/// A place below `p/` of a bucket, with keys.
fn place(server: &Server, options: &[(&str, &str)]) -> Box<dyn Place> {
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let mut all = vec![("endpoint", endpoint.as_str()), ("access_key_id", "k"), ("secret_access_key", "env:PATH")];
    all.extend(options);
    open("s3://bucket/p", &all)
}

pub(super) fn signed(server: &Server, options: &[(&str, &str)]) -> Box<dyn Connection> {
    place(server, options).connect().expect("it needs no server")
}

/// What the stand-in has under a key.
fn content(key: &str) -> Vec<u8> {
    key.repeat(100).into_bytes()
}

/// Adds an entry to an archive.
fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_entry_type(tar::EntryType::Regular);
    archive.append_data(&mut header, name, content).expect("memory takes everything");
}

fn requested(request: &Request) -> Vec<String> {
    let list: Value = serde_json::from_slice(&request.body).expect("JSON");
    let key = |object: &Value| object["key"].as_str().expect("a key").to_owned();
    list["objects"].as_array().expect("a list").iter().map(key).collect()
}

/// A line of a result.
fn line(key: &str, size: u64, entry: &str) -> Value {
    json!({ "key": key, "entry": format!("objects/{entry}"), "size": size })
}

/// The answer to a bulk get, with objects in another order than that of the request. Objects with
/// `gone` in their keys don't exist.
fn archive(request: &Request) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut lines = Vec::new();
    for key in requested(request).iter().rev() {
        if key.contains("gone") {
            lines.push(json!({ "key": key, "code": "NoSuchKey", "message": "There is no such key." }));
            continue;
        }
        let entry = format!("objects/{key}");
        add(&mut archive, &entry, &content(key));
        lines.push(json!({ "key": key, "entry": entry, "size": content(key).len(), "etag": "e" }));
    }
    lines.reverse();
    add(&mut archive, "result.json", json!({ "objects": lines }).to_string().as_bytes());
    archive.into_inner().expect("memory takes everything")
}

fn is_bulk_get(request: &Request) -> bool {
    request.method == "POST" && request.target == "/bucket?retrieve="
}

/// The answer to a GET.
fn one(request: &Request, headers: &str) -> Vec<Act> {
    let key = request.target.strip_prefix("/bucket/").expect("a key");
    match key.contains("gone") {
        true => answer("404 Not Found", headers, "<Error><Code>NoSuchKey</Code></Error>"),
        false => answer("200 OK", headers, content(key)),
    }
}

/// A server that answers bulk gets so.
fn serve(headers: &'static str, bulk: impl Fn(&Request) -> Vec<Act> + Send + Sync + 'static) -> Server {
    Server::start(move |request| if is_bulk_get(request) { bulk(request) } else { one(request, headers) })
}

/// Reads ahead as far as the connection likes.
fn ahead(connection: &mut dyn Connection, files: &[(&str, u64)]) -> usize {
    connection.read_ahead(&mut files.iter().copied()).unwrap_or(0)
}

fn numbers(server: &Server) -> (usize, usize) {
    let requests = server.requests();
    let bulk = requests.iter().filter(|request| is_bulk_get(request)).count();
    (bulk, requests.len() - bulk)
}

#[test]
fn small_files_of_our_servers_come_with_one_answer() {
    let server = serve(OURS, |request| answer("200 OK", OURS, archive(request)));
    let mut connection = signed(&server, &[]);
    let files = [("a", 300), ("b/gone", 9), ("c", 300), ("d", 1 << 20), ("e", 300)];
    // Whether it is one of ours is known from its first answer.
    assert_eq!(ahead(&mut *connection, &files), 0);
    assert_eq!(read(&mut *connection, "first").expect("it is there"), content("p/first"));
    // A large file ends the list.
    assert_eq!(ahead(&mut *connection, &files), 3);
    assert_eq!(numbers(&server), (1, 1));
    let request = server.requests().pop().expect("a bulk get");
    assert_eq!(requested(&request), ["p/a", "p/b/gone", "p/c"]);
    assert!(request.headers["authorization"].starts_with("AWS4-HMAC-SHA256"), "{:?}", request.headers);
    assert_eq!(read(&mut *connection, "a").expect("it is there"), content("p/a"));
    assert_eq!(connection.read_unchanged("c", &mut |_| true).expect("it is there").bytes, 300);
    assert_eq!(numbers(&server), (1, 1));
    // What the server could not send is asked for alone, as is what was read before.
    assert_eq!(read(&mut *connection, "b/gone").expect_err("gone").cause, Cause::Missing);
    assert_eq!(read(&mut *connection, "a").expect("it is there"), content("p/a"));
    let (bulk, others) = numbers(&server);
    assert!(bulk == 1 && others >= 3, "{:?}", server.requests());
    // What was read ahead is forgotten with the next call.
    assert_eq!(ahead(&mut *connection, &files[..1]), 0);
    assert_eq!(ahead(&mut *connection, &[("x", 300), ("y", 300)]), 2);
    assert_eq!(ahead(&mut *connection, &files[3..]), 0);
    let before = numbers(&server).1;
    assert_eq!(read(&mut *connection, "x").expect("it is there"), content("p/x"));
    assert_eq!(numbers(&server).1, before + 1);
}

#[test]
fn the_reading_can_be_ended() {
    let server = serve(OURS, |request| answer("200 OK", OURS, archive(request)));
    let mut connection = signed(&server, &[]);
    read(&mut *connection, "first").expect("it is there");
    assert_eq!(ahead(&mut *connection, &[("a", 300), ("b", 300)]), 2);
    assert_eq!(connection.read("a", &mut |_| false).expect_err("ended").cause, Cause::Abandoned);
}

#[test]
fn an_answer_has_a_limited_size() {
    let server = serve(OURS, |request| answer("200 OK", OURS, archive(request)));
    let mut connection = signed(&server, &[]);
    read(&mut *connection, "first").expect("it is there");
    let names: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
    let each_with = |bytes| names.iter().map(|name| (name.as_str(), bytes)).collect::<Vec<_>>();
    assert_eq!(ahead(&mut *connection, &each_with(256 << 10)), 16);
    assert_eq!(ahead(&mut *connection, &each_with(10)), 1_000);
    // More than the files can have.
    let server = serve(OURS, |request| {
        let mut archive = archive(request);
        // What follows an archive doesn't matter otherwise.
        archive.resize(9 << 20, 0);
        answer("200 OK", OURS, archive)
    });
    let mut connection = signed(&server, &[]);
    read(&mut *connection, "first").expect("it is there");
    assert_eq!(ahead(&mut *connection, &each_with(10)[..2]), 0);
}

#[test]
fn other_servers_never_see_a_bulk_get() {
    let files = [("a", 300), ("b", 300)];
    for headers in ["", "Server: MinIO\r\n", "Server: fulgurite-like\r\n"] {
        let server = serve(headers, |_| panic!("a bulk get"));
        let mut connection = signed(&server, &[]);
        read(&mut *connection, "first").expect("it is there");
        assert_eq!(ahead(&mut *connection, &files), 0, "{headers}");
        assert_eq!(numbers(&server), (0, 1));
    }
    // Nor do ours without a signature.
    let server = serve(OURS, |_| panic!("a bulk get"));
    let mut connection = s3(&server, &[]);
    read(&mut *connection, "first").expect("it is there");
    assert_eq!(ahead(&mut *connection, &files), 0);
}

/// Reads two files of a server whose answer to a bulk get is unusable, and whether it asks again.
fn numbers_after(bulk: impl Fn(&Request) -> Vec<Act> + Send + Sync + 'static) -> (usize, usize) {
    let server = serve(OURS, bulk);
    let mut connection = signed(&server, &[]);
    read(&mut *connection, "first").expect("it is there");
    let files = [("a", 300), ("b", 300)];
    for (location, _) in files {
        assert_eq!(ahead(&mut *connection, &files), 0);
        assert_eq!(read(&mut *connection, location).expect("it is there"), content(&format!("p/{location}")));
    }
    numbers(&server)
}

#[test]
fn without_a_usable_answer_files_are_read_one_by_one() {
    let changed = |change: fn(&mut Vec<u8>)| {
        move |request: &Request| {
            let mut archive = archive(request);
            change(&mut archive);
            answer("200 OK", OURS, archive)
        }
    };
    // Cut off, without a result, with a result that isn't JSON, and no archive at all.
    assert_eq!(numbers_after(changed(|archive| archive.truncate(700))), (1, 3));
    assert_eq!(numbers_after(changed(|archive| archive.truncate(2_048))), (1, 3));
    assert_eq!(numbers_after(changed(|archive| drop(archive.splice(2_560..2_562, *b"[]")))), (1, 3));
    assert_eq!(numbers_after(changed(|archive| archive.fill(b'x'))), (1, 3));
    assert_eq!(numbers_after(|_| answer("200 OK", OURS, "")), (1, 3));
    // A result that says something else than what was sent.
    let with_lines = |lines: fn(&[String]) -> Value| {
        move |request: &Request| {
            let keys = requested(request);
            let mut archive = tar::Builder::new(Vec::new());
            keys.iter().for_each(|key| add(&mut archive, &format!("objects/{key}"), &content(key)));
            add(&mut archive, "result.json", json!({ "objects": lines(&keys) }).to_string().as_bytes());
            answer("200 OK", OURS, archive.into_inner().expect("memory takes everything"))
        }
    };
    assert_eq!(numbers_after(with_lines(|_| json!([]))), (1, 3));
    assert_eq!(numbers_after(with_lines(|keys| json!([line(&keys[1], 300, "p/b"), line(&keys[0], 300, "p/a")]))), (1, 3));
    assert_eq!(numbers_after(with_lines(|keys| json!([line(&keys[0], 299, "p/a"), line(&keys[1], 300, "p/b")]))), (1, 3));
    assert_eq!(numbers_after(with_lines(|keys| json!([line(&keys[0], 300, "p/a"), line(&keys[1], 300, "p/a")]))), (1, 3));
    // Refused, busy, and not one that has them.
    for status in ["403 Forbidden", "503 Service Unavailable", "400 Bad Request", "501 Not Implemented"] {
        assert_eq!(numbers_after(move |_| answer(status, OURS, "<Error><Code>X</Code></Error>")), (1, 3), "{status}");
    }
    // Once more on a new connection, because the server may have closed an idle one.
    assert_eq!(numbers_after(|_| vec![Act::Close]), (2, 3));
}

#[test]
fn a_server_that_closed_an_idle_connection_is_asked_again() {
    let server = Server::start(|request| {
        let mut acts = if is_bulk_get(request) { answer("200 OK", OURS, archive(request)) } else { one(request, OURS) };
        acts.push(Act::Close);
        acts
    });
    let mut connection = signed(&server, &[]);
    read(&mut *connection, "first").expect("it is there");
    for _ in 0..3 {
        assert_eq!(ahead(&mut *connection, &[("a", 300), ("b", 300)]), 2);
    }
}

#[test]
fn what_is_known_of_a_server_outlives_connections() {
    let server = serve(OURS, |request| match requested(request)[0].as_str() {
        "p/busy" => answer("503 Service Unavailable", OURS, "<Error><Code>SlowDown</Code></Error>"),
        _ => answer("200 OK", OURS, archive(request)),
    });
    let place = place(&server, &[]);
    read(&mut *place.connect().expect("it needs no server"), "first").expect("it is there");
    let mut connection = place.connect().expect("it needs no server");
    assert_eq!(ahead(&mut *connection, &[("a", 300), ("b", 300)]), 2);
    let refusal = connection.read_ahead(&mut [("busy", 300), ("b", 300)].into_iter()).expect_err("busy");
    assert!(matches!(refusal.cause, Cause::Throttled { .. }) && refusal.detail.contains("a bulk get"), "{refusal}");
    // The pause holds for all.
    let mut other = place.connect().expect("it needs no server");
    assert_eq!(other.read_ahead(&mut [("a", 300), ("b", 300)].into_iter()), Ok(0));
    // Content of one connection is not there for another.
    assert_eq!(numbers(&server), (2, 1));
    assert_eq!(read(&mut *other, "a").expect("it is there"), content("p/a"));
    assert_eq!(numbers(&server), (2, 2));
}

#[test]
fn a_server_that_does_not_answer_is_out_of_reach() {
    let server = serve(OURS, |_| vec![Act::Stall]);
    let mut connection = signed(&server, &[SHORT_START]);
    read(&mut *connection, "first").expect("it is there");
    let refusal = connection.read_ahead(&mut [("a", 300), ("b", 300)].into_iter()).expect_err("no answer");
    assert_eq!(refusal.cause, Cause::TimedOut, "{refusal}");
    assert_eq!(connection.read_ahead(&mut [("a", 300), ("b", 300)].into_iter()), Ok(0));
    assert_eq!(read(&mut *connection, "a").expect("it is there"), content("p/a"));
}
