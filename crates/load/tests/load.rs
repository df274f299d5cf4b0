//! Loads against a server that keeps objects in memory, and against a folder.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulgurite_client::{Server, ServerOptions};
use fulgurite_load::{Length, Load, Objects, Operation, Pace, Place, Run, Sizes, Target, Window, play, table};

/// A server of objects in memory, and what it does wrong.
#[derive(Default)]
struct Memory {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    requests: AtomicUsize,
    /// Every so many requests are refused.
    refuses_each: usize,
    /// Every so many gets have a wrong byte.
    damages_each: usize,
    /// Every so many connections are closed after an answer.
    closes_each: usize,
    /// How long an answer takes.
    takes: Duration,
}

impl Memory {
    fn start(self) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let memory = Arc::new(self);
        let served = memory.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let memory = served.clone();
                std::thread::spawn(move || memory.serve(stream));
            }
        });
        (memory, endpoint)
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut buffer = Vec::new();
        let mut piece = vec![0; 64 << 10];
        loop {
            let head_end = loop {
                if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                    break at + 4;
                }
                match stream.read(&mut piece) {
                    Ok(read) if read > 0 => buffer.extend_from_slice(&piece[..read]),
                    _ => return,
                }
            };
            let head = String::from_utf8(buffer[..head_end].to_vec()).expect("heads are text");
            let header =
                |name: &str| head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix(name).map(str::trim).map(str::to_owned));
            let length: usize = header("content-length:").map_or(0, |length| length.parse().expect("a number"));
            while buffer.len() < head_end + length {
                match stream.read(&mut piece) {
                    Ok(read) if read > 0 => buffer.extend_from_slice(&piece[..read]),
                    _ => return,
                }
            }
            let body = buffer[head_end..head_end + length].to_vec();
            buffer.drain(..head_end + length);
            assert!(header("authorization:").is_some_and(|value| value.contains("credential=ak")), "every request is signed");
            std::thread::sleep(self.takes);
            let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            let is_each = |each: usize| each > 0 && number.is_multiple_of(each);
            let (status, content) = self.answer(&head, body, is_each(self.refuses_each), is_each(self.damages_each));
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", content.len());
            if stream.write_all(&[answer.as_bytes(), &content].concat()).is_err() || is_each(self.closes_each) {
                return;
            }
        }
    }

    fn answer(&self, head: &str, body: Vec<u8>, is_refused: bool, is_damaged: bool) -> (&'static str, Vec<u8>) {
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
        let error = |status, code: &str| (status, format!("<?xml?><Error><Code>{code}</Code></Error>").into_bytes());
        let mut objects = self.objects.lock().expect("no panic");
        let is_bucket = path.matches('/').count() == 1;
        match method {
            "PUT" if is_bucket => error("409 Conflict", "BucketAlreadyOwnedByYou"),
            _ if is_refused => error("503 Slow Down", "SlowDown"),
            "PUT" => {
                objects.insert(path, body);
                ("200 OK", Vec::new())
            }
            "GET" => match objects.get(&path).cloned() {
                Some(mut content) => {
                    if is_damaged && let Some(last) = content.last_mut() {
                        *last ^= 1;
                    }
                    ("200 OK", content)
                }
                None => error("404 Not Found", "NoSuchKey"),
            },
            _ => objects.remove(&path).map_or_else(|| error("404 Not Found", "NoSuchKey"), |_| ("204 No Content", Vec::new())),
        }
    }
}

fn target(endpoint: &str) -> Target {
    let options = ServerOptions {
        bucket: "load".to_owned(),
        region: "us-east-1".to_owned(),
        keys: Some(("ak".to_owned(), "sk".to_owned())),
        ..ServerOptions::default()
    };
    let server = Server::new(endpoint, &options).expect("an address");
    Target { name: "memory".to_owned(), place: Place::Server(Arc::new(server)) }
}

fn load(mix: &str, length: Length) -> Load {
    Load {
        mix: mix.parse().expect("a mix"),
        bulk: 1,
        clients: 8,
        pace: Pace::Closed,
        length,
        window: Duration::from_millis(100),
        patience: PATIENCE,
        threads: 2,
        seed: 1,
    }
}

fn objects(sizes: &[(u64, u32)], prepared: u64) -> Objects {
    Objects::new("run/".to_owned(), Sizes::new(sizes.to_vec()).expect("sizes"), prepared, 8)
}

const PATIENCE: Duration = Duration::from_secs(5);

fn prepare(target: &Target, all: &Objects, count: u64) -> Result<(), fulgurite_load::TargetError> {
    target.prepare(&load("ingest", Length::UntilStopped), all, count, &mut (), &AtomicBool::new(false))
}

fn played(load: &Load, target: &Target, objects: &Objects) -> Run {
    play(load, target, objects, &mut (), &AtomicBool::new(false))
}

fn done(run: &Run) -> [u64; 4] {
    Operation::ALL.map(|operation| run.operations[operation.index()].done)
}

#[test]
fn what_was_put_is_there_and_what_is_read_is_checked() {
    let (memory, endpoint) = Memory::default().start();
    let target = target(&endpoint);
    target.create(PATIENCE).expect("the bucket is ours already");
    let sizes = [(0, 1), (15_000, 2), (300_000, 1)];
    let all = objects(&sizes, 100);
    prepare(&target, &all, 100).expect("the server takes all");
    assert_eq!(memory.objects.lock().expect("no panic").len(), 100);
    let run = played(&load("ingest=2,access=3,update=2,delete=1", Length::Operations(200)), &target, &all);
    let [ingested, read, updated, deleted] = done(&run);
    assert_eq!((ingested + read + updated + deleted, run.was_stopped, run.ran_out), (200, false, false));
    assert!(run.operations.iter().all(|figures| figures.errors.is_empty()), "{:?}", run.operations);
    assert!([ingested, read, updated, deleted].iter().all(|count| *count > 5), "{:?}", done(&run));
    assert_eq!(memory.objects.lock().expect("no panic").len() as u64, 100 + ingested - deleted);
    let stored: usize = memory.objects.lock().expect("no panic").values().map(Vec::len).sum();
    assert!(stored > 1_000_000);
    // Windows add up to the whole.
    let sum = |count: fn(&Window) -> u64| run.windows.iter().map(count).sum::<u64>();
    assert_eq!((sum(|window| window.all.done), sum(|window| window.of(Operation::Access).done)), (200, read));
    assert_eq!(sum(|window| window.all.bytes), run.operations.iter().map(|figures| figures.bytes).sum::<u64>());
}

#[test]
fn failures_are_counted_by_kind_and_wrong_bytes_are_found() {
    let (memory, endpoint) = Memory { refuses_each: 10, damages_each: 7, ..Memory::default() }.start();
    let target = target(&endpoint);
    let all = objects(&[(2_000, 1)], 30);
    prepare(&target, &all, 30).expect("refusals are tried again");
    let run = played(&load("access", Length::Operations(300)), &target, &all);
    let figures = &run.operations[Operation::Access.index()];
    let count = |kind: &str| figures.errors.get(kind).copied().unwrap_or(0);
    assert_eq!(figures.done + count("503 SlowDown") + count("wrong bytes"), 300, "{:?}", figures.errors);
    assert!((25..=35).contains(&count("503 SlowDown")) && (30..=45).contains(&count("wrong bytes")), "{:?}", figures.errors);
    memory.objects.lock().expect("no panic").clear();
    let run = played(&load("access", Length::Operations(20)), &target, &all);
    assert!(run.operations[Operation::Access.index()].errors["404 NoSuchKey"] >= 15);
}

#[test]
fn a_connection_that_was_closed_while_idle_is_made_anew() {
    let (_, endpoint) = Memory { closes_each: 5, ..Memory::default() }.start();
    let target = target(&endpoint);
    let run = played(&load("ingest", Length::Operations(100)), &target, &objects(&[(100, 1)], 0));
    assert_eq!((done(&run)[0], run.operations[0].failures()), (100, 0), "{:?}", run.operations[0].errors);
}

#[test]
fn in_an_open_loop_waiting_for_a_free_client_counts() {
    let (_, endpoint) = Memory { takes: Duration::from_millis(40), ..Memory::default() }.start();
    let target = target(&endpoint);
    // Two clients can do 50 a second.
    let slow = Load { clients: 2, pace: Pace::Open(200.0), ..load("ingest", Length::Operations(60)) };
    let run = played(&slow, &target, &objects(&[(10, 1)], 0));
    let figures = &run.operations[Operation::Ingest.index()];
    assert_eq!(figures.done, 60);
    // The last of 60 requests came after 0.3 s and ended after 1.2 s.
    assert!(figures.time(1.0) > Some(Duration::from_millis(500)), "{:?}", figures.time(1.0));
    let closed = played(&Load { pace: Pace::Closed, ..slow }, &target, &objects(&[(10, 1)], 0));
    assert!(closed.operations[0].time(0.5).is_some_and(|median| Some(median) < figures.time(1.0)));
}

#[test]
fn what_was_due_and_not_sent_when_an_open_loop_is_stopped_is_counted() {
    let (_, endpoint) = Memory { takes: Duration::from_millis(40), ..Memory::default() }.start();
    let target = target(&endpoint);
    struct Stopper<'a>(&'a AtomicBool);
    impl fulgurite_load::Progress for Stopper<'_> {
        fn window(&mut self, window: &Window) {
            self.0.store(window.at_s >= 0.3, Ordering::Relaxed);
        }
    }
    for (rate, threads) in [(400.0, 1), (400.0, 2), (1.0, 2)] {
        let stop = AtomicBool::new(false);
        // Two clients can do 50 a second.
        let window = Duration::from_millis(100);
        let slow = Load { clients: 2, threads, window, pace: Pace::Open(rate), ..load("ingest", Length::UntilStopped) };
        let run = play(&slow, &target, &objects(&[(10, 1)], 0), &mut Stopper(&stop), &stop);
        let due = run.unsent + run.operations[Operation::Ingest.index()].done;
        match rate > 100.0 {
            // Far more than the clients could send.
            true => assert!(run.unsent > 10 && due as f64 > 0.3 * rate / 2.0, "{} of {due}", run.unsent),
            false => assert_eq!(run.unsent, 0),
        }
    }
}

#[test]
fn a_stop_ends_a_load_and_its_operations_are_finished() {
    let (memory, endpoint) = Memory::default().start();
    let target = target(&endpoint);
    struct Stopper<'a>(&'a AtomicBool, usize);
    impl fulgurite_load::Progress for Stopper<'_> {
        fn window(&mut self, _: &Window) {
            self.1 += 1;
            self.0.store(self.1 == 3, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let all = objects(&[(100, 1)], 0);
    let run = play(&load("ingest", Length::UntilStopped), &target, &all, &mut Stopper(&stop, 0), &stop);
    assert!(run.windows.len() >= 3 && !run.was_stopped, "stopping is how it ends");
    assert_eq!(done(&run)[0] as usize, memory.objects.lock().expect("no panic").len());
}

#[test]
fn a_stop_ends_the_preparation_too_and_a_server_that_hangs_is_given_up() {
    let (memory, endpoint) = Memory { takes: Duration::from_millis(5), ..Memory::default() }.start();
    let target = target(&endpoint);
    struct Stopper<'a>(&'a AtomicBool);
    impl fulgurite_load::Progress for Stopper<'_> {
        fn prepared(&mut self, _: u64, _: u64) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let all = objects(&[(100, 1)], 1_000_000);
    let stopped = target.prepare(&load("access", Length::UntilStopped), &all, 1_000_000, &mut Stopper(&stop), &stop);
    assert!(stopped.is_ok() && memory.objects.lock().expect("no panic").len() < 1_000_000);
    let (_, endpoint) = Memory { takes: Duration::from_secs(60), ..Memory::default() }.start();
    let error = self::target(&endpoint).create(Duration::from_millis(50)).expect_err("it takes too long");
    assert!(error.to_string().contains("timeout"), "{error}");
}

#[test]
fn files_are_the_floor() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target { name: "files".to_owned(), place: Place::Files(folder.path().join("below")) };
    target.create(PATIENCE).expect("the folder");
    let all = objects(&[(5_000, 1)], 20);
    prepare(&target, &all, 20).expect("files are written");
    let run = played(&load("mixed", Length::Operations(100)), &target, &all);
    assert_eq!((done(&run).iter().sum::<u64>(), run.operations.iter().map(fulgurite_load::Figures::failures).sum::<u64>()), (100, 0));
    let files: Vec<_> =
        std::fs::read_dir(folder.path().join("below/run")).expect("a folder").map(|file| file.expect("a file").path()).collect();
    assert_eq!(files.len() as u64, 20 + done(&run)[0]);
    assert!(files.iter().all(|file| std::fs::metadata(file).is_ok_and(|metadata| metadata.len() == 5_000)), "no temporary file is left");
    std::fs::write(&files[0], "damaged").expect("writable");
    std::fs::write(&files[1], vec![0; 5_000]).expect("writable");
    let run = played(&load("access", Length::Operations(400)), &target, &all);
    assert!(run.operations[1].errors["wrong bytes"] > 0, "{:?}", run.operations[1].errors);
}

#[test]
fn results_are_rows_with_all_columns() {
    let (_, endpoint) = Memory::default().start();
    let target = target(&endpoint);
    let run = played(&load("ingest", Length::Operations(50)), &target, &objects(&[(1_000, 1)], 0));
    let mut results = table();
    for row in fulgurite_load::rows("memory", 1, &run) {
        results.push(row).expect("each value fits its column");
    }
    assert_eq!(results.rows().len(), 1);
    let mut csv = Vec::new();
    results.write_csv(&mut csv).expect("memory is writable");
    let csv = String::from_utf8(csv).expect("text");
    assert!(csv.lines().last().is_some_and(|line| line.starts_with("memory,1,ingest,")), "{csv}");
}

#[test]
fn what_is_no_address_is_refused_and_nobody_listening_is_a_failure() {
    let options = ServerOptions { bucket: "load".to_owned(), keys: Some(("a".to_owned(), "b".to_owned())), ..ServerOptions::default() };
    for wrong in ["127.0.0.1:9000", "ftp://host", "http://", "http://host/path", "http://host?x"] {
        assert!(Server::new(wrong, &options).is_err(), "{wrong}");
    }
    let bucket = ServerOptions { bucket: "a/b".to_owned(), ..options };
    assert!(Server::new("http://host", &bucket).is_err());
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let endpoint = format!("http://{}", socket.local_addr().expect("bound"));
    drop(socket);
    let run = played(&load("ingest", Length::Operations(3)), &target(&endpoint), &objects(&[(1, 1)], 0));
    assert_eq!(run.operations[0].errors["no connection: connection refused"], 3);
    assert!(target(&endpoint).create(PATIENCE).expect_err("no server listens").to_string().contains("connection refused"));
}
