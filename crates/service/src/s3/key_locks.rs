//! Names of objects in the archive, and locks that serialize changes of a name.
//!
//! An S3 object has the name `bucket/key` in the archive. So files that the command line puts under
//! `photos/` are in the bucket `photos`, if that bucket exists.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use fulgurite_domain::ObjectName;
use s3s::validation::{AwsNameValidation, NameValidation};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The object's name in the archive.
pub(crate) fn object_name(bucket: &str, key: &str) -> ObjectName {
    let mut name = Vec::with_capacity(bucket.len() + 1 + key.len());
    name.extend_from_slice(bucket.as_bytes());
    name.push(b'/');
    name.extend_from_slice(key.as_bytes());
    ObjectName(name)
}

/// The key of an object in a bucket; `None` if it isn't UTF-8. The command line can put such names,
/// but S3 can't express them.
pub(crate) fn key_of<'a>(bucket: &str, name: &'a ObjectName) -> Option<&'a str> {
    str::from_utf8(&name.0[(bucket.len() + 1).min(name.0.len())..]).ok()
}

/// The shortest prefix of a name without a key that no key shares. A listing resumes after all
/// names with this prefix. A name that is only an incomplete UTF-8 sequence may itself be a prefix
/// of keys, so a zero byte is appended.
pub(crate) fn unreadable_start(name: &[u8]) -> Vec<u8> {
    let valid = str::from_utf8(name).map_or_else(|error| error.valid_up_to(), str::len);
    let is_wrong = |end: &usize| str::from_utf8(&name[valid..*end]).is_err_and(|error| error.error_len().is_some());
    (valid..=name.len()).find(is_wrong).map_or_else(|| [name, &[0]].concat(), |end| name[..end].to_vec())
}

/// Validates bucket names: AWS's rules, including its reserved names.
#[derive(Debug)]
pub(crate) struct BucketNames;

impl NameValidation for BucketNames {
    fn validate_bucket_name(&self, name: &str) -> bool {
        let is_kept = ["sthree-", "amzn-s3-demo-"].iter().any(|start| name.starts_with(start))
            || ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"].iter().any(|end| name.ends_with(end));
        // Each label between dots must be a valid name itself.
        let is_broken = [".-", "-."].iter().any(|pair| name.contains(pair));
        AwsNameValidation::new().validate_bucket_name(name) && !is_kept && !is_broken
    }
}

/// Locks by name. An operation that reads the newest version and then changes something holds the
/// lock of the name: a conditional put, a replacing put, a removal. Unused locks take no memory.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks(Arc<Mutex<HashMap<ObjectName, Arc<AsyncMutex<()>>>>>);

/// A held lock of a name.
pub(crate) struct KeyGuard {
    names: Arc<Mutex<HashMap<ObjectName, Arc<AsyncMutex<()>>>>>,
    name: ObjectName,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    pub(crate) async fn lock(&self, name: ObjectName) -> KeyGuard {
        let lock = self.0.lock().expect("no panic holds this lock").entry(name.clone()).or_default().clone();
        // Created before the wait, so that a cancelled wait releases the entry too.
        let mut held = KeyGuard { names: self.0.clone(), name, guard: None };
        held.guard = Some(lock.lock_owned().await);
        held
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        self.guard = None;
        let mut names = self.names.lock().expect("no panic holds this lock");
        // If no other task waits, the reference in the map is the last one.
        if names.get(&self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            names.remove(&self.name);
        }
    }
}

/// Locks of buckets. Puts share the lock of their bucket until they are acknowledged; a removal
/// holds it exclusively. There are only a few locks, assigned by hash, so a removal also delays
/// puts into other buckets with the same lock. That is rare and short.
#[derive(Debug)]
pub(crate) struct BucketLocks([Arc<RwLock<()>>; 64]);

impl Default for BucketLocks {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Arc::default()))
    }
}

impl BucketLocks {
    fn lock(&self, bucket: &str) -> Arc<RwLock<()>> {
        let mut hasher = DefaultHasher::new();
        bucket.hash(&mut hasher);
        self.0[(hasher.finish() % self.0.len() as u64) as usize].clone()
    }

    /// Keeps the bucket from being removed while the guard is held.
    pub(crate) async fn shared(&self, bucket: &str) -> OwnedRwLockReadGuard<()> {
        self.lock(bucket).read_owned().await
    }

    /// Waits for puts into the bucket, and blocks new ones.
    pub(crate) async fn exclusive(&self, bucket: &str) -> OwnedRwLockWriteGuard<()> {
        self.lock(bucket).write_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::soon;

    #[test]
    fn the_prefix_that_no_key_shares_is_found() {
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
    async fn a_name_has_one_holder_and_an_unused_lock_is_removed() {
        let locks = KeyLocks::default();
        let first = soon(locks.lock(object_name("b", "k"))).await;
        let _other = soon(locks.lock(object_name("b", "other"))).await;
        let mut second = std::pin::pin!(locks.lock(object_name("b", "k")));
        assert!(futures_util::poll!(&mut second).is_pending());
        {
            let mut third = std::pin::pin!(locks.lock(object_name("b", "k")));
            assert!(futures_util::poll!(&mut third).is_pending());
        }
        drop(first);
        drop(soon(second).await);
        assert_eq!(locks.0.lock().expect("a lock").len(), 1);
    }
}
