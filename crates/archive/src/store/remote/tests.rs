//! Runs the conformance suite on a disk that renames, a disk that only copies and a bucket, and
//! tests behaviour specific to services.

use std::sync::atomic::AtomicUsize;

use opendal::layers::CapabilityOverrideLayer;
use opendal::raw::{Layer, OpCopy, OpCreateDir, OpList, OpPresign, OpRead, OpRename, OpStat, OpWrite, oio};
use opendal::raw::{RpCreateDir, RpPresign, RpRename, RpStat, Servicer};
use opendal::services::{Fs, Memory};
use opendal::{Capability, OperationContext};

use super::*;
use crate::store::FolderStore;
use crate::store::conformance::{Fixture, conformance, noise};
use crate::volume::FolderVolume;

const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);
const PLATTER: PlatterId = PlatterId([0x0d; 16]);

fn store(operator: Operator) -> RemoteStore {
    RemoteStore::new("one".into(), ARCHIVE, operator).expect("a service that can do it")
}

/// opendal's file system service.
struct Disk {
    folder: tempfile::TempDir,
    renames: bool,
}

impl Disk {
    fn new(renames: bool) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), renames }
    }

    fn operator(&self) -> Operator {
        let operator = Operator::new(Fs::default().root(self.folder.path().to_str().expect("a plain path"))).expect("an operator");
        let renames = self.renames;
        operator.layer(CapabilityOverrideLayer::new(move |can| Capability { rename: renames, ..can }))
    }

    fn folder_store(&self) -> FolderStore {
        FolderStore::new("one".into(), ARCHIVE, Arc::new(FolderVolume::new(self.folder.path())))
    }
}

impl Fixture for Disk {
    fn open(&self, archive: ArchiveId, name: &str) -> Arc<dyn PlatterStore> {
        Arc::new(RemoteStore::new(name.to_owned(), archive, self.operator()).expect("a service that can do it"))
    }

    fn names(&self) -> Vec<String> {
        names(self.operator())
    }

    fn spoil_mark(&self, text: Option<&str>) {
        spoil_mark(self.operator(), text);
    }
}

fn names(operator: Operator) -> Vec<String> {
    let service = Service::new(operator).map_err(|(_, error)| error).expect("a runtime");
    let operator = service.operator.clone();
    let list = async move { Ok([operator.list("").await?, operator.list("platters/").await?]) };
    let entries = service.ask(list).expect("listed");
    entries.iter().flatten().map(|entry| entry.path().to_owned()).collect()
}

fn spoil_mark(operator: Operator, text: Option<&str>) {
    let service = Service::new(operator).map_err(|(_, error)| error).expect("a runtime");
    let (operator, text) = (service.operator.clone(), text.map(str::to_owned));
    let spoil = async move {
        match text {
            Some(text) => operator.write(MARK, text).await.map(|_| ()),
            None => operator.delete(MARK).await,
        }
    };
    service.ask(spoil).expect("spoiled");
}

/// opendal's in-memory service, which can't copy, extended with the copying of an object store and
/// with injected faults.
#[derive(Debug, Clone)]
struct Bucket {
    inner: Servicer,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Faults {
    /// Number of requests still to be answered with "later".
    busy: AtomicUsize,
    /// Number of requests that were answered with "later".
    turned_away: AtomicUsize,
    /// Copies lose their last byte.
    copies_short: AtomicBool,
}

#[derive(Debug)]
struct Faulty(Arc<Faults>);

impl Layer for Faulty {
    fn apply_service(&self, inner: Servicer) -> Servicer {
        Arc::new(Bucket { inner, faults: self.0.clone() })
    }
}

impl Bucket {
    fn operator(faults: &Arc<Faults>) -> Operator {
        Operator::new(Memory::default()).expect("an operator").layer(Faulty(faults.clone()))
    }
}

impl Faults {
    fn answer(&self) -> opendal::Result<()> {
        if self.busy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |busy| busy.checked_sub(1)).is_err() {
            return Ok(());
        }
        self.turned_away.fetch_add(1, Ordering::SeqCst);
        Err(opendal::Error::new(ErrorKind::RateLimited, "come again later").set_temporary())
    }
}

impl opendal::raw::Service for Bucket {
    type Reader = oio::Reader;
    type Writer = oio::Writer;
    type Lister = oio::Lister;
    type Deleter = oio::Deleter;
    type Copier = oio::OneShotCopier;
    type Composer = ();

    fn info(&self) -> opendal::raw::ServiceInfo {
        self.inner.info()
    }

    fn capability(&self) -> Capability {
        Capability { copy: true, write_can_multi: true, ..self.inner.capability() }
    }

    async fn create_dir(&self, context: &OperationContext, path: &str, options: OpCreateDir) -> opendal::Result<RpCreateDir> {
        self.inner.create_dir(context, path, options).await
    }

    async fn stat(&self, context: &OperationContext, path: &str, options: OpStat) -> opendal::Result<RpStat> {
        self.faults.answer()?;
        self.inner.stat(context, path, options).await
    }

    fn read(&self, context: &OperationContext, path: &str, options: OpRead) -> opendal::Result<Self::Reader> {
        self.inner.read(context, path, options)
    }

    fn write(&self, context: &OperationContext, path: &str, options: OpWrite) -> opendal::Result<Self::Writer> {
        self.inner.write(context, path, options)
    }

    fn delete(&self, context: &OperationContext) -> opendal::Result<Self::Deleter> {
        self.inner.delete(context)
    }

    fn list(&self, context: &OperationContext, path: &str, options: OpList) -> opendal::Result<Self::Lister> {
        self.inner.list(context, path, options)
    }

    fn copy(&self, context: &OperationContext, from: &str, to: &str, _: OpCopy) -> opendal::Result<Self::Copier> {
        let (operator, faults) = (Operator::from_parts(context.clone(), self.inner.clone()), self.faults.clone());
        let (from, to) = (from.to_owned(), to.to_owned());
        Ok(oio::OneShotCopier::new_with(move || {
            let (operator, faults, from, to) = (operator.clone(), faults.clone(), from.clone(), to.clone());
            async move {
                faults.answer()?;
                let mut bytes = operator.read(&from).await?;
                if faults.copies_short.load(Ordering::SeqCst) {
                    bytes.truncate(bytes.len() - 1);
                }
                operator.write(&to, bytes).await
            }
        }))
    }

    async fn rename(&self, context: &OperationContext, from: &str, to: &str, options: OpRename) -> opendal::Result<RpRename> {
        self.inner.rename(context, from, to, options).await
    }

    async fn presign(&self, context: &OperationContext, path: &str, options: OpPresign) -> opendal::Result<RpPresign> {
        self.inner.presign(context, path, options).await
    }
}

impl Fixture for Operator {
    fn open(&self, archive: ArchiveId, name: &str) -> Arc<dyn PlatterStore> {
        Arc::new(RemoteStore::new(name.to_owned(), archive, self.clone()).expect("a service that can do it"))
    }

    fn names(&self) -> Vec<String> {
        names(self.clone())
    }

    fn spoil_mark(&self, text: Option<&str>) {
        spoil_mark(self.clone(), text);
    }
}

mod a_disk_that_renames {
    use super::*;
    conformance!(Disk::new(true));
}

mod a_disk_that_copies {
    use super::*;
    conformance!(Disk::new(false));
}

mod a_bucket {
    use super::*;
    conformance!(Bucket::operator(&Arc::default()));
}

fn write(store: &dyn PlatterStore, bytes: &[u8]) -> io::Result<()> {
    let mut sink = store.create(PLATTER, bytes.len() as u64)?;
    sink.write_all(bytes)?;
    sink.commit()
}

fn read(store: &dyn PlatterStore) -> Vec<u8> {
    let file = store.open(PLATTER).expect("opened").expect("it is there");
    let mut bytes = vec![0; file.length().expect("length") as usize];
    let mut read = 0;
    // A read may return fewer bytes, such as without the last, partial block.
    while read < bytes.len() {
        let more = file.read_at(read as u64, &mut bytes[read..]).expect("read");
        assert!(more > 0, "the platter ends after {read} bytes");
        read += more;
    }
    bytes
}

#[test]
fn a_service_that_neither_renames_nor_copies_is_refused() {
    let operator = Operator::new(Memory::default()).expect("an operator");
    let pieces = operator.clone().layer(CapabilityOverrideLayer::new(|can| Capability { write_can_multi: true, ..can }));
    for (operator, lacks) in [(operator, "in pieces"), (pieces, "renaming or copying")] {
        let refused = RemoteStore::new("one".into(), ARCHIVE, operator).err().expect("refused");
        let StoreError::Unfit { store, place, .. } = &refused else { panic!("{refused}") };
        assert_eq!(store, "one");
        assert!(place.starts_with("memory://"), "{place}");
        assert!(refused.to_string().contains(lacks), "{refused}");
    }
}

#[test]
fn a_folder_store_and_a_remote_store_read_each_other() {
    for renames in [true, false] {
        let disk = Disk::new(renames);
        let (remote, folder) = (store(disk.operator()), disk.folder_store());
        remote.mark().expect("marked");
        folder.check().expect("marked for both");
        assert_eq!(folder.list().expect("a store without platters"), []);
        for (writer, reader, seed) in [(&remote as &dyn PlatterStore, &folder as &dyn PlatterStore, 1), (&folder, &remote, 2)] {
            let bytes = noise(seed, 3_000_000);
            write(writer, &bytes).expect("written");
            assert_eq!(reader.list().expect("listed"), [PLATTER]);
            assert!(read(reader) == bytes);
        }
    }
}

#[test]
fn requests_to_a_busy_service_are_retried() {
    let faults = Arc::new(Faults::default());
    let store = store(Bucket::operator(&faults));
    let be_busy = |times| faults.busy.store(times, Ordering::SeqCst);
    be_busy(3);
    store.mark().expect("marked in the end");
    be_busy(3);
    store.check().expect("marked");
    let bytes = noise(3, 100_000);
    let mut sink = store.create(PLATTER, 100_000).expect("begun");
    sink.write_all(&bytes).expect("written");
    be_busy(4);
    sink.commit().expect("committed in the end");
    assert_eq!(faults.turned_away.load(Ordering::SeqCst), 10);
    assert!(read(&store) == bytes);
}

#[test]
fn retries_end_if_the_service_stays_busy() {
    let faults = Arc::new(Faults::default());
    let store = store(Bucket::operator(&faults));
    store.mark().expect("marked");
    faults.busy.store(usize::MAX, Ordering::SeqCst);
    let StoreError::Io { source, .. } = store.check().expect_err("no answer") else { panic!("a busy service is not an absent store") };
    assert!(source.to_string().contains("come again later"), "{source}");
    assert_eq!(faults.turned_away.load(Ordering::SeqCst), 1 + RETRIES_MAX);
    assert!(store.open(PLATTER).is_err(), "a busy service doesn't mean that the platter is missing");
}

#[test]
fn a_short_copy_is_rejected() {
    let faults = Arc::new(Faults::default());
    let operator = Bucket::operator(&faults);
    let store = store(operator.clone());
    store.mark().expect("marked");
    faults.copies_short.store(true, Ordering::SeqCst);
    let refused = write(&store, &noise(4, 100_000)).expect_err("one byte is missing");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
    assert!(refused.to_string().contains("99999"), "{refused}");
    assert!(store.open(PLATTER).expect("looked for").is_none());
    assert!(!names(operator).iter().any(|name| name.contains(&PLATTER.to_string())));
    faults.copies_short.store(false, Ordering::SeqCst);
    write(&store, b"whole").expect("another time");
}

#[test]
fn reading_a_removed_platter_fails() {
    let store = store(Bucket::operator(&Arc::default()));
    store.mark().expect("marked");
    write(&store, b"here").expect("written");
    let file = store.open(PLATTER).expect("opened").expect("it is there");
    store.remove(PLATTER).expect("removed");
    assert_eq!(file.read_at(0, &mut [0; 4]).expect_err("gone").kind(), io::ErrorKind::NotFound);
}

#[test]
fn errors_keep_their_kind() {
    for (source, expected) in [(io::ErrorKind::StorageFull, io::ErrorKind::StorageFull), (io::ErrorKind::Interrupted, io::ErrorKind::Other)]
    {
        let error = opendal::Error::new(ErrorKind::Unexpected, "failed").set_source(io::Error::from(source));
        assert_eq!(io_error(error).kind(), expected);
    }
    assert_eq!(io_error(opendal::Error::new(ErrorKind::PermissionDenied, "no")).kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_store_works_inside_another_runtime() {
    let bytes = noise(5, 100_000);
    for workers in [1, 2] {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let store = store(Bucket::operator(&Arc::default()));
            store.mark().expect("marked");
            write(&store, &bytes).expect("written");
            assert!(read(&store) == bytes);
            drop(store.create(PLATTER, 100).expect("begun"));
        });
    }
}

#[test]
fn a_platter_never_exceeds_the_maximum_number_of_pieces() {
    assert_eq!(piece_bytes(0), 8 << 20);
    assert_eq!(piece_bytes(4 << 30), 8 << 20);
    for bytes in [100 << 30, (100 << 30) + 1, 5_u64 << 40] {
        assert!(bytes.div_ceil(piece_bytes(bytes) as u64) <= 10_000, "{bytes}");
    }
}
