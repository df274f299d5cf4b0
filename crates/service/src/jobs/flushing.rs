//! The only way to write sets, for the server itself and for the command line, so that `/-/ready`
//! reports every failure.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;

use fulgurite_archive::{Archive, ArchiveError};

use crate::gateway::Gateway;

/// The topic in [`Readiness`](crate::health::readiness::Readiness).
const TOPIC: &str = "platters";

impl Gateway {
    /// Writes sets, one writer at a time. After a panic, or an error other than a requested stop,
    /// the server isn't ready until a later call succeeds.
    ///
    /// # Errors
    /// The error of `write`.
    pub(crate) fn write_sets<T>(&self, write: impl FnOnce(&Archive) -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
        // A poisoned lock is usable: it guards no data. The next start aborts the set of a flush
        // that panicked.
        let _flush_guard = self.jobs.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.transfers.room.begin_set();
        let written = catch_unwind(AssertUnwindSafe(|| write(&self.archive)));
        // Sets may be complete even if the last one failed.
        self.take_in_sets();
        match written {
            Ok(Ok(written)) => {
                self.health.readiness.report(TOPIC, None);
                Ok(written)
            }
            Ok(Err(error)) => {
                // A requested stop says nothing about the disks.
                if !matches!(error, ArchiveError::Stopped) {
                    self.health.readiness.report(TOPIC, Some(reason(&error)));
                }
                Err(error)
            }
            Err(panic) => {
                self.health.readiness.report(TOPIC, Some(message("it panicked")));
                resume_unwind(panic)
            }
        }
    }
}

/// Why no set could be written. It contains no paths and no names of objects, since any client that
/// reaches the server can read it.
fn reason(error: &ArchiveError) -> String {
    match error {
        ArchiveError::TooFewStores { shape, available, .. } => {
            message(&format!("it needs {} stores with enough room, and {available} are available", shape.platters()))
        }
        ArchiveError::Verification { store, .. } => message(&format!("a platter on store {store} read back wrong")),
        ArchiveError::Store(_) => message("a store failed"),
        ArchiveError::Staging(_) => message("staging can't be read or written"),
        ArchiveError::Catalogue(_) => message("the catalogue failed"),
        ArchiveError::Keys(_) => message("the key store failed"),
        _ => message("the archive failed"),
    }
}

fn message(why: &str) -> String {
    format!("the last set couldn't be written: {why}. New objects stay in staging; see the log for details")
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::watch::Unwatched;

    use super::*;
    use crate::test_gateway::TestGateway;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_set_makes_the_server_unready_until_one_succeeds() {
        let test = TestGateway::new();
        let gateway = &test.gateway;
        test.put("moon", b"moon").await;
        let store = gateway.archive.home().join("d1");
        let away = store.with_extension("away");
        std::fs::rename(&store, &away).expect("moved");
        assert!(gateway.write_sets(|archive| archive.flush(&Unwatched)).is_err());
        let reasons = gateway.health.readiness.reasons();
        assert!(reasons.iter().any(|reason| reason.contains("needs 1 stores") && reason.contains("0 are available")), "{reasons:?}");
        assert!(!reasons.concat().contains(&*gateway.archive.home().to_string_lossy()), "{reasons:?}");
        std::fs::rename(&away, &store).expect("moved back");
        gateway.write_sets(|archive| archive.flush(&Unwatched)).expect("written");
        assert_eq!(gateway.health.readiness.reasons(), Vec::<String>::new());
    }

    #[test]
    fn a_panic_makes_the_server_unready_and_a_stop_does_not() {
        let test = TestGateway::new();
        let gateway = &test.gateway;
        assert!(gateway.write_sets(|_| Err::<(), _>(ArchiveError::Stopped)).is_err());
        assert_eq!(gateway.health.readiness.reasons(), Vec::<String>::new());
        let panics = catch_unwind(AssertUnwindSafe(|| gateway.write_sets::<()>(|_| panic!("for a test"))));
        assert!(panics.is_err());
        assert!(gateway.health.readiness.reasons()[0].contains("panicked"));
        gateway.write_sets(|_| Ok(())).expect("the next attempt succeeds");
        assert_eq!(gateway.health.readiness.reasons(), Vec::<String>::new());
    }
}
