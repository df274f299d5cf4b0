//! What the load generator itself costs: puts and gets against a server that does nothing.
//!
//! ```text
//! cargo bench -p fulgurite-load -- [SECONDS]
//! ```
//!
//! The server is a few lines in this process: a thread for each connection reads each request to
//! its end and answers at once. Gets are of one object, which is kept.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use fulgurite_client::{Server, ServerOptions};
use fulgurite_load::{Length, Load, Objects, Operation, Pace, Place, Sizes, Target, play};

/// The content of the object that is read.
static CONTENT: RwLock<Vec<u8>> = RwLock::new(Vec::new());

fn serve(mut stream: TcpStream) {
    let mut buffer = vec![0; 256 << 10];
    let mut filled = 0;
    loop {
        let head_end = loop {
            if let Some(at) = buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            match stream.read(&mut buffer[filled..]) {
                Ok(read) if read > 0 => filled += read,
                _ => return,
            }
        };
        let head = String::from_utf8_lossy(&buffer[..head_end]);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok()).unwrap_or(0);
        let is_get = head.starts_with("GET");
        let is_first = head.split(' ').nth(1).is_some_and(|path| path.ends_with("/000000000000"));
        let mut left = (head_end + length).saturating_sub(filled);
        let mut content = buffer[head_end..filled.min(head_end + length)].to_vec();
        filled = 0;
        while left > 0 {
            let most = left.min(buffer.len());
            match stream.read(&mut buffer[..most]) {
                Ok(read) if read > 0 => {
                    left -= read;
                    if is_first {
                        content.extend_from_slice(&buffer[..read]);
                    }
                }
                _ => return,
            }
        }
        if is_first && !is_get {
            *CONTENT.write().expect("no panic") = content;
        }
        let content = if is_get { CONTENT.read().expect("no panic").clone() } else { Vec::new() };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
        if stream.write_all(&[head.as_bytes(), &content].concat()).is_err() {
            return;
        }
    }
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(5.0);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_nodelay(true);
            std::thread::spawn(move || serve(stream));
        }
    });
    let keys = Some(("key".to_owned(), "secret".to_owned()));
    let options = ServerOptions { bucket: "bench".to_owned(), region: "us-east-1".to_owned(), keys, ..ServerOptions::default() };
    let server = Server::new(&endpoint, &options).expect("the address is right");
    let target = Target { name: "nothing".to_owned(), place: Place::Server(Arc::new(server)) };
    target.create(Duration::from_secs(10)).expect("the server takes anything");
    println!("{:>10} {:>10} {:>12} {:>10} {:>12}", "bytes", "operation", "1/s", "MB/s", "cores (both)");
    for bytes in [0, 15_000, 500_000] {
        let objects = Objects::new("own/".to_owned(), Sizes::new(vec![(bytes, 1)]).expect("a size"), 1, 16);
        for operation in [Operation::Ingest, Operation::Access] {
            if operation == Operation::Access && bytes != 15_000 {
                continue;
            }
            let load = Load {
                bulk: 1,
                mix: operation.name().parse().expect("an operation is a mix"),
                clients: 16,
                pace: Pace::Closed,
                length: Length::Time(Duration::from_secs_f64(seconds)),
                window: Duration::from_secs(1),
                patience: Duration::from_secs(10),
                threads: 1,
                seed: 1,
            };
            if operation == Operation::Access {
                target.prepare(&load, &objects, 1, &mut (), &AtomicBool::new(false)).expect("the server takes anything");
            }
            let run = play(&load, &target, &objects, &mut (), &AtomicBool::new(false));
            let figures = &run.operations[operation.index()];
            println!(
                "{bytes:>10} {:>10} {:>12.0} {:>10.1} {:>12.2}",
                operation.name(),
                figures.done as f64 / run.seconds,
                figures.bytes as f64 / run.seconds / 1e6,
                run.own.cpu_s / run.seconds,
            );
            if figures.failures() > 0 {
                println!("failed: {:?}", figures.errors);
            }
        }
    }
}
