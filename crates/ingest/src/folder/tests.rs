use std::net::TcpListener;
use std::time::Duration;

use fulgurite_client::{Server, ServerOptions};

use super::*;
use crate::alert::{Alerts, Recipe, Schemas};
use crate::pipeline::Events;
use crate::sink::Sink;

/// Wakes the test when a task waits for the server.
#[derive(Default)]
struct Waiting(Notify);

impl Events for Waiting {
    fn waiting(&self, _: &str) {
        self.0.notify_one();
    }
    fn rejected(&self, _: &str, _: &str, _: &str) {}
    fn failed(&self, _: &str, _: &str) {}
}

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fulgurite-ingest-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A pipeline to a server that doesn't run.
fn pipeline(events: &Arc<Waiting>) -> Arc<Pipeline> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let keys = Some(("a".to_owned(), "b".to_owned()));
    let options = ServerOptions { bucket: "survey".to_owned(), region: "us-east-1".to_owned(), keys, ..ServerOptions::default() };
    let server = Server::new(&format!("http://127.0.0.1:{port}"), &options).expect("an address");
    let events = Arc::clone(events) as Arc<dyn Events>;
    let recipe = Recipe { key: Pattern::parse("{field}").expect("a pattern"), fields: None, packet: None };
    let sink = Arc::new(Sink::new(server, 2, Arc::clone(&events)));
    Arc::new(Pipeline::new(Alerts::new(Schemas::Embedded, recipe), sink, "dead/".to_owned(), events))
}

fn settings(folder: &Path) -> FolderSettings {
    let file_key = Pattern::parse("{path}").expect("a pattern");
    FolderSettings { paths: vec![folder.to_owned()], file_key, buffer_bytes: 1 << 20 }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

#[test]
fn stop_ends_the_wait_for_a_server_after_everything_was_read() {
    let folder = Folder::new("stop");
    std::fs::write(folder.0.join("a.fits"), "SIMPLE").expect("written");
    let events = Arc::new(Waiting::default());
    let (pipeline, stop) = (pipeline(&events), Notify::new());
    runtime().block_on(async {
        let run = FolderSource::new(settings(&folder.0)).run(&pipeline, &stop);
        let stopping = async {
            // The second attempt failed, long after the only file was read.
            events.0.notified().await;
            events.0.notified().await;
            stop.notify_one();
        };
        let both = async { tokio::join!(run, stopping).0 };
        let ended = tokio::time::timeout(Duration::from_secs(60), both).await;
        assert_eq!(ended.expect("it heeds the stop"), Err(IngestError::Stopped));
    });
}

#[test]
fn a_stopped_reader_skips_no_further() {
    let folder = Folder::new("skip");
    let path = folder.0.join("a.tar");
    let mut archive = tar::Builder::new(File::create(&path).expect("a file"));
    let mut header = tar::Header::new_gnu();
    header.set_size(1 << 20);
    for name in ["a.txt", "b.txt"] {
        archive.append_data(&mut header, name, &vec![0; 1 << 20][..]).expect("appended");
    }
    archive.finish().expect("finished");
    let pipeline = pipeline(&Arc::default());
    let runtime = runtime();
    let reader = Reader {
        settings: settings(&folder.0),
        pipeline: Arc::clone(&pipeline),
        sender: mpsc::channel(QUEUE).0,
        is_stopped: Arc::default(),
        runtime: runtime.handle().clone(),
        buffer: Arc::new(Semaphore::new(1)),
        buffer_kib: 1,
    };
    assert!(reader.read(&path, Path::new("a.tar")).is_ok());
    assert_eq!(pipeline.counts.failed.load(Ordering::Relaxed), 2, "both files are skipped");
    reader.is_stopped.store(true, Ordering::Relaxed);
    assert!(reader.read(&path, Path::new("a.tar")).is_err());
    assert_eq!(pipeline.counts.failed.load(Ordering::Relaxed), 2, "a stop isn't a damaged archive");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_named() {
    let folder = Folder::new("changed");
    let path = folder.0.join("a.fits");
    let write = |content: &str| std::fs::write(&path, content).expect("written");
    write("SIMPLE");
    let set_back = |_| {
        let file = File::options().write(true).open(&path).expect("a file");
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a date");
    };
    assert_eq!(read_unchanged(&path, |_| ()), Ok(("SIMPLE".into(), ())));
    for content in ["SIMPLE, and more", "SIM", ""] {
        write("SIMPLE");
        assert_eq!(read_unchanged(&path, |_| write(content)), Err(CHANGED.to_owned()), "{content:?}");
    }
    write("SIMPLE");
    assert_eq!(read_unchanged(&path, set_back), Err(CHANGED.to_owned()), "of the same length");
    assert!(read_unchanged(&path, |_| ()).is_ok(), "the next run reads it");
}

#[test]
fn an_archive_that_changes_while_it_is_read_is_named() {
    let folder = Folder::new("changed-archive");
    let path = folder.0.join("a.tar");
    let mut archive = tar::Builder::new(File::create(&path).expect("a file"));
    let mut header = tar::Header::new_gnu();
    header.set_size(6);
    archive.append_data(&mut header, "a.fits", &b"SIMPLE"[..]).expect("appended");
    archive.finish().expect("finished");
    let runtime = runtime();
    let (sender, mut found) = mpsc::channel(QUEUE);
    let reader = Reader {
        settings: settings(&folder.0),
        pipeline: pipeline(&Arc::default()),
        sender,
        is_stopped: Arc::default(),
        runtime: runtime.handle().clone(),
        buffer: Arc::new(Semaphore::new(8)),
        buffer_kib: 8,
    };
    let open = Unchanged::open(&path).expect("a file");
    File::options().append(true).open(&path).and_then(|mut file| io::Write::write_all(&mut file, &[0; 512])).expect("appended");
    let read = reader.read_tar(&open.file, &|| open.check(), "a.tar", "a.tar");
    assert_eq!(read.err().as_deref(), Some(CHANGED));
    assert!(found.try_recv().is_err(), "nothing of it is stored");
}
