use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::*;
use crate::Access;
use crate::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};

/// Timeout for events that should come at once, generous for busy machines.
const SOON: Duration = Duration::from_secs(120);

fn archive(home: &std::path::Path) -> Arc<Archive> {
    let settings = Settings {
        archive: ArchiveSettings { id: crate::new_archive_id(), encrypt: true, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: 1, redundancy: 0, platter_mib: 64 },
        medium: crate::settings::MediumSettings::default(),
        decode: crate::settings::DecodeSettings::default(),
        stores: vec![StoreSettings { name: "d1".into(), path: home.join("d1") }],
    };
    Archive::init(home, &settings).expect("an archive");
    Arc::new(Archive::open(home, Access::Write).expect("it opens"))
}

/// An intake whose messages stay in the queue.
fn without_writer(archive: Arc<Archive>) -> (Intake, Receiver<Message>) {
    let (messages, queue) = channel();
    (Intake { archive, messages, buffers: Arc::default(), writer: None }, queue)
}

fn finish(intake: &Intake, name: &str, results: &Sender<Result<(), IntakeError>>) {
    let object =
        NewObject { name: ObjectName(name.into()), kind: Kind::File, modified: None, mode: None, attributes: Attributes::default() };
    let results = results.clone();
    intake.upload().finish(object, Vec::new(), Box::new(move |result| results.send(result).expect("the receiver is alive")));
}

#[test]
fn a_message_that_comes_after_the_last_look_at_the_queue_is_answered() {
    let home = tempfile::tempdir().expect("a folder");
    let (intake, queue) = without_writer(archive(home.path()));
    let (results, answers) = channel();
    finish(&intake, "late", &results);
    let told = results.clone();
    intake.remove(Vec::new(), Box::new(move |result| told.send(result).expect("the receiver is alive")));
    drop(queue);
    finish(&intake, "later", &results);
    drop((intake, results));
    let answers: Vec<_> = answers.iter().collect();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| matches!(answer, Err(IntakeError::Closed))), "{answers:?}");
}

#[test]
fn a_failed_batch_leaves_the_next_message_to_the_next_session() {
    let home = tempfile::tempdir().expect("a folder");
    let archive = archive(home.path());
    let (intake, queue) = without_writer(archive.clone());
    let (results, answers) = channel();
    // A full batch isn't collected any further: the last message has been received when it fails.
    for number in 0..super::super::writer::COMMIT_OBJECTS {
        finish(&intake, &number.to_string(), &results);
    }
    intake.messages.send(Message::Close).expect("the queue is there");
    let keys = rusqlite::Connection::open(home.path().join("keys.db")).expect("the key store");
    keys.execute_batch("DROP TABLE key_slot").expect("dropped");
    let (committer, buffers, (ended, end)) = (intake.messages.clone(), intake.buffers.clone(), channel());
    std::thread::spawn(move || {
        session::run(&archive, &queue, &committer, &buffers);
        ended.send(()).expect("the receiver is alive");
    });
    end.recv_timeout(SOON).expect("the intake ends");
    drop((intake, results));
    let answers: Vec<_> = answers.iter().collect();
    assert_eq!(answers.len(), super::super::writer::COMMIT_OBJECTS);
    assert!(answers.iter().all(|answer| matches!(answer, Err(IntakeError::Archive(_)))));
}

#[test]
fn a_panic_in_an_acknowledgement_ends_the_intake() {
    let home = tempfile::tempdir().expect("a folder");
    let mut intake = Intake::open(archive(home.path())).expect("an intake");
    intake.remove(Vec::new(), Box::new(|_| panic!("an acknowledgement panics, as this test wants")));
    let (ended, end) = channel();
    let writer = intake.writer.take().expect("it is running");
    std::thread::spawn(move || ended.send(writer.join().is_err()));
    assert!(end.recv_timeout(SOON).expect("the writer ends"), "it ends with the panic");
    let (results, answers) = channel();
    finish(&intake, "later", &results);
    drop(results);
    assert!(matches!(answers.recv_timeout(SOON), Ok(Err(IntakeError::Closed))));
}
