//! Liveness: whether the process can go on.
//!
//! A panic normally fails only the request it occurs in. Some panics leave more damage: a poisoned
//! lock, or a missing intake thread. Then no later request can be answered correctly. `/-/health`
//! and `/-/ready` report it, and the server ends with an error so that its supervisor restarts it.

use std::any::Any;

use tokio::sync::watch;

/// The reason why the process can't go on, if any.
#[derive(Debug)]
pub(crate) struct Liveness(watch::Sender<Option<String>>);

impl Default for Liveness {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Liveness {
    /// Marks the process as failed. The first reason is kept.
    pub(crate) fn fail(&self, reason: impl Into<String>) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                let reason = reason.into();
                tracing::error!(reason, "the server can't go on and stops");
                *known = Some(reason);
            }
            is_first
        });
    }

    /// Why the process can't go on; `None` if it can.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits for the failure, and returns its reason.
    pub(crate) async fn failed(&self) -> String {
        let mut reasons = self.0.subscribe();
        let reason = reasons.wait_for(Option::is_some).await.expect("the sender is alive");
        reason.clone().expect("the condition was just checked")
    }
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::soon;

    #[tokio::test]
    async fn every_waiter_gets_the_first_reason() {
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
