//! Swift with a login: a Keystone, a TempAuth and an object store in one server.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::super::{Cause, Connection, Refusal};
use super::server::{Act, Request, Server, answer};
use super::{open, read};

const KEY: &str = "the key of the user";

/// The options of a way to sign in, with [`KEY`] in a file.
struct Secret(tempfile::NamedTempFile);

impl Secret {
    fn new() -> Self {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), KEY).expect("it can be written");
        Self(file)
    }

    fn connect(&self, server: &Server, options: &[(&str, &str)]) -> Result<Box<dyn Connection>, Refusal> {
        let (url, secret) = (format!("http://127.0.0.1:{}", server.port), format!("file:{}", self.0.path().display()));
        let filled = options.iter().map(|(option, value)| match *value {
            "SECRET" => (*option, secret.clone()),
            value => (*option, value.replace("http://SERVER", &url)),
        });
        let options: Vec<_> = filled.collect();
        open("swift://c/p", &options.iter().map(|(option, value)| (*option, value.as_str())).collect::<Vec<_>>()).connect()
    }
}

const PASSWORD: [(&str, &str); 5] = [
    ("auth_url", "http://SERVER/v3/"),
    ("username", "auditor"),
    ("password", "SECRET"),
    ("project_name", "archive"),
    ("user_domain_name", "Users"),
];
const APPLICATION: [(&str, &str); 3] =
    [("auth_url", "http://SERVER"), ("application_credential_id", "app"), ("application_credential_secret", "SECRET")];
const VERSION_1: [(&str, &str); 3] = [("auth_url", "http://SERVER/auth/v1.0"), ("user", "test:tester"), ("key", "SECRET")];

fn endpoint(region: &str, interface: &str, url: &str) -> String {
    format!(r#"{{"interface": "{interface}", "region_id": "{region}", "url": "{url}"}}"#)
}

/// Signs everybody in, with a token that has a number. `lasts_s` is how long the tokens last, as
/// they state themselves. The object store takes only the tokens from `first_valid` on.
fn openstack(lasts_s: u64, first_valid: usize) -> Server {
    let issued = AtomicUsize::new(0);
    Server::start(move |request| {
        let host = format!("http://{}", request.headers["host"]);
        match request.target.as_str() {
            "/v3/auth/tokens" => {
                let number = issued.fetch_add(1, Ordering::SeqCst);
                let endpoints = [
                    endpoint("north", "internal", "http://internal.invalid/v1"),
                    endpoint("north", "public", &format!("{host}/v1/AUTH_a")),
                    endpoint("south", "public", "http://south.invalid/v1"),
                ];
                let end = format!("2020-02-29T00:{:02}:{:02}.000000Z", lasts_s / 60, lasts_s % 60);
                let times = format!(r#""issued_at": "2020-02-29T00:00:00.000000Z", "expires_at": "{end}""#);
                let catalog = format!(r#"[{{"type": "identity"}}, {{"type": "object-store", "endpoints": [{}]}}]"#, endpoints.join(","));
                let body = format!(r#"{{"token": {{{times}, "catalog": {catalog}}}}}"#);
                answer("201 Created", &format!("X-Subject-Token: token-{number}\r\n"), body)
            }
            "/auth/v1.0" => {
                let number = issued.fetch_add(1, Ordering::SeqCst);
                let headers =
                    format!("X-Auth-Token: token-{number}\r\nX-Storage-Url: {host}/v1/AUTH_a/\r\nX-Auth-Token-Expires: {lasts_s}\r\n");
                answer("200 OK", &headers, "")
            }
            "/v1/AUTH_a/c/p/file" => {
                let number: usize = request.headers["x-auth-token"].strip_prefix("token-").expect("one of ours").parse().expect("a number");
                match number >= first_valid {
                    true => answer("200 OK", "", "content"),
                    false => answer("401 Unauthorized", "", format!("token-{number} has ended")),
                }
            }
            _ => answer("404 Not Found", "", ""),
        }
    })
}

fn sign_ins(server: &Server) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.target.contains("auth")).collect()
}

#[test]
fn every_way_to_sign_in_reads_with_one_token() {
    let secret = Secret::new();
    for options in [&PASSWORD[..], &APPLICATION[..], &VERSION_1[..]] {
        let server = openstack(3000, 0);
        let options = [options, &[("region", "north")]].concat();
        let mut connection = secret.connect(&server, &options).unwrap_or_else(|refusal| panic!("{refusal}"));
        for _ in 0..3 {
            assert_eq!(read(&mut *connection, "file"), Ok(b"content".to_vec()));
        }
        assert_eq!(sign_ins(&server).len(), 1);
    }
}

#[test]
fn keystone_gets_the_documented_requests() {
    let secret = Secret::new();
    let body = |options: &[(&str, &str)]| -> serde_json::Value {
        let server = openstack(3000, 0);
        secret.connect(&server, &[options, &[("region", "north")]].concat()).expect("it signs in");
        let request = sign_ins(&server).remove(0);
        assert_eq!((request.method.as_str(), request.headers["content-type"].as_str()), ("POST", "application/json"));
        serde_json::from_slice(&request.body).expect("JSON")
    };
    let domain = serde_json::json!({ "name": "Users" });
    assert_eq!(
        body(&PASSWORD),
        serde_json::json!({ "auth": {
            "identity": { "methods": ["password"], "password": { "user": { "name": "auditor", "domain": domain, "password": KEY } } },
            "scope": { "project": { "name": "archive", "domain": domain } },
        } })
    );
    let by_id = body(&[&PASSWORD[..3], &[("project_id", "42")]].concat());
    assert_eq!(by_id["auth"]["scope"], serde_json::json!({ "project": { "id": "42" } }));
    assert_eq!(by_id["auth"]["identity"]["password"]["user"]["domain"], serde_json::json!({ "id": "default" }));
    assert_eq!(
        body(&APPLICATION),
        serde_json::json!({ "auth": { "identity": {
            "methods": ["application_credential"], "application_credential": { "id": "app", "secret": KEY },
        } } })
    );
}

#[test]
fn a_token_that_is_refused_is_renewed_once() {
    let secret = Secret::new();
    for options in [&VERSION_1[..], &[&APPLICATION[..], &[("region", "north")]].concat()] {
        let server = openstack(3000, 1);
        let mut connection = secret.connect(&server, options).expect("it signs in");
        assert_eq!(read(&mut *connection, "file"), Ok(b"content".to_vec()));
        assert_eq!(read(&mut *connection, "file"), Ok(b"content".to_vec()));
        assert_eq!(sign_ins(&server).len(), 2);

        // Refused again: the user may not read, whatever the token.
        let server = openstack(3000, 99);
        let mut connection = secret.connect(&server, options).expect("it signs in");
        let refusal = read(&mut *connection, "file").expect_err("refused");
        assert_eq!(refusal.cause, Cause::Denied, "{refusal}");
        assert!(!refusal.detail.contains("token-") && refusal.detail.contains("has ended"), "{refusal}");
        assert_eq!(sign_ins(&server).len(), 2);
    }
}

#[test]
fn a_token_is_renewed_before_it_ends() {
    let secret = Secret::new();
    for options in [&VERSION_1[..], &[&PASSWORD[..], &[("region", "north")]].concat()] {
        // These last no time at all, by the clock of the service, so they are due at once. The
        // object store would still take them.
        for (lasts_s, expected) in [(0, 2), (62, 1)] {
            let server = openstack(lasts_s, 0);
            let mut connection = secret.connect(&server, options).expect("it signs in");
            assert_eq!(read(&mut *connection, "file"), Ok(b"content".to_vec()));
            assert_eq!(sign_ins(&server).len(), expected, "{lasts_s}");
        }
    }
}

#[test]
fn a_service_that_refuses_says_why_and_nothing_is_missing() {
    let secret = Secret::new();
    for (status, cause) in [
        ("401 Unauthorized", Cause::Denied),
        ("404 Not Found", Cause::Unsupported),
        ("300 Multiple Choices", Cause::Unsupported),
        ("503 Service Unavailable", Cause::Throttled { retry_after: None }),
    ] {
        let server = Server::start(move |_| answer(status, "", format!("no, {KEY} is wrong")));
        for options in [&PASSWORD[..], &VERSION_1[..]] {
            let refusal = secret.connect(&server, options).err().expect(status);
            assert_eq!(refusal.cause, cause, "{status}: {refusal}");
            assert!(refusal.detail.contains("signing in at http://127.0.0.1") && !refusal.detail.contains(KEY), "{refusal}");
        }
    }
    for body in ["", "{", "{}", "<html>a login page</html>", r#"{"token": {"catalog": 3}}"#] {
        let server = Server::start(move |_| answer("200 OK", "", body));
        for options in [&PASSWORD[..], &VERSION_1[..]] {
            let refusal = secret.connect(&server, options).err().expect(body);
            assert_eq!(refusal.cause, Cause::Unsupported, "{body}: {refusal}");
        }
    }
}

#[test]
fn a_service_that_fails_later_ends_in_its_own_refusal() {
    let secret = Secret::new();
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |request| match request.target.as_str() {
        "/auth/v1.0" if asked.fetch_add(1, Ordering::SeqCst) > 0 => vec![Act::Reset],
        "/auth/v1.0" => {
            answer("200 OK", &format!("X-Auth-Token: t0ken\r\nX-Storage-Url: http://{}/v1/AUTH_a\r\n", request.headers["host"]), "")
        }
        _ => answer("401 Unauthorized", "", ""),
    });
    let mut connection = secret.connect(&server, &VERSION_1).expect("it signs in");
    let refusal = read(&mut *connection, "file").expect_err("refused");
    assert!(refusal.cause == Cause::Connection && refusal.detail.contains("signing in at"), "{refusal}");
    let refusal = connection.length("file").expect_err("refused");
    assert!(refusal.cause == Cause::Connection && refusal.detail.contains("signing in at"), "{refusal}");
}

#[test]
fn the_catalogue_must_name_one_store() {
    let secret = Secret::new();
    let refused = |more: &[(&str, &str)]| {
        let server = openstack(3000, 0);
        let refusal = secret.connect(&server, &[&PASSWORD[..], more].concat()).err().expect("unusable");
        assert_eq!(refusal.cause, Cause::Unsupported, "{refusal}");
        refusal.detail
    };
    assert!(refused(&[]).contains("set region to one of north, south"));
    assert!(refused(&[("region", "west")]).contains("set region to one of north, south"));
    assert!(refused(&[("region", "north"), ("interface", "admin")]).contains("no admin URL"));
    let server = openstack(3000, 0);
    let own = [&PASSWORD[..], &[("endpoint", "http://SERVER/v1/AUTH_a")]].concat();
    let mut connection = secret.connect(&server, &own).expect("it needs no catalogue");
    assert_eq!(read(&mut *connection, "file"), Ok(b"content".to_vec()));
}
