//! Locks that serialize changes of a name, and locks that keep a bucket from being removed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use fulgurite_domain::ObjectName;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// Number of locks that all buckets share.
const BUCKET_LOCKS: usize = 64;

/// Locks by name. Puts, removals, and changes of retention and legal hold look at the versions of a
/// name before they change something, and hold its lock for both; a restore holds it from looking
/// for an earlier one until it is recorded. The completion and the abort of a multipart upload,
/// and the removal of a replaced part, also hold the lock `upload ID`, which no object has as its
/// name. Unused locks take no memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyLocks(Arc<Mutex<HashMap<ObjectName, Arc<AsyncMutex<()>>>>>);

/// A held lock of a bucket that others may share.
pub(crate) type BucketGuard = OwnedRwLockReadGuard<()>;

/// A held lock of a name.
pub(crate) struct KeyGuard {
    names: Arc<Mutex<HashMap<ObjectName, Arc<AsyncMutex<()>>>>>,
    name: ObjectName,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    pub(crate) async fn lock(&self, name: ObjectName) -> KeyGuard {
        let lock = self.0.lock().expect("nothing panics while it holds this lock").entry(name.clone()).or_default().clone();
        // Created before the wait, so that a cancelled wait releases the entry too.
        let mut held = KeyGuard { names: self.0.clone(), name, guard: None };
        held.guard = Some(lock.lock_owned().await);
        held
    }

    /// Whether a task waits for a lock that another one holds.
    #[cfg(test)]
    pub(crate) fn is_contended(&self, name: &ObjectName) -> bool {
        // The map, the holder, and a waiter.
        self.0.lock().expect("nothing panics while it holds this lock").get(name).is_some_and(|lock| Arc::strong_count(lock) > 2)
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        self.guard = None;
        let mut names = self.names.lock().expect("nothing panics while it holds this lock");
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
pub(crate) struct BucketLocks([Arc<RwLock<()>>; BUCKET_LOCKS]);

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
    pub(crate) async fn shared(&self, bucket: &str) -> BucketGuard {
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
    use crate::s3::object_names::object_name;
    use crate::test_gateway::soon;

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
