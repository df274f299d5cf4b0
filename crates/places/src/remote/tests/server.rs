//! A server on this machine that answers as a test says, faults included.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    /// With names in lower case.
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
    /// Number of the connection that it came over.
    pub(super) connection: usize,
}

/// What a server does next.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Send(Vec<u8>),
    /// Sends nothing until the client gives up.
    Stall,
    Reset,
    Close,
}

pub(super) fn send(bytes: impl AsRef<[u8]>) -> Act {
    Act::Send(bytes.as_ref().to_vec())
}

/// A whole answer with its length.
pub(super) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<Act> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    vec![send([head.as_bytes(), body].concat())]
}

pub(super) struct Server {
    pub(super) port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serves until the test ends.
    pub(super) fn start(respond: impl Fn(&Request) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, respond) = (requests.clone(), Arc::new(respond));
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (seen, respond) = (seen.clone(), respond.clone());
                thread::spawn(move || stream.map(|stream| serve(stream, connection, &seen, &*respond)));
            }
        });
        Self { port, requests }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no test panics while it holds it").clone()
    }
}

/// A port that refuses connections.
pub(super) fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

fn serve(stream: TcpStream, connection: usize, seen: &Mutex<Vec<Request>>, respond: &dyn Fn(&Request) -> Vec<Act>) {
    let mut reader = BufReader::new(stream.try_clone().expect("it can be cloned"));
    while let Some(request) = receive(&mut reader, connection) {
        let acts = respond(&request);
        seen.lock().expect("no test panics while it holds it").push(request);
        for act in acts {
            match act {
                Act::Send(bytes) => {
                    if (&stream).write_all(&bytes).is_err() {
                        return;
                    }
                }
                Act::Stall => {
                    let _ = std::io::copy(&mut reader, &mut std::io::sink());
                    return;
                }
                Act::Reset => {
                    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("sockets can linger");
                    return;
                }
                Act::Close => return,
            }
        }
    }
}

fn receive(reader: &mut BufReader<TcpStream>, connection: usize) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let bytes = headers.get("content-length").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, target, headers, body, connection })
}
