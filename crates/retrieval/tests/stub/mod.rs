//! A server with a bucket in memory, enough of one for retrievals.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use fulgurite_client::{Requested, Server, ServerOptions};
use fulgurite_digest::{Algorithm, Digester};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// The content of each object that can be retrieved.
pub(crate) const CONTENT: [u8; 4096] = [7; 4096];
/// The connection breaks off in the middle of this object.
pub(crate) const CUT: &str = "cut/here";

type Objects = BTreeMap<String, Vec<u8>>;

/// The server. Its thread ends with the process.
pub(crate) struct Stub {
    endpoint: String,
    objects: Arc<Mutex<Objects>>,
}

impl Stub {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let objects = Arc::new(Mutex::new(Objects::new()));
        let shared = Arc::clone(&objects);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let objects = Arc::clone(&shared);
                std::thread::spawn(move || answer(&stream, &objects));
            }
        });
        Self { endpoint, objects }
    }

    pub(crate) fn server(&self) -> Server {
        let keys = Some(("a".to_owned(), "b".to_owned()));
        let options = ServerOptions { bucket: "b".to_owned(), region: "us-east-1".to_owned(), keys, ..ServerOptions::default() };
        Server::new(&self.endpoint, &options).expect("an address")
    }

    /// Objects that were put.
    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().expect("no test panics with it")
    }
}

/// Answers the only request of a connection.
fn answer(stream: &TcpStream, objects: &Mutex<Objects>) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).expect("a line") <= 2 {
            break;
        }
        lines.push(line.to_ascii_lowercase());
    }
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let mut request = lines[0].split(' ');
    let (method, path) = (request.next().expect("a method"), request.next().expect("a path"));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let key = path.strip_prefix("/b").expect("the bucket").trim_start_matches('/');
    let key = percent_decode_str(key).decode_utf8().expect("text").into_owned();
    let header = |name: &str| lines.iter().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
    let mut status = "200 OK";
    let mut sent = match (method, query) {
        ("head", _) => {
            let stored = objects.lock().expect("no test panics with it").get(&key).map(|content| etag(content));
            if header("if-match: ").is_some_and(|wanted| stored.is_none_or(|stored| stored != wanted)) {
                status = "412 Precondition Failed";
            }
            Vec::new()
        }
        ("put", _) => {
            let mut objects = objects.lock().expect("no test panics with it");
            if objects.contains_key(&key) && header("if-none-match: ").is_some() {
                status = "412 Precondition Failed";
            } else {
                objects.insert(key, body);
            }
            Vec::new()
        }
        ("get", query) => list(query, &objects.lock().expect("no test panics with it")).into_bytes(),
        ("post", "order=&retrieve=") => {
            let place = |object: &Requested| json!([object.key, CONTENT.len()]);
            json!({ "order": requested(&body).iter().map(place).collect::<Vec<_>>() }).to_string().into_bytes()
        }
        ("post", _) => archive(&requested(&body)),
        _ => unreachable!("{lines:?}"),
    };
    let announced = sent.len();
    if let Some(at) = sent.windows(CUT.len()).position(|bytes| bytes == CUT.as_bytes()) {
        // After the header, and some of the content.
        sent.truncate(if method == "post" && query == "retrieve=" { at + 1_000 } else { announced });
    }
    let mut stream = stream;
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {announced}\r\nconnection: close\r\n\r\n");
    // The client may have been stopped.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&sent));
}

fn etag(content: &[u8]) -> String {
    let mut digester = Digester::new(&[Algorithm::Md5]);
    digester.update(content);
    format!("\"{}\"", digester.finish()[0].hex())
}

fn requested(body: &[u8]) -> Vec<Requested> {
    let mut body: Value = serde_json::from_slice(body).expect("JSON");
    serde_json::from_value(body["objects"].take()).expect("objects")
}

fn list(query: &str, objects: &Objects) -> String {
    let prefix = query.split('&').find_map(|pair| pair.strip_prefix("prefix=")).expect("a prefix");
    let prefix = percent_decode_str(prefix).decode_utf8().expect("text");
    let found = objects.keys().find(|key| key.starts_with(&*prefix));
    format!("<ListBucketResult>{}</ListBucketResult>", found.map_or(String::new(), |key| format!("<Key>{key}</Key>")))
}

/// A bulk get's response.
fn archive(objects: &[Requested]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut append = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, content).expect("appended");
    };
    let mut lines = Vec::new();
    for object in objects {
        let entry = format!("objects/{}", object.key);
        append(&entry, &CONTENT);
        lines.push(json!({ "key": object.key, "entry": entry, "size": CONTENT.len() }));
    }
    append("result.json", json!({ "objects": lines }).to_string().as_bytes());
    archive.into_inner().expect("finished")
}
