//! Whether the process can go on.
//!
//! A panic takes the request with it in which it happens, and nothing else. Some leave more behind: a lock that is poisoned, a thread of the intake
//! that is gone. Then no later request can be answered as it should be; `/-/health` and `/-/ready` say so, and the server ends with an error, so that
//! whatever supervises it starts it again.

use std::any::Any;

use tokio::sync::watch;

/// The reason why the process can't go on, if there is one.
#[derive(Debug)]
pub(crate) struct Liveness(watch::Sender<Option<String>>);

impl Default for Liveness {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Liveness {
    /// From now on the process can't go on. The first reason stays.
    pub(crate) fn fail(&self, reason: impl Into<String>) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                let reason = reason.into();
                tracing::error!(reason, "the server can't go on and ends");
                *known = Some(reason);
            }
            is_first
        });
    }

    /// Why it can't go on.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until it can't go on, and says why.
    pub(crate) async fn failed(&self) -> String {
        let mut told = self.0.subscribe();
        let reason = told.wait_for(Option::is_some).await.expect("the sender is here");
        reason.clone().expect("that is what was waited for")
    }
}

/// What a panic says.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::soon;

    #[tokio::test]
    async fn the_first_reason_stays_and_is_told_to_all_who_wait() {
        let liveness = Liveness::default();
        assert_eq!(liveness.reason(), None);
        let mut waiting = std::pin::pin!(liveness.failed());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        liveness.fail("first");
        liveness.fail("second");
        assert_eq!(soon(waiting).await, "first");
        assert_eq!((liveness.reason().as_deref(), soon(liveness.failed()).await.as_str()), (Some("first"), "first"));
    }
}
