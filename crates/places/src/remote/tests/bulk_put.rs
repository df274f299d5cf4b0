//! Bulk puts to a stand-in for a Fulgurite server.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::super::super::NewContent;
use super::bulk_get::{OURS, signed};
use super::server::{Act, Request, Server, answer};
use super::*;

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

fn is_bulk_put(request: &Request) -> bool {
    request.method == "POST" && request.target == "/bucket?store="
}

/// Stores the files of an archive whose keys are free and don't have `refused` in them. Returns the
/// line of each.
fn store(objects: &Objects, request: &Request) -> Vec<Value> {
    assert_eq!(request.headers["if-none-match"], "*");
    assert!(request.headers["authorization"].starts_with("AWS4-HMAC-SHA256") && request.headers["authorization"].contains("if-none-match"));
    let mut archive = tar::Archive::new(&request.body[..]);
    let mut objects = objects.lock().expect("no test panics while it holds it");
    let line = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.expect("an entry");
        let record = entry.pax_extensions().expect("records").and_then(|records| {
            let is_key = |record: &tar::PaxExtension<'_>| record.key() == Ok("SCHILY.xattr.user.fulgurite.key");
            records.map(|record| record.expect("a record")).find(is_key).map(|record| record.value().expect("text").to_owned())
        });
        let key = record.unwrap_or_else(|| String::from_utf8(entry.path_bytes().into_owned()).expect("text"));
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("content");
        if key.contains("refused") {
            return json!({ "key": key, "code": "InternalError", "message": "no" });
        }
        if objects.contains_key(&key) {
            return json!({ "key": key, "code": "PreconditionFailed", "message": "it exists" });
        }
        let line = json!({ "key": key, "size": content.len(), "etag": "e" });
        objects.insert(key, content);
        line
    };
    archive.entries().expect("an archive").map(line).collect()
}

fn report(lines: &[Value]) -> Vec<Act> {
    answer("200 OK", OURS, json!({ "objects": lines }).to_string())
}

/// A server that answers bulk puts so, and says of each other request that there is no such object.
fn serve(headers: &'static str, bulk: impl Fn(&Request) -> Vec<Act> + Send + Sync + 'static) -> Server {
    Server::start(move |request| match request.method.as_str() {
        "POST" if is_bulk_put(request) => bulk(request),
        "HEAD" => vec![server::send(format!("HTTP/1.1 404 Not Found\r\n{headers}Content-Length: 0\r\n\r\n"))],
        "PUT" => answer("200 OK", headers, ""),
        _ => answer("404 Not Found", headers, "<Error><Code>NoSuchKey</Code><Key>x</Key></Error>"),
    })
}

fn put(connection: &mut dyn Connection, files: &[(&str, usize)]) -> Vec<Result<(), Cause>> {
    let mut new = files.iter().map(|&(location, bytes)| NewContent {
        location,
        bytes: bytes as u64,
        content: Box::new(io::Cursor::new(location.repeat(bytes).into_bytes()).take(bytes as u64)),
    });
    connection.write_new_together(&mut new).into_iter().map(|result| result.map_err(|refusal| refusal.cause)).collect()
}

fn bulk_puts(server: &Server) -> usize {
    server.requests().iter().filter(|request| is_bulk_put(request)).count()
}

/// Asks for a file that isn't there, which tells whose server it is.
fn look(connection: &mut dyn Connection) {
    assert_eq!(connection.length("first").expect_err("it isn't there").cause, Cause::Missing);
}

#[test]
fn small_new_files_go_to_our_servers_with_one_request() {
    let objects = Objects::default();
    objects.lock().expect("no thread has it").insert("p/exists".to_owned(), b"old".to_vec());
    let seen = objects.clone();
    let server = serve(OURS, move |request| report(&store(&seen, request)));
    let mut connection = signed(&server, &[]);
    let long = "l".repeat(200);
    let files =
        [("a", 300), ("empty", 0), ("exists", 9), (&*long, 512), ("refused", 7), ("b ü", 256 << 10), ("large", (256 << 10) + 1), ("c", 1)];
    assert_eq!(put(&mut *connection, &files), []);
    look(&mut *connection);
    let expected = [Ok(()), Ok(()), Err(Cause::Exists), Ok(()), Err(Cause::Fault), Ok(())];
    assert_eq!(put(&mut *connection, &files), expected);
    assert_eq!(bulk_puts(&server), 1);
    let mut stored = objects.lock().expect("no thread has it").clone();
    assert_eq!(stored.remove("p/exists").expect("it was there"), b"old");
    let content = |location: &str, bytes: usize| (format!("p/{location}"), location.repeat(bytes).into_bytes()[..bytes].to_vec());
    assert!(stored == [content("a", 300), content("empty", 0), content(&long, 512), content("b ü", 256 << 10)].into());
    // One file is no reason for one.
    assert_eq!(put(&mut *connection, &files[7..]), []);
    // Content of another length is left to the put of that file.
    let mut short = ["d", "e", "f"].into_iter().map(|location| NewContent {
        location,
        bytes: 2,
        content: Box::new(io::repeat(7).take(if location == "f" { 3 } else { 2 })),
    });
    assert_eq!(connection.write_new_together(&mut short).len(), 2);
    // Up to so much at a time.
    let names: Vec<String> = (0..2_000).map(|number| number.to_string()).collect();
    let each_with = |bytes| names.iter().map(|name| (name.as_str(), bytes)).collect::<Vec<_>>();
    assert_eq!(put(&mut *connection, &each_with(200 << 10)).len(), 20);
    assert_eq!(put(&mut *connection, &each_with(3)).len(), 1_000);
}

#[test]
fn other_servers_never_see_a_bulk_put() {
    for headers in ["", "Server: MinIO\r\n"] {
        let server = serve(headers, |_| panic!("a bulk put"));
        let mut connection = signed(&server, &[]);
        look(&mut *connection);
        assert_eq!(put(&mut *connection, &[("a", 1), ("b", 1)]), [], "{headers}");
    }
}

#[test]
fn without_a_usable_answer_nothing_counts_as_stored() {
    let result_after = |bulk: fn(Vec<Value>) -> Vec<Act>| {
        let objects = Objects::default();
        let server = serve(OURS, move |request| bulk(store(&objects, request)));
        let mut connection = signed(&server, &[]);
        look(&mut *connection);
        let results = put(&mut *connection, &[("a", 3), ("b", 3)]);
        // Not again at once.
        assert_eq!(put(&mut *connection, &[("c", 3), ("d", 3)]), []);
        (results, bulk_puts(&server))
    };
    let nothing = |requests| (Vec::new(), requests);
    assert_eq!(result_after(|lines| report(&lines[..1])), nothing(1));
    assert_eq!(result_after(|lines| report(&[lines[1].clone(), lines[0].clone()])), nothing(1));
    assert_eq!(result_after(|_| report(&[json!({ "key": "p/a" }), json!({ "key": "p/b", "etag": "e" })])), nothing(1));
    assert_eq!(result_after(|_| answer("200 OK", OURS, "")), nothing(1));
    // Too long, although it would be valid.
    assert_eq!(result_after(|lines| answer("200 OK", OURS, json!({ "objects": lines }).to_string() + &" ".repeat(1 << 20))), nothing(1));
    let busy = Err(Cause::Throttled { retry_after: None });
    assert_eq!(result_after(|_| answer("503 Service Unavailable", OURS, "<Error><Code>SlowDown</Code></Error>")), (vec![busy, busy], 1));
    assert_eq!(result_after(|_| answer("403 Forbidden", OURS, "<Error><Code>AccessDenied</Code></Error>")), nothing(1));
    assert_eq!(result_after(|_| vec![server::send("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{"), Act::Close]), nothing(1));
    // Sent once more, because the server may have closed an idle connection: what it stored before
    // is not stored again.
    let objects = Objects::default();
    let (seen, is_first) = (objects.clone(), Mutex::new(true));
    let server = serve(OURS, move |request| {
        let lines = store(&seen, request);
        if std::mem::take(&mut *is_first.lock().expect("no test panics while it holds it")) { vec![Act::Close] } else { report(&lines) }
    });
    let mut connection = signed(&server, &[]);
    look(&mut *connection);
    assert_eq!(put(&mut *connection, &[("a", 3), ("b", 3)]), [Err(Cause::Exists), Err(Cause::Exists)]);
}

#[test]
fn our_servers_make_sure_that_a_single_put_replaces_nothing() {
    let server = Server::start(|request| match (request.method.as_str(), request.target.contains("there")) {
        ("HEAD", _) => vec![server::send(format!("HTTP/1.1 404 Not Found\r\n{OURS}Content-Length: 0\r\n\r\n"))],
        ("PUT", true) if request.headers.get("if-none-match").is_some_and(|value| value == "*") => {
            answer("412 Precondition Failed", OURS, "<Error><Code>PreconditionFailed</Code></Error>")
        }
        ("PUT", _) => answer("200 OK", OURS, ""),
        _ => answer("404 Not Found", OURS, "<Error><Code>NoSuchKey</Code><Key>x</Key></Error>"),
    });
    let mut connection = signed(&server, &[]);
    look(&mut *connection);
    assert_eq!(connection.write_new("there", 1, &mut &b"x"[..]).expect_err("it is there").cause, Cause::Exists);
    connection.write_new("free", 1, &mut &b"x"[..]).expect("it is free");
    // To replace a file is allowed.
    connection.write("there", 1, &mut &b"x"[..]).expect("it is replaced");
}
