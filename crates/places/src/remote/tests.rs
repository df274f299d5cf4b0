//! Places behind HTTP against servers on this machine: well-behaved ones, and faults.

mod bulk_get;
mod bulk_put;
mod memory;
mod openstack;
mod server;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use self::server::{Act, Server, answer, closed_port, send};
use super::super::{Cause, Connection, Deadlines, Refusal, StatedDigest, conformance};
use super::fetch_url;
use super::*;

/// For tests of silence: they wait that long.
const SHORT: (&str, &str) = ("stall_timeout", "0.3");
const SHORT_START: (&str, &str) = ("first_byte_timeout", "0.3");

fn open(url: &str, options: &[(&str, &str)]) -> Box<dyn Place> {
    let address = Address::parse(url, options.iter().copied()).unwrap_or_else(|error| panic!("{url}: {error}"));
    address.place().expect("it can be opened")
}

fn s3(server: &Server, options: &[(&str, &str)]) -> Box<dyn Connection> {
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let mut all = vec![("endpoint", endpoint.as_str()), ("anonymous", "true")];
    all.extend(options);
    open("s3://bucket/p", &all).connect().expect("it needs no server")
}

fn web(server: &Server, scheme: &str, options: &[(&str, &str)]) -> Box<dyn Connection> {
    open(&format!("{scheme}://127.0.0.1:{}/dir", server.port), options).connect().expect("it needs no server")
}

/// All kinds of connections that can meet the same fault of a server.
fn all(server: &Server, options: &[(&str, &str)]) -> Vec<(&'static str, Box<dyn Connection>)> {
    vec![("s3", s3(server, options)), ("webdav", web(server, "webdav", options)), ("http", web(server, "http", options))]
}

fn read(connection: &mut dyn Connection, location: &str) -> Result<Vec<u8>, Refusal> {
    let mut received = Vec::new();
    let bytes = connection.read(location, &mut |piece| {
        received.extend_from_slice(piece);
        true
    })?;
    assert_eq!(bytes, received.len() as u64);
    Ok(received)
}

/// The cause of a failure to read, which must be the same for all kinds of places.
fn cause(options: &[(&str, &str)], respond: impl Fn(&server::Request) -> Vec<Act> + Send + Sync + 'static) -> Refusal {
    let server = Server::start(respond);
    let mut refusals = Vec::new();
    for (kind, mut connection) in all(&server, options) {
        refusals.push(read(&mut *connection, "file").expect_err(kind));
    }
    let url = format!("http://127.0.0.1:{}/file", server.port);
    let deadlines = Address::parse("http://h", options.iter().copied()).expect("deadlines").deadlines();
    refusals.push(fetch_url(&url, None, deadlines, &mut |_| true).expect_err("fetched"));
    let first = refusals[0].clone();
    for refusal in refusals {
        assert_eq!(refusal.cause, first.cause, "{first} | {refusal}");
    }
    first
}

#[test]
fn a_bucket_does_what_every_place_must_do() {
    let server = memory::bucket();
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    conformance::check(&*open("s3://bucket/a/prefix", &[("endpoint", &endpoint), ("anonymous", "true")]));
    // Content is fetched by one request, without ranges.
    assert!(
        server
            .requests()
            .iter()
            .filter(|request| request.method == "GET")
            .all(|request| { !request.headers.contains_key("range") || request.headers["range"] == "bytes=0-0" })
    );
}

#[test]
fn a_webdav_folder_does_what_every_place_must_do() {
    let server = memory::folder();
    conformance::check(&*open(&format!("webdav://127.0.0.1:{}/dav/%C3%BC", server.port), &[]));
}

#[test]
fn large_files_reach_a_bucket_in_parts() {
    let server = memory::bucket();
    let mut connection = s3(&server, &[]);
    let content: Vec<u8> = (0..20_000_000_u32).map(|index| (index >> 7) as u8).collect();
    connection.write("large", content.len() as u64, &mut &content[..]).expect("it can be written");
    assert_eq!(server.requests().iter().filter(|request| request.target.contains("partNumber")).count(), 3);
    assert!(read(&mut *connection, "large").expect("it can be read") == content);
}

#[test]
fn truncated_answers_are_cut() {
    for end in [Act::Close, Act::Stall] {
        let stalls = matches!(end, Act::Stall);
        let refusal = cause(&[SHORT], move |_| vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"), end.clone()]);
        match stalls {
            false => assert_eq!(refusal.cause, Cause::Cut { received: 9, stated: 100 }, "{refusal}"),
            true => assert!(refusal.cause == Cause::TimedOut && refusal.detail.contains("9 of 100"), "{refusal}"),
        }
    }
}

#[test]
fn answers_that_go_on_after_their_length_are_cut() {
    let refusal = cause(&[], |_| vec![send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfive5")]);
    assert_eq!(refusal.cause, Cause::Cut { received: 5, stated: 4 }, "{refusal}");
    let refusal = cause(&[], |_| vec![send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfive5"), Act::Close]);
    assert_eq!(refusal.cause, Cause::Cut { received: 5, stated: 4 }, "{refusal}");
}

#[test]
fn resets_and_closed_ports_are_faults_of_the_connection() {
    let refusal = cause(&[], |_| vec![Act::Reset]);
    assert_eq!(refusal.cause, Cause::Connection, "{refusal}");
    let refusal = cause(&[], |_| vec![Act::Close]);
    assert_eq!(refusal.cause, Cause::Connection, "{refusal}");
    let refusal = cause(&[], |_| vec![send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"), Act::Reset]);
    assert!(matches!(refusal.cause, Cause::Connection | Cause::Cut { .. }), "{refusal}");
    let url = format!("http://127.0.0.1:{}/x", closed_port());
    let refusal = fetch_url(&url, None, Deadlines::default(), &mut |_| true).expect_err("closed");
    assert_eq!(refusal.cause, Cause::Connection, "{refusal}");
    let refusal = fetch_url("http://no-such-host.invalid/x", None, Deadlines::default(), &mut |_| true).expect_err("no address");
    assert!(refusal.cause == Cause::Connection && refusal.detail.contains("resolved"), "{refusal}");
}

#[test]
fn silence_ends_at_the_deadline() {
    let refusal = cause(&[SHORT_START], |_| vec![Act::Stall]);
    assert!(refusal.cause == Cause::TimedOut && refusal.detail.contains("no answer within 300ms"), "{refusal}");
    let refusal = cause(&[SHORT_START], |_| vec![send("HTTP/1.1 200 O"), Act::Stall]);
    assert_eq!(refusal.cause, Cause::TimedOut, "{refusal}");
}

#[test]
fn answers_that_are_not_http_are_faults() {
    let refusal = cause(&[], |_| vec![send("SSH-2.0-OpenSSH_9.9\r\n\r\n"), Act::Close]);
    assert_eq!(refusal.cause, Cause::Fault, "{refusal}");
    let refusal = cause(&[], |_| vec![send("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"), Act::Close]);
    assert_eq!(refusal.cause, Cause::Fault, "{refusal}");
    // A head without end.
    let refusal = cause(&[], |_| vec![send(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1 << 20))), Act::Close]);
    assert_eq!(refusal.cause, Cause::Fault, "{refusal}");
}

#[test]
fn statuses_become_causes() {
    for (status, expected) in [
        ("401 Unauthorized", Cause::Denied),
        ("403 Forbidden", Cause::Denied),
        ("500 Internal Server Error", Cause::Fault),
        ("502 Bad Gateway", Cause::Fault),
        ("418 I'm a teapot", Cause::Unsupported),
    ] {
        let refusal = cause(&[], move |_| answer(status, "", "why"));
        assert_eq!(refusal.cause, expected, "{refusal}");
        assert!(refusal.detail.contains("why") && refusal.detail.contains(&status[..3]), "{refusal}");
    }
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        for (header, wait) in [
            ("", None),
            ("Retry-After: 7\r\n", Some(7)),
            ("Date: Wed, 25 Nov 2026 08:00:00 GMT\r\nRetry-After: Wed, 25 Nov 2026 08:02:00 GMT\r\n", Some(120)),
        ] {
            let refusal = cause(&[], move |_| answer(status, header, ""));
            assert_eq!(refusal.cause, Cause::Throttled { retry_after: wait.map(Duration::from_secs) }, "{refusal}");
        }
    }
}

#[test]
fn a_partial_answer_is_not_the_whole_file() {
    let refusal = cause(&[], |_| answer("206 Partial Content", "Content-Range: bytes 0-3/8\r\n", "half"));
    assert_eq!(refusal.cause, Cause::Fault, "{refusal}");
    let server = Server::start(|_| answer("204 No Content", "", ""));
    for (kind, mut connection) in all(&server, &[]) {
        assert!(read(&mut *connection, "file").is_err(), "{kind}");
    }
}

#[test]
fn codes_of_s3_become_causes() {
    for (status, code, expected) in [
        ("400 Bad Request", "ExpiredToken", Cause::Denied),
        ("403 Forbidden", "RequestTimeTooSkewed", Cause::Denied),
        ("403 Forbidden", "InvalidAccessKeyId", Cause::Denied),
        ("403 Forbidden", "SignatureDoesNotMatch", Cause::Denied),
        ("403 Forbidden", "InvalidObjectState", Cause::Unsupported),
        ("404 Not Found", "NoSuchBucket", Cause::Fault),
        ("404 Not Found", "NoSuchKey", Cause::Missing),
        ("503 Slow Down", "SlowDown", Cause::Throttled { retry_after: None }),
    ] {
        // HEAD has no body, so its reason is found out by another request.
        let server = Server::start(move |request| match request.method.as_str() {
            "HEAD" => vec![send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))],
            _ => answer(status, "", format!("<Error><Code>{code}</Code><Message>m</Message></Error>")),
        });
        let mut connection = s3(&server, &[]);
        let refusal = read(&mut *connection, "file").expect_err(code);
        assert_eq!(refusal.cause, expected, "{code}: {refusal}");
        let refusal = connection.length("file").expect_err(code);
        assert_eq!(refusal.cause, expected, "{code}: {refusal}");
        assert!(connection.list(&mut |_| true).expect_err(code).cause != Cause::Missing, "{code}");
        assert!(connection.write("file", 1, &mut &b"x"[..]).expect_err(code).cause != Cause::Missing, "{code}");
    }
}

#[test]
fn nothing_is_missing_without_its_bucket_or_folder() {
    // No body says what is missing: everything answers 404.
    let server = Server::start(|_| vec![send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")]);
    for (kind, mut connection) in [("s3", s3(&server, &[])), ("webdav", web(&server, "webdav", &[]))] {
        assert_eq!(read(&mut *connection, "file").expect_err(kind).cause, Cause::Fault, "{kind}");
        assert_eq!(connection.length("file").expect_err(kind).cause, Cause::Fault, "{kind}");
        assert_eq!(connection.list(&mut |_| true).expect_err(kind).cause, Cause::Fault, "{kind}");
    }
    // A plain web server has no folders.
    let mut connection = web(&server, "http", &[]);
    assert_eq!(read(&mut *connection, "file").expect_err("missing").cause, Cause::Missing);
    assert_eq!(connection.length("file").expect_err("missing").cause, Cause::Missing);
}

#[test]
fn a_missing_file_whose_place_does_not_answer_is_not_missing() {
    let server = Server::start(|request| match request.method.as_str() {
        "GET" if !request.target.contains("list-type") => answer("404 Not Found", "", "a proxy's page"),
        _ => answer("500 Internal Server Error", "", ""),
    });
    for (kind, mut connection) in [("s3", s3(&server, &[])), ("webdav", web(&server, "webdav", &[]))] {
        assert_eq!(read(&mut *connection, "file").expect_err(kind).cause, Cause::Fault, "{kind}");
    }
}

/// What each kind of connection says of a server that answers HEAD with `headers`.
fn stated(headers: &'static str) -> Vec<(&'static str, Vec<String>)> {
    let server = Server::start(move |request| match request.method.as_str() {
        "PROPFIND" => answer(
            "207 Multi-Status",
            "",
            "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/dir/file</D:href><D:propstat><D:prop><D:getcontentlength>3</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>",
        ),
        _ => vec![send(format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{headers}\r\n"))],
    });
    let show = |stated: &StatedDigest| format!("{}{}", stated.digest.algorithm(), if stated.is_certain { "" } else { "?" });
    let mut all = all(&server, &[]);
    let ask = |(kind, connection): &mut (&'static str, Box<dyn Connection>)| {
        let statement = connection.stated("file").unwrap_or_else(|refusal| panic!("{kind}: {refusal}"));
        assert_eq!(statement.bytes, 3, "{kind}");
        (*kind, statement.digests.iter().map(show).collect())
    };
    all.iter_mut().map(ask).collect()
}

#[test]
fn digests_are_taken_from_the_headers_of_each_kind_of_server() {
    let nothing = vec![("s3", vec![]), ("webdav", vec![]), ("http", vec![])];
    assert_eq!(stated(""), nothing);
    assert_eq!(stated("ETag: \"900150983cd24fb0d6963f7d28e17f72-12\"\r\n"), nothing);
    let etag = stated("ETag: \"900150983cd24fb0d6963f7d28e17f72\"\r\n");
    assert_eq!(etag, [("s3", vec!["md5".to_owned()]), ("webdav", vec![]), ("http", vec![])]);
    let sum = stated("OC-Checksum: SHA1:a9993e364706816aba3e25717850c26c9cd0d89d\r\n");
    assert_eq!(sum, [("s3", vec![]), ("webdav", vec!["sha1".to_owned()]), ("http", vec!["sha1".to_owned()])]);
}

#[test]
fn answers_of_webdav_that_contradict_each_other_prove_nothing() {
    let heads = [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HEAD states that there is none"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4821\r\n\r\n", "PROPFIND states 3 bytes, and HEAD states 4821"),
    ];
    for (head, said) in heads {
        let server = Server::start(move |request| match request.method.as_str() {
            "PROPFIND" => answer(
                "207 Multi-Status",
                "",
                "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/dir/file</D:href><D:propstat><D:prop><D:getcontentlength>3</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>",
            ),
            _ => vec![send(head)],
        });
        let refusal = web(&server, "webdav", &[]).stated("file").expect_err(said);
        assert!(refusal.cause == Cause::Fault && refusal.detail.contains(said), "{refusal}");
    }
}

#[test]
fn checksums_are_asked_for_only_with_what_is_stated_and_in_a_signed_header() {
    let server = Server::start(|_| {
        vec![send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx-amz-checksum-sha256: ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=\r\n\r\n")]
    });
    let secret = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(secret.path(), "secret").expect("it can be written");
    let secret = format!("file:{}", secret.path().display());
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let signed = open("s3://bucket/p", &[("endpoint", &endpoint), ("access_key_id", "AK"), ("secret_access_key", &secret)]);
    for mut connection in [s3(&server, &[]), signed.connect().expect("it needs no server")] {
        assert_eq!(connection.length("a file"), Ok(3));
        assert_eq!(connection.stated("a file").map(|statement| statement.digests.len()), Ok(1));
        assert_eq!(connection.length("a file"), Ok(3));
    }
    let requests = server.requests();
    let modes: Vec<_> = requests.iter().map(|request| request.headers.contains_key("x-amz-checksum-mode")).collect();
    assert_eq!(modes, [false, true, false, false, true, false]);
    assert!(requests[4].headers["authorization"].contains("x-amz-checksum-mode"), "{requests:?}");
    assert_eq!(requests[3].target, requests[4].target);
    assert_eq!(requests[3].headers["host"], requests[4].headers["host"]);
}

#[test]
fn compressed_content_is_passed_on_as_it_is_stored() {
    let server = Server::start(|_| answer("200 OK", "Content-Encoding: gzip\r\n", b"\x1f\x8bcompressed"));
    for (kind, mut connection) in all(&server, &[]) {
        assert_eq!(read(&mut *connection, "file"), Ok(b"\x1f\x8bcompressed".to_vec()), "{kind}");
    }
    assert!(server.requests().iter().all(|request| request.headers["accept-encoding"] == "identity"));
}

#[test]
fn chunked_content_is_read_to_its_end() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n";
    let server = Server::start(move |_| vec![send(chunks), send("0\r\n\r\n")]);
    for scheme in ["webdav", "http"] {
        assert_eq!(read(&mut *web(&server, scheme, &[]), "file"), Ok(b"abcdefg".to_vec()), "{scheme}");
    }
    // S3 always states a length.
    assert_eq!(read(&mut *s3(&server, &[]), "file").expect_err("no length").cause, Cause::Fault);
    let server = Server::start(move |_| vec![send(chunks), Act::Close]);
    for scheme in ["webdav", "http"] {
        assert_eq!(read(&mut *web(&server, scheme, &[]), "file").expect_err("cut off").cause, Cause::Connection, "{scheme}");
    }
}

#[test]
fn redirects_of_web_servers_are_followed_without_credentials() {
    let target = Server::start(|request| match request.headers.contains_key("authorization") {
        true => answer("400 Bad Request", "", "credentials of another host"),
        false => answer("200 OK", "", "content"),
    });
    let location = format!("Location: http://localhost:{}/x?signature=1\r\n", target.port);
    let server = Server::start(move |request| match request.headers.contains_key("authorization") {
        true => answer("307 Temporary Redirect", &location, ""),
        false => answer("401 Unauthorized", "", ""),
    });
    let secret = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(secret.path(), "hunter2").expect("it can be written");
    let password = format!("file:{}", secret.path().display());
    for scheme in ["webdav", "http"] {
        let mut connection = web(&server, scheme, &[("username", "u"), ("password", &password)]);
        assert_eq!(read(&mut *connection, "file"), Ok(b"content".to_vec()), "{scheme}");
    }
    assert_eq!(server.requests()[0].headers["authorization"], "Basic dTpodW50ZXIy");
    // A signature holds for one host only.
    let refusal = read(&mut *s3(&server, &[]), "file").expect_err("refused");
    assert_eq!(refusal.cause, Cause::Denied);
}

#[test]
fn redirects_are_refused_by_object_stores_and_end_elsewhere() {
    let server = Server::start(|request| answer("301 Moved", &format!("Location: {}\r\n", request.target), ""));
    let refusal = read(&mut *s3(&server, &[]), "file").expect_err("refused");
    assert!(refusal.cause == Cause::Unsupported && refusal.detail.contains("region"), "{refusal}");
    let refusal = read(&mut *web(&server, "http", &[]), "file").expect_err("endless");
    assert!(refusal.cause == Cause::Fault && refusal.detail.contains("redirected"), "{refusal}");
}

#[test]
fn an_idle_connection_that_the_server_closed_is_replaced_once() {
    for status in ["200 OK", "404 Not Found"] {
        let count = AtomicUsize::new(0);
        let server = Server::start(move |_| {
            let mut acts = answer(status, "", "content");
            // Answers one request on each connection, and closes it without a word.
            acts.push(if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) { Act::Close } else { Act::Reset });
            acts
        });
        let mut connection = web(&server, "http", &[]);
        for _ in 0..6 {
            let result = read(&mut *connection, "file");
            assert_eq!(result.is_ok(), status.starts_with("200"), "{result:?}");
            assert!(result.map_or_else(|refusal| refusal.cause == Cause::Missing, |content| content == b"content"));
        }
    }
}

#[test]
fn a_connection_reuses_its_socket_and_a_fresh_one_does_not() {
    let server = memory::bucket();
    let mut connection = s3(&server, &[]);
    connection.write("a", 1, &mut &b"x"[..]).expect("it can be written");
    for _ in 0..3 {
        assert_eq!(read(&mut *connection, "a"), Ok(b"x".to_vec()));
    }
    assert_eq!(read(&mut *s3(&server, &[]), "a"), Ok(b"x".to_vec()));
    let connections: Vec<_> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 0, 0, 1]);
}

#[test]
fn a_failure_is_not_retried() {
    for acts in [answer("500 Oh", "", ""), answer("503 Oh", "", ""), vec![Act::Close], vec![Act::Reset]] {
        let server = Server::start(move |_| acts.clone());
        for (kind, mut connection) in all(&server, &[]) {
            let before = server.requests().len();
            assert!(read(&mut *connection, "file").is_err());
            assert_eq!(server.requests().len(), before + 1, "{kind}");
        }
    }
}

#[test]
fn signed_urls_of_a_bucket_can_be_fetched() {
    let server = memory::bucket();
    let secret = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(secret.path(), "hunter2").expect("it can be written");
    let (endpoint, key) = (format!("http://127.0.0.1:{}", server.port), format!("file:{}", secret.path().display()));
    let options = [("endpoint", endpoint.as_str()), ("access_key_id", "AK"), ("secret_access_key", &key)];
    let mut connection = open("s3://bucket/p", &options).connect().expect("it needs no server");
    connection.write("a b", 7, &mut &b"content"[..]).expect("it can be written");
    let url = connection.presigned_url("a b", Duration::from_secs(60)).expect("it can be signed").expect("S3 signs");
    assert!(url.contains("X-Amz-Signature=") && !url.contains("hunter2"));
    let mut received = Vec::new();
    let bytes = fetch_url(&url, None, Deadlines::default(), &mut |piece| {
        received.extend_from_slice(piece);
        true
    });
    assert_eq!((bytes, received), (Ok(7), b"content".to_vec()));
    let missing = connection.presigned_url("b", Duration::from_secs(60)).expect("it can be signed").expect("S3 signs");
    let refusal = fetch_url(&missing, None, Deadlines::default(), &mut |_| true).expect_err("missing");
    assert!(refusal.cause == Cause::Missing && !refusal.detail.contains("Signature"), "{refusal}");
    // Anonymous places sign nothing.
    assert_eq!(s3(&server, &[]).presigned_url("a b", Duration::from_secs(60)), Ok(None));
}

#[test]
fn secrets_never_show() {
    let secret = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(secret.path(), "hunter2").expect("it can be written");
    let password = format!("file:{}", secret.path().display());
    // A server that repeats what it received.
    let server = Server::start(|request| answer("403 Forbidden", "", format!("got {:?} hunter2", request.headers)));
    let place = open(&format!("webdav://127.0.0.1:{}/", server.port), &[("username", "u"), ("password", &password)]);
    let mut connection = place.connect().expect("it needs no server");
    let refusal = read(&mut *connection, "file").expect_err("denied");
    for text in [refusal.to_string(), format!("{refusal:?}"), place.describe()] {
        assert!(!text.contains("hunter2") && !text.contains("dTpodW50ZXIy"), "{text}");
    }
    assert!(refusal.detail.contains("***"), "{refusal}");
}

#[test]
fn hostile_listings_end_in_a_refusal() {
    let entry = |href: &str| {
        format!(
            "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{href}</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>\
             </D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
        )
    };
    for href in ["/etc/", "/dir/../etc/", "/dir/a/b/", "/", "", "/dir/%2e%2e/", "http://host"] {
        let body = entry(href);
        let server = Server::start(move |_| answer("207 Multi-Status", "", body.clone()));
        let refusal = web(&server, "webdav", &[]).list(&mut |listed| panic!("{listed:?}")).expect_err(href);
        assert_eq!(refusal.cause, Cause::Fault, "{href}: {refusal}");
    }
    // Folders without end.
    let server = Server::start(move |request| answer("207 Multi-Status", "", entry(&format!("{}x/", request.target))));
    let refusal = web(&server, "webdav", &[]).list(&mut |listed| panic!("{listed:?}")).expect_err("endless");
    assert_eq!(refusal.cause, Cause::Unsupported, "{refusal}");
    // Keys outside of the prefix, for which opendal panics.
    for key in ["x", "", "p", "q/file", "/"] {
        let body = format!(
            "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-11-25T08:00:00Z</LastModified></Contents></ListBucketResult>"
        );
        let server = Server::start(move |_| answer("200 OK", "", body.clone()));
        let result = s3(&server, &[]).list(&mut |listed| panic!("{listed:?}"));
        assert!(result.is_ok() || result.is_err_and(|refusal| refusal.cause == Cause::Fault), "{key}");
    }
    let server = Server::start(|_| answer("200 OK", "", "<ListBucketResult><Contents>"));
    assert_eq!(s3(&server, &[]).list(&mut |_| true).expect_err("cut off").cause, Cause::Fault);
}

#[test]
fn a_listing_that_does_not_go_on_or_is_none_is_an_error() {
    let page = |more: &str| {
        format!(
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{more}<Contents><Key>p/a</Key><Size>1</Size>\
             <LastModified>2026-11-25T08:00:00Z</LastModified></Contents></ListBucketResult>"
        )
    };
    let truncated = "<IsTruncated>true</IsTruncated>";
    let (first, token) = (page(truncated), page(&format!("{truncated}<NextContinuationToken>t</NextContinuationToken>")));
    // What is sent first, and what for a token.
    let pages = [("no token", &first, &first), ("the same token", &token, &token), ("no token later", &token, &first)];
    for (what, first, later) in pages {
        let (first, later) = (first.clone(), later.clone());
        let server = Server::start(move |request| {
            let has_token = request.target.contains("continuation-token");
            answer("200 OK", "", if has_token { later.clone() } else { first.clone() })
        });
        let mut listed = 0;
        let refusal = s3(&server, &[])
            .list(&mut |_| {
                listed += 1;
                listed < 100
            })
            .expect_err(what);
        assert!(refusal.cause == Cause::Fault && refusal.detail.contains("doesn't go on"), "{what}: {refusal}");
    }
    for other in ["<!DOCTYPE html>\n<html><body>Sign in</body></html>", "<Error><Code>SlowDown</Code></Error>", "", "{}"] {
        let server = Server::start(move |_| answer("200 OK", "", other));
        let refusal = s3(&server, &[]).list(&mut |listed| panic!("{listed:?}")).expect_err(other);
        assert!(refusal.cause == Cause::Fault && refusal.detail.contains("is no ListBucketResult"), "{other}: {refusal}");
    }
    let whole = page("<IsTruncated>false</IsTruncated>");
    let server = Server::start(move |_| answer("200 OK", "", whole.clone()));
    assert_eq!(s3(&server, &[]).list(&mut |_| true), Ok(()));
}

#[test]
fn an_answer_without_end_is_refused_where_no_content_is_expected() {
    let server = Server::start(|_| {
        vec![
            send("HTTP/1.1 207 Multi-Status\r\nTransfer-Encoding: chunked\r\n\r\n"),
            send("1000000\r\n"),
            send(vec![b' '; 1 << 24]),
            send("\r\n5000000\r\n"),
            send(vec![b' '; 5 << 24]),
            Act::Stall,
        ]
    });
    let refusal = web(&server, "webdav", &[]).length("file").expect_err("endless");
    assert!(refusal.cause == Cause::Fault && refusal.detail.contains("longer than"), "{refusal}");
}

#[test]
fn an_upload_that_is_refused_early_says_why() {
    let server = Server::start(|request| match request.method.as_str() {
        "PROPFIND" => answer(
            "207 Multi-Status",
            "",
            "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/dir/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>",
        ),
        _ => answer("507 Insufficient Storage", "", "the disk is full"),
    });
    let refusal = web(&server, "webdav", &[]).write("folder/file", 3 << 20, &mut std::io::repeat(7).take(3 << 20)).expect_err("full");
    assert!(refusal.cause == Cause::Fault && refusal.detail.contains("disk is full"), "{refusal}");
}

#[test]
fn a_file_that_the_server_moved_elsewhere_is_not_written() {
    let server = Server::start(|request| match request.method.as_str() {
        "PROPFIND" => vec![send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")],
        _ => answer("201 Created", "", ""),
    });
    let refusal = web(&server, "webdav", &[]).write("file", 1, &mut &b"x"[..]).expect_err("it isn't there");
    assert!(refusal.cause == Cause::Fault && refusal.detail.contains("does not have it"), "{refusal}");
    assert_eq!(server.requests().last().map(|request| request.method.clone()).as_deref(), Some("DELETE"));
}

#[test]
fn keys_that_begin_or_end_with_white_space_are_listed_and_refused_by_name() {
    let server = memory::bucket();
    for key in ["x", "x%20", "%20x", "d%20/%20y"] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        let request = format!("PUT /bucket/{key} HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\nconnection: close\r\n\r\n1");
        stream.write_all(request.as_bytes()).expect("sent");
        stream.read_exact(&mut [0; 12]).expect("an answer");
    }
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let mut connection = open("s3://bucket", &[("endpoint", &endpoint), ("anonymous", "true")]).connect().expect("a bucket");
    let mut listed = Vec::new();
    let result = connection.list(&mut |file| {
        listed.push(file.location);
        true
    });
    listed.sort();
    assert_eq!((result, listed), (Ok(()), [" x", "d / y", "x", "x "].map(str::to_owned).to_vec()));
    for (key, is_usable) in [("x", true), ("d / y", true), (" x", false), ("x ", false)] {
        let results = [read(&mut *connection, key).map(drop), connection.write(key, 1, &mut &b"1"[..])];
        for result in results {
            match result {
                Ok(()) => assert!(is_usable, "{key:?}"),
                Err(refusal) => assert!(!is_usable && refusal.to_string().contains(&format!("{key:?}: this program")), "{refusal}"),
            }
        }
    }
}
