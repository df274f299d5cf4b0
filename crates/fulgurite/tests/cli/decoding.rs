//! Decode workers beside an archive of glass.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::serving::{Server, wait_until};
use crate::support::{Sandbox, noise};

/// An archive of glass with a file on platters, that shares the folder `jobs` with workers.
struct Shared {
    place: Sandbox,
    content: Vec<u8>,
}

impl Deref for Shared {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.place
    }
}

impl Shared {
    fn new() -> Self {
        let place = Sandbox::new(1, &["--medium=glass", "--set=1+0"]);
        let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text").replace("\"desk\"", "\"tiny\"");
        fs::create_dir(place.path("jobs")).expect("a folder");
        let folder = format!("folder = {:?}", place.path("jobs"));
        let shared = text.replace("# folder = \"/mnt/decode\"", &folder).replace("# threads = 8", "threads = 1");
        assert!(shared.contains(&folder) && shared.contains("\nthreads = 1\n"), "{text}");
        place.write("a/fulgurite.toml", shared);
        let mut shared = Self { place, content: Vec::new() };
        shared.store(240_000);
        shared
    }

    /// Replaces the file by one of `bytes`.
    fn store(&mut self, bytes: usize) {
        self.content = noise(1, bytes);
        self.place.write("file", &self.content);
        self.place.good(&["put", "file", "--flush"]);
    }

    /// Makes reading take longer. An archive hands over no job before it has seen a worker renew
    /// its lease, which takes a second or two; fast machines have read a short file by then.
    fn double(&mut self) {
        self.store(2 * self.content.len());
    }

    /// Starts to read the file, into the file `out`.
    fn read_file(&self) -> Child {
        let mut command = self.command();
        let out = fs::File::create(self.path("out")).expect("a file");
        command.args(["get", "file", "-"]).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    }

    fn finish(&self, reading: Child) {
        let output = reading.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(self.read("out") == self.content);
    }

    fn claimed(&self) -> usize {
        fs::read_dir(self.path("jobs/claimed")).expect("a folder").count()
    }
}

/// A running worker, until it is dropped.
struct Worker {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(place: &Sandbox) -> Self {
        let mut command = place.command();
        command.args(["--json", "decode-worker", "jobs", "--threads=1"]);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&said["folder"], &said["threads"]), (&"jobs".into(), &1.into()));
        Self { process, output }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.process.id().to_string()]).status().expect("kill").success());
    }

    /// Stops it as an operator does, and returns its totals.
    fn stop(mut self) -> (ExitStatus, Value) {
        self.signal("-TERM");
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        (self.process.wait().expect("it ends"), serde_json::from_str(&text).expect("JSON"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_worker_that_is_killed_in_mid_job_costs_nothing() {
    let mut place = Shared::new();
    let worker = Worker::start(&place);
    let begun = Instant::now();
    'reads: loop {
        assert!(begun.elapsed() < Duration::from_secs(300), "no job was claimed in five minutes");
        let mut reading = place.read_file();
        while reading.try_wait().expect("a child").is_none() {
            if place.claimed() == 0 {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            // Stopped first, so that what is claimed then stays in mid-job.
            worker.signal("-STOP");
            std::thread::sleep(Duration::from_millis(200));
            if place.claimed() > 0 {
                worker.signal("-KILL");
                place.finish(reading);
                break 'reads;
            }
            worker.signal("-CONT");
        }
        place.finish(reading);
        place.double();
    }
    drop(worker);
    assert_eq!(fs::read_dir(place.path("jobs/jobs")).expect("a folder").count(), 0);
}

#[test]
fn a_worker_decodes_for_an_archive_and_stops_on_a_signal() {
    let mut place = Shared::new();
    // Whether a job is handed over depends on how busy both processes are, and a job that was
    // claimed may be taken back before it is decoded.
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(300), "no job was decoded in five minutes");
        let worker = Worker::start(&place);
        place.finish(place.read_file());
        let decoding = format!("decoding  here, and by the workers of {}\n", place.path("jobs").display());
        assert!(place.good(&["status"]).text().contains(&decoding));
        let (status, totals) = worker.stop();
        assert_eq!(status.code(), Some(0));
        // Noise loses a sector now and then; the archive decodes it again, with new images.
        let count = |name: &str| totals[name].as_u64().expect("a number");
        assert!(count("lost") <= 1 + count("sectors") / 100 && count("refused") == 0, "{totals}");
        if totals["jobs"].as_u64() > Some(0) {
            assert!(totals["sectors"].as_u64() >= totals["jobs"].as_u64(), "{totals}");
            break;
        }
        place.double();
    }
    let left = || -> usize {
        let entries = |folder| fs::read_dir(place.path("jobs").join(folder)).expect("a folder").count();
        ["alive", "tmp", "jobs", "claimed"].into_iter().map(entries).sum()
    };
    if left() > 0 {
        // An archive waits for two seconds for the folder when it ends. What it leaves on a busy
        // machine is removed by others after a minute.
        let worker = Worker::start(&place);
        let begun = Instant::now();
        while left() > 1 {
            assert!(begun.elapsed() < Duration::from_secs(180), "files were left in the decode folder");
            std::thread::sleep(Duration::from_millis(100));
        }
        worker.stop();
        assert_eq!(left(), 0);
    }
    fs::remove_dir_all(place.path("jobs")).expect("removed");
    let status = place.good(&["status"]);
    assert!(status.text().contains("decoding  here, without workers: the decode folder "), "{status:?}");
    assert_eq!(place.good(&["get", "file", "-"]).out, place.content);
}

#[test]
fn a_folder_that_is_not_there_or_not_empty_is_refused() {
    let place = Sandbox::empty();
    place.run(&["decode-worker", "jobs"]).fails_with(1, "the decode folder jobs does not exist");
    place.write("photos/moon.tif", b"");
    place.run(&["decode-worker", "photos"]).fails_with(1, "photos has files but is not a decode folder");
    place.run(&["decode-worker", "photos", "--threads=0"]).fails_with(2, "0 is not in 1..=1024");
}

/// A `verify` that has said that it waits for a cheap hour.
fn waiting(place: &Sandbox) -> Child {
    let mut command = place.command();
    command.arg("verify").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stderr.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.contains("waiting for an hour in which decoding is cheap"), "{line:?}");
    process
}

#[test]
fn a_verification_that_waits_for_a_cheap_hour_says_so_and_can_be_ended() {
    let place = Sandbox::new(1, &["--medium=glass", "--set=1+0"]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    let hour = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() / 3600;
    let prices: Vec<u32> = (0..24).map(|price_hour| if price_hour == (hour + 12) % 24 { 1 } else { 2 }).collect();
    let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    let (before, after) = text.split_once("# prices = ").expect("an example");
    let (_, after) = after.split_once('\n').expect("a line");
    place.write("a/fulgurite.toml", format!("{before}prices = {prices:?}\n{after}"));

    let mut alone = waiting(&place);
    place.run(&["flush"]).fails_with(1, "is in use by another fulgurite");
    assert_eq!(place.good(&["get", "file", "-"]).out, b"content");
    assert!(Command::new("kill").args(["-TERM", &alone.id().to_string()]).status().expect("kill").success());
    assert!(!alone.wait().expect("it ends").success());
    place.good(&["flush"]);

    let server = Server::start(&place);
    let mut beside = waiting(&place);
    place.run(&["flush"]).fails_with(1, "busy with `verify`");
    beside.kill().expect("killed");
    beside.wait().expect("it ends");
    wait_until("the server noticed that its client is gone", || place.run(&["flush"]).status == 0);
    server.stop();
}

#[test]
fn without_a_graphics_processor_the_reason_is_said() {
    let place = Sandbox::new(1, &["--medium=glass", "--set=1+0"]);
    place.write("file", b"content");
    place.good(&["put", "file", "--flush"]);
    let run = |arguments: &[&str]| {
        // Vulkan finds no driver here, whatever the machine has.
        let output = place.command().args(arguments).env("VK_DRIVER_FILES", "/none").env("VK_ICD_FILENAMES", "/none").output();
        let output = output.expect("it runs");
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).expect("text"))
    };
    fs::create_dir(place.path("jobs")).expect("a folder");
    let (status, _, worker) = run(&["decode-worker", "jobs", "--gpu"]);
    assert!(status == Some(1) && worker.contains("leave out --gpu") && worker.contains("GPU"), "{worker}");
    assert_eq!(fs::read_dir(place.path("jobs")).expect("a folder").count(), 0, "an unused folder");
    let (status, _, channel) = run(&["channel", "sectors", "--sectors=8", "--gpu"]);
    assert!(status == Some(1) && channel.contains("leave out --gpu"), "{channel}");

    let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    assert!(text.contains("device = \"cpu\""), "{text}");
    place.write("a/fulgurite.toml", text.replace("device = \"cpu\"", "device = \"gpu\""));
    let (status, out, error) = run(&["get", "file", "-"]);
    assert_eq!((status, out.as_slice()), (Some(0), &b"content"[..]), "the CPU decodes: {error}");
    assert_eq!(run(&["verify"]).0, Some(0));
    let (status, out, _) = run(&["status"]);
    let told = String::from_utf8(out).expect("text");
    assert!(status == Some(0) && told.contains("decoding  on the CPU: ") && told.contains("GPU"), "{told}");
}
