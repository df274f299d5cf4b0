//! The one way to write sets, whether the server finds that one is due or the command line asks for it: so `/-/ready` knows of every failure.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::PoisonError;

use fulgurite_archive::{Archive, ArchiveError};

use crate::gateway::Gateway;

/// The topic of readiness.
const TOPIC: &str = "platters";

impl Gateway {
    /// Writes sets, after whatever else writes some. A failure, or a panic, is a reason not to be ready until a later call succeeds.
    ///
    /// # Errors
    /// What `write` says.
    pub(crate) fn write_sets<T>(&self, write: impl FnOnce(&Archive) -> Result<T, ArchiveError>) -> Result<T, ArchiveError> {
        // It guards no data. A flush that panicked left its set to be given up by the next start.
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.room.begin_set();
        match catch_unwind(AssertUnwindSafe(|| write(&self.archive))) {
            Ok(Ok(written)) => {
                self.readiness.report(TOPIC, None);
                Ok(written)
            }
            Ok(Err(error)) => {
                // Whatever was asked to stop says nothing of the disks.
                if !matches!(error, ArchiveError::Stopped) {
                    self.readiness.report(TOPIC, Some(reason(&error)));
                }
                Err(error)
            }
            Err(panic) => {
                self.readiness.report(TOPIC, Some(told("it panicked")));
                resume_unwind(panic)
            }
        }
    }
}

/// Why no set could be written, without paths and names of objects: anyone who reaches the server may read it.
fn reason(error: &ArchiveError) -> String {
    match error {
        ArchiveError::TooFewStores { shape, available, .. } => {
            told(&format!("it needs {} stores with enough room, and {available} are available", shape.platters()))
        }
        ArchiveError::Verification { store, .. } => told(&format!("a platter on store {store} read back wrong")),
        ArchiveError::Store(_) => told("a store failed"),
        ArchiveError::Staging(_) => told("staging can't be read or written"),
        ArchiveError::Catalogue(_) => told("the catalogue failed"),
        ArchiveError::Keys(_) => told("the key store failed"),
        _ => told("the archive failed"),
    }
}

fn told(why: &str) -> String {
    format!("the last set couldn't be written: {why}. What is put stays in staging; the log has the particulars")
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::watch::Unwatched;

    use super::*;
    use crate::sample::Sample;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_set_that_could_not_be_written_is_a_reason_until_one_can() {
        let sample = Sample::new();
        let gateway = &sample.gateway;
        sample.put("moon", b"moon").await;
        let store = gateway.archive.home().join("d1");
        let away = store.with_extension("away");
        std::fs::rename(&store, &away).expect("moved");
        assert!(gateway.write_sets(|archive| archive.flush(&Unwatched)).is_err());
        let reasons = gateway.readiness.reasons();
        assert!(reasons.iter().any(|reason| reason.contains("needs 1 stores") && reason.contains("0 are available")), "{reasons:?}");
        assert!(!reasons.concat().contains(&*gateway.archive.home().to_string_lossy()), "{reasons:?}");
        std::fs::rename(&away, &store).expect("moved back");
        gateway.write_sets(|archive| archive.flush(&Unwatched)).expect("written");
        assert_eq!(gateway.readiness.reasons(), Vec::<String>::new());
    }

    #[test]
    fn a_panic_is_a_reason_and_being_stopped_is_none() {
        let sample = Sample::new();
        let gateway = &sample.gateway;
        assert!(gateway.write_sets(|_| Err::<(), _>(ArchiveError::Stopped)).is_err());
        assert_eq!(gateway.readiness.reasons(), Vec::<String>::new());
        let panics = catch_unwind(AssertUnwindSafe(|| gateway.write_sets::<()>(|_| panic!("for a test"))));
        assert!(panics.is_err());
        assert!(gateway.readiness.reasons()[0].contains("panicked"));
        gateway.write_sets(|_| Ok(())).expect("the next one may try");
        assert_eq!(gateway.readiness.reasons(), Vec::<String>::new());
    }
}
