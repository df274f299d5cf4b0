//! Loads any S3 server with puts and gets, to compare ours with others.
//!
//! ```text
//! cargo bench -p fulgurite-service --bench s3 -- --endpoint http://127.0.0.1:9000 --access-key A --secret-key S \
//!     --clients 16 --seconds 5 --sizes 15360,512000
//! ```
//!
//! With `--keys 1000000`, the clients put that many empty objects instead and list them page by
//! page. With `--files DIR`, there is no server: each put writes and syncs a file and syncs its
//! folder, as a careful program does without a server.
//!
//! Each client has one connection and one open request. Requests are signed (Signature V4, payload
//! unsigned). HTTP is written here in a few lines, so that the load takes little CPU time from the
//! server on the same machine. `benches/s3_peers.py` runs this against several servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::{digest, hmac};

/// What is asked on the command line.
struct Options {
    host: String,
    access_key: String,
    secret_key: String,
    region: String,
    clients: usize,
    seconds: f64,
    sizes: Vec<usize>,
    bucket: String,
    keys: usize,
    files: Option<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        host: String::new(),
        access_key: String::new(),
        secret_key: String::new(),
        region: "us-east-1".into(),
        clients: 16,
        seconds: 5.0,
        sizes: vec![0, 15_360, 20_480, 512_000, 15 << 20],
        bucket: "load".into(),
        keys: 0,
        files: None,
    };
    // cargo bench adds `--bench` by itself.
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let wrong = |_| format!("{name} {value}: a number is expected");
        match name.as_str() {
            "--endpoint" => options.host = value.trim_start_matches("http://").trim_end_matches('/').to_owned(),
            "--access-key" => options.access_key = value,
            "--secret-key" => options.secret_key = value,
            "--region" => options.region = value,
            "--bucket" => options.bucket = value,
            "--keys" => options.keys = value.parse().map_err(wrong)?,
            "--files" => options.files = Some(value.into()),
            "--clients" => options.clients = value.parse().map_err(wrong)?,
            "--seconds" => options.seconds = value.parse().map_err(|_| format!("{name} {value}: a number is expected"))?,
            "--sizes" => options.sizes = value.split(',').map(|size| size.parse().map_err(wrong)).collect::<Result<_, _>>()?,
            _ => return Err(format!("{name} is no option")),
        }
    }
    Ok(options)
}

fn main() {
    let options = options().unwrap_or_else(|wrong| {
        eprintln!("{wrong}");
        std::process::exit(2)
    });
    if let Some(folder) = &options.files {
        titles();
        for &size in &options.sizes {
            report(size, "PUT", &load(&options, size, "PUT", usize::MAX, &|_| FileClient { folder }));
        }
        return;
    }
    if options.host.is_empty() {
        // As one of all benchmarks it has no server to load.
        eprintln!("no --endpoint: nothing to load");
        return;
    }
    let made = Client::new(&options).request("PUT", "", &[]).expect("a server that answers");
    assert!(matches!(made.status, 200 | 409), "the bucket can't be made: {}", made.status);
    if options.keys > 0 {
        return list(&options);
    }
    titles();
    let client = |_| Client::new(&options);
    for &size in &options.sizes {
        let puts = load(&options, size, "PUT", usize::MAX, &client);
        report(size, "PUT", &puts);
        if size >= DIRECT_BYTES_MIN {
            read_all(&options, size, puts.fewest, &client);
        }
        let gets = load(&options, size, "GET", puts.fewest, &client);
        report(size, "GET", &gets);
    }
}

/// From this size on, servers may write past the page cache.
const DIRECT_BYTES_MIN: usize = 1 << 20;

/// Reads all objects of this size once, so that every server's GETs come from the page cache.
fn read_all<C: Serves>(options: &Options, size: usize, known: usize, client: &(impl Fn(usize) -> C + Sync)) {
    std::thread::scope(|scope| {
        for number in 0..options.clients {
            scope.spawn(move || {
                let mut client = client(number);
                for which in 0..known {
                    let answer = client.request("GET", &format!("/{size}/{number}/{which}"), &[]).expect("an answer");
                    assert_eq!((answer.status, answer.bytes), (200, size));
                }
            });
        }
    });
}

fn titles() {
    println!("{:>10} {:>4} {:>10} {:>9} {:>9} {:>9}", "bytes", "", "per s", "p50 ms", "p99 ms", "failed");
}

/// Keys of a page, as S3 has at most.
const PAGE: usize = 1_000;

/// Puts many keys, and lists them page by page.
fn list(options: &Options) {
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.clients {
            scope.spawn(|| {
                let mut client = Client::new(options);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.keys {
                        return;
                    }
                    let answer = client.request("PUT", &format!("/{}", key(number)), &[]).expect("an answer");
                    assert_eq!(answer.status, 200, "{} can't be put", key(number));
                }
            });
        }
    });
    println!("{} keys put in {:.0} s", options.keys, begun.elapsed().as_secs_f64());
    let mut client = Client::new(options);
    let mut page = |query: &str| {
        let asked = Instant::now();
        let answer = client.request("GET", &format!("?{query}"), &[]).expect("an answer");
        assert_eq!(answer.status, 200, "no list for {query}");
        asked.elapsed().as_secs_f64() * 1e3
    };
    let pages: Vec<f64> = (0..options.keys / PAGE)
        .map(|number| match (number * PAGE).checked_sub(1) {
            None => page("list-type=2&max-keys=1000"),
            Some(after) => page(&format!("list-type=2&max-keys=1000&start-after={}", key(after).replace('/', "%2F"))),
        })
        .collect();
    let tenth = (pages.len() / 10).max(1);
    let median = |part: &[f64]| {
        let mut sorted = part.to_vec();
        sorted.sort_by(f64::total_cmp);
        (sorted[sorted.len() / 2], sorted[sorted.len() * 99 / 100])
    };
    for (name, part) in [("first tenth", &pages[..tenth]), ("all", &pages[..]), ("last tenth", &pages[pages.len() - tenth..])] {
        let (middle, late) = median(part);
        println!("{name:>12}: {middle:.2} ms a page, p99 {late:.2}");
    }
    let folders: Vec<f64> = (0..100).map(|_| page("delimiter=%2F&list-type=2")).collect();
    println!("{:>12}: {:.2} ms, p99 {:.2}", "folders", median(&folders).0, median(&folders).1);
}

/// A key of [`list`], in folders of 100,000. Their order is that of their numbers.
fn key(number: usize) -> String {
    format!("{:06}/{number:012}", number / 100_000)
}

/// What came of a load.
struct Outcome {
    /// What each client has done at the least.
    fewest: usize,
    done: usize,
    failed: usize,
    latencies: Vec<Duration>,
    took: Duration,
}

fn report(size: usize, method: &str, outcome: &Outcome) {
    let mut sorted = outcome.latencies.clone();
    sorted.sort_unstable();
    let at = |share: f64| {
        sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).map_or(0.0, |l| l.as_secs_f64() * 1e3)
    };
    let rate = outcome.done as f64 / outcome.took.as_secs_f64();
    println!("{size:>10} {method:>4} {rate:>10.0} {:>9.2} {:>9.2} {:>9}", at(0.5), at(0.99), outcome.failed);
}

/// Does what is asked for.
trait Serves {
    fn request(&mut self, method: &str, key: &str, content: &[u8]) -> std::io::Result<Answer>;
}

/// Puts objects of their own, or gets those again, for the time asked.
fn load<C: Serves>(options: &Options, size: usize, method: &str, known: usize, client: &(impl Fn(usize) -> C + Sync)) -> Outcome {
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(options.seconds);
    let clients: Vec<(usize, usize, Vec<Duration>)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.clients)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = client(number);
                    let content: Vec<u8> = (0..size).map(|at| (at * 31 + number * 7 + at / 251) as u8).collect();
                    let (mut done, mut failed, mut latencies) = (0, 0, Vec::new());
                    while Instant::now() < end {
                        let which = if method == "GET" { (done * 7_919) % known.max(1) } else { done };
                        let key = format!("/{size}/{number}/{which}");
                        let asked = Instant::now();
                        match client.request(method, &key, if method == "PUT" { &content } else { &[] }) {
                            Ok(answer) if answer.status == 200 && (method == "PUT" || answer.bytes == size) => {
                                latencies.push(asked.elapsed())
                            }
                            _ => failed += 1,
                        }
                        done += 1;
                    }
                    (done, failed, latencies)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    });
    Outcome {
        fewest: clients.iter().map(|client| client.0).min().unwrap_or(0),
        took: begun.elapsed(),
        done: clients.iter().map(|client| client.0 - client.1).sum(),
        failed: clients.iter().map(|client| client.1).sum(),
        latencies: clients.into_iter().flat_map(|client| client.2).collect(),
    }
}

struct Client<'a> {
    options: &'a Options,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    /// The day that the key is of, and the key.
    signing: (String, Vec<u8>),
}

struct Answer {
    status: u16,
    bytes: usize,
}

impl<'a> Client<'a> {
    fn new(options: &'a Options) -> Self {
        Self { options, stream: None, buffer: vec![0; 256 << 10], signing: (String::new(), Vec::new()) }
    }

    fn head(&mut self, method: &str, key: &str, length: usize) -> String {
        let Options { host, access_key, secret_key, region, bucket, .. } = self.options;
        let (day, time) = now();
        if self.signing.0 != day {
            let step = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec();
            let key = step(format!("AWS4{secret_key}").as_bytes(), &day);
            self.signing = (day.clone(), step(&step(&step(&key, region), "s3"), "aws4_request"));
        }
        let (key, query) = key.split_once('?').unwrap_or((key, ""));
        let path = format!("/{bucket}{key}");
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:{time}\n\nhost;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD"
        );
        let scope = format!("{day}/{region}/s3/aws4_request");
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref()));
        let signature = hex(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.signing.1), to_sign.as_bytes()).as_ref());
        let mark = if query.is_empty() { "" } else { "?" };
        format!(
            "{method} {path}{mark}{query} HTTP/1.1\r\nHost: {host}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: {time}\r\nContent-Length: {length}\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}\r\n\r\n"
        )
    }
}

/// Files that are written and synced, each with its folder.
struct FileClient<'a> {
    folder: &'a Path,
}

impl Serves for FileClient<'_> {
    fn request(&mut self, _: &str, key: &str, content: &[u8]) -> std::io::Result<Answer> {
        let path = self.folder.join(&key[1..]);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder)?;
        let mut file = std::fs::File::create(&path)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::File::open(folder)?.sync_all()?;
        Ok(Answer { status: 200, bytes: content.len() })
    }
}

impl Serves for Client<'_> {
    /// One request; the connection is made again if it went.
    fn request(&mut self, method: &str, key: &str, content: &[u8]) -> std::io::Result<Answer> {
        let head = self.head(method, key, content.len());
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.options.host)?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        if content.len() < 64 << 10 {
            stream.write_all(&[head.as_bytes(), content].concat())?;
        } else {
            stream.write_all(head.as_bytes())?;
            stream.write_all(content)?;
        }
        let mut filled = 0;
        let head_end = loop {
            let read = stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            if let Some(at) = self.buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[..head_end]).to_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok()).unwrap_or(0);
        let mut left = length.saturating_sub(filled - head_end);
        while left > 0 {
            let most = self.buffer.len().min(left);
            let read = stream.read(&mut self.buffer[..most])?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            left -= read;
        }
        // Some servers close after each answer.
        self.stream = (!text.contains("\nconnection: close")).then_some(stream);
        Ok(Answer { status, bytes: length })
    }
}

fn hex(bytes: &[u8]) -> String {
    hex_simd::encode_to_string(bytes, hex_simd::AsciiCase::Lower)
}

/// The day and the time as signatures have them.
fn now() -> (String, String) {
    let now = time::OffsetDateTime::now_utc();
    let day = format!("{:04}{:02}{:02}", now.year(), u8::from(now.month()), now.day());
    let time = format!("{day}T{:02}{:02}{:02}Z", now.hour(), now.minute(), now.second());
    (day, time)
}
