//! Names of objects, and changing them one at a time.
//!
//! An object of S3 has the archive's name `bucket/key`: so what the command line puts under `photos/` is in the bucket `photos`, if there is
//! one of that name.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use fulgurite_domain::ObjectName;
use s3s::validation::{AwsNameValidation, NameValidation};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The archive's name of an object.
pub(crate) fn object_name(bucket: &str, key: &str) -> ObjectName {
    let mut name = Vec::with_capacity(bucket.len() + 1 + key.len());
    name.extend_from_slice(bucket.as_bytes());
    name.push(b'/');
    name.extend_from_slice(key.as_bytes());
    ObjectName(name)
}

/// The key of an object in a bucket; none if its bytes are no UTF-8, which the command line can put and S3 can't say.
pub(crate) fn key_of<'a>(bucket: &str, name: &'a ObjectName) -> Option<&'a str> {
    str::from_utf8(&name.0[(bucket.len() + 1).min(name.0.len())..]).ok()
}

/// The shortest bytes that no UTF-8 begins with and a name does, which is none: behind all names that begin with them, keys go on. A name that only
/// lacks its end may be the beginning of keys; with a zero it isn't.
pub(crate) fn unreadable_start(name: &[u8]) -> Vec<u8> {
    let valid = str::from_utf8(name).map_or_else(|error| error.valid_up_to(), str::len);
    let is_wrong = |end: &usize| str::from_utf8(&name[valid..*end]).is_err_and(|error| error.error_len().is_some());
    (valid..=name.len()).find(is_wrong).map_or_else(|| [name, &[0]].concat(), |end| name[..end].to_vec())
}

/// The names that buckets may have: AWS's rules, with what it keeps to itself.
#[derive(Debug)]
pub(crate) struct BucketNames;

impl NameValidation for BucketNames {
    fn validate_bucket_name(&self, name: &str) -> bool {
        let is_kept = ["sthree-", "amzn-s3-demo-"].iter().any(|start| name.starts_with(start))
            || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|end| name.ends_with(end));
        // Between dots stands what could be a name itself.
        let is_broken = [".-", "-."].iter().any(|pair| name.contains(pair));
        AwsNameValidation::new().validate_bucket_name(name) && !is_kept && !is_broken
    }
}

/// Locks by name. What looks at the newest version and then changes something holds the lock of the name meanwhile: a conditional put, a put in
/// place of what was there, a removal. Names that nobody holds take no memory.
#[derive(Debug, Default)]
pub(crate) struct Names(Arc<Mutex<HashMap<ObjectName, Arc<AsyncMutex<()>>>>>);

/// A name that is held.
pub(crate) struct Held {
    names: Arc<Mutex<HashMap<ObjectName, Arc<AsyncMutex<()>>>>>,
    name: ObjectName,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Names {
    pub(crate) async fn hold(&self, name: ObjectName) -> Held {
        let lock = self.0.lock().expect("no panic holds this lock").entry(name.clone()).or_default().clone();
        // Before it waits, so that whoever gives up waiting forgets the name too.
        let mut held = Held { names: self.0.clone(), name, guard: None };
        held.guard = Some(lock.lock_owned().await);
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.guard = None;
        let mut names = self.names.lock().expect("no panic holds this lock");
        // Ours in the map is the only one left if nobody waits.
        if names.get(&self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            names.remove(&self.name);
        }
    }
}

/// Locks of buckets: shared by whoever puts something into one, until that is acknowledged, and held alone by who removes it. A put takes one of a few
/// locks, whichever its bucket has; those of other buckets that have the same wait for a removal, too, which is rare and short.
#[derive(Debug)]
pub(crate) struct Buckets([Arc<RwLock<()>>; 64]);

impl Default for Buckets {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl Buckets {
    fn lock(&self, bucket: &str) -> Arc<RwLock<()>> {
        let mut hasher = DefaultHasher::new();
        bucket.hash(&mut hasher);
        self.0[(hasher.finish() % self.0.len() as u64) as usize].clone()
    }

    /// Nobody removes the bucket as long as this is held.
    pub(crate) async fn share(&self, bucket: &str) -> OwnedRwLockReadGuard<()> {
        self.lock(bucket).read_owned().await
    }

    /// Waits for those who put something into the bucket, and keeps others from it.
    pub(crate) async fn take(&self, bucket: &str) -> OwnedRwLockWriteGuard<()> {
        self.lock(bucket).write_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::soon;

    #[test]
    fn what_no_text_begins_with_is_found_in_a_name() {
        for (name, start) in [
            (b"a\xff/f1".as_slice(), b"a\xff".as_slice()),
            (b"M\x80ller/old", b"M\x80"),
            (b"a\xc3(b", b"a\xc3("),
            (b"a\xe2\x82(b", b"a\xe2\x82("),
            (b"a\xe2\x82", b"a\xe2\x82\0"),
            (b"\xed\xa0\x80", b"\xed\xa0"),
        ] {
            assert_eq!(unreadable_start(name), start, "{name:?}");
        }
    }

    #[tokio::test]
    async fn a_name_is_held_by_one_and_forgotten_when_nobody_does() {
        let names = Names::default();
        let first = soon(names.hold(object_name("b", "k"))).await;
        let _other = soon(names.hold(object_name("b", "other"))).await;
        let mut second = std::pin::pin!(names.hold(object_name("b", "k")));
        assert!(futures_util::poll!(&mut second).is_pending());
        {
            let mut third = std::pin::pin!(names.hold(object_name("b", "k")));
            assert!(futures_util::poll!(&mut third).is_pending());
        }
        drop(first);
        drop(soon(second).await);
        assert_eq!(names.0.lock().expect("a lock").len(), 1);
    }
}
