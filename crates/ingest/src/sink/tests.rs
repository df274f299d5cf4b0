use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use fulgurite_client::ServerOptions;

use super::*;

struct Silent;

impl Events for Silent {
    fn waiting(&self, _: &str) {}
    fn rejected(&self, _: &str, _: &str, _: &str) {}
    fn failed(&self, _: &str, _: &str) {}
}

/// Answers requests with a script of responses, each over a new connection. With `None`, the
/// connection is closed without an answer. Returns what was requested.
fn answering(script: Vec<Option<String>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = format!("http://{}", socket.local_addr().expect("an address"));
    let serving = std::thread::spawn(move || {
        let answer_one = |response: Option<String>| {
            let (mut connection, _) = socket.accept().expect("a connection");
            let request = read_request(&mut connection);
            if let Some(response) = response {
                connection.write_all(response.as_bytes()).expect("sent");
            }
            request
        };
        script.into_iter().map(answer_one).collect()
    });
    (address, serving)
}

/// The method of a request whose body was read.
fn read_request(connection: &mut TcpStream) -> String {
    let mut request = Vec::new();
    let mut piece = [0; 1 << 16];
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_ascii_lowercase().split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return head.split(' ').next().unwrap_or_default().to_owned();
            }
        }
        match connection.read(&mut piece).expect("readable") {
            0 => panic!("the request ends early"),
            count => request.extend_from_slice(&piece[..count]),
        }
    }
}

fn response(status: &str, headers: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n"))
}

fn store(bytes: usize, script: impl FnOnce(&Object) -> Vec<Option<String>>) -> (Result<Stored, SinkError>, Vec<String>) {
    let object = Object { key: "a".to_owned(), content: vec![b'x'; bytes].into(), metadata: Vec::new() };
    let (address, serving) = answering(script(&object));
    let keys = Some(("a".to_owned(), "b".to_owned()));
    let options = ServerOptions { bucket: "survey".to_owned(), region: "us-east-1".to_owned(), keys, ..ServerOptions::default() };
    let server = Server::new(&address, &options).expect("an address");
    let sink = Arc::new(Sink::new(server, 1, Arc::new(Silent)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stored = runtime.block_on(sink.store(&object));
    (stored, serving.join().expect("the server ends"))
}

/// The answer to HEAD of an object that exists.
fn found(object: &Object) -> Option<String> {
    let etag = hex_simd::encode_to_string(Md5::of(&object.content), AsciiCase::Lower);
    response("200 OK", &format!("content-length: {}\r\netag: \"{etag}\"\r\n", object.content.len()))
}

const STORED: &str = "content-length: 0\r\n";

#[test]
fn a_large_object_is_looked_for_before_it_is_sent() {
    let (stored, requests) = store(LOOK_FIRST + 1, |object| vec![found(object)]);
    assert_eq!((stored, requests), (Ok(Stored::Earlier), vec!["HEAD".to_owned()]));
    for absent in ["404 Not Found", "403 Forbidden"] {
        let (stored, requests) = store(LOOK_FIRST + 1, |_| vec![response(absent, ""), response("200 OK", STORED)]);
        assert_eq!((stored, requests), (Ok(Stored::Now), vec!["HEAD".to_owned(), "PUT".to_owned()]), "{absent}");
    }
    let (stored, requests) = store(LOOK_FIRST, |_| vec![response("200 OK", STORED)]);
    assert_eq!((stored, requests), (Ok(Stored::Now), vec!["PUT".to_owned()]));
}

#[test]
fn an_object_whose_put_got_no_answer_is_looked_for() {
    let (stored, requests) = store(10, |object| vec![None, found(object)]);
    assert_eq!((stored, requests), (Ok(Stored::Earlier), vec!["PUT".to_owned(), "HEAD".to_owned()]));
    let (stored, requests) = store(10, |_| vec![None, response("404 Not Found", ""), response("200 OK", STORED)]);
    assert_eq!((stored, requests), (Ok(Stored::Now), ["PUT", "HEAD", "PUT"].map(str::to_owned).to_vec()));
}
