//! Turns: limits how much of a kind of work runs at once, and lets clients take turns, so that one
//! with a hundred requests makes another wait for one of them and not for all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::memory::MemoryOwner;

/// The requests of one client that wait, in their order.
type Queue = VecDeque<oneshot::Sender<Turn>>;

#[derive(Debug, Default)]
struct Waiting {
    /// How many more may run now. While there are any, no request waits.
    free: usize,
    /// The clients with waiting requests; the next turn is the first one's.
    clients: VecDeque<(MemoryOwner, Queue)>,
}

/// Clones refer to the same turns.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<Waiting>>);

/// The right to work until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Turns);

impl Turns {
    /// Turns of which `at_once` may be taken at the same time.
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Mutex::new(Waiting { free: at_once, ..Waiting::default() })))
    }

    /// A poisoned lock is usable: nothing in it can be half changed.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of this client.
    pub(crate) async fn take(&self, client: &MemoryOwner) -> Turn {
        let granted = {
            let mut waiting = self.lock();
            if waiting.free > 0 {
                waiting.free -= 1;
                return Turn(self.clone());
            }
            let (turn, granted) = oneshot::channel();
            match waiting.clients.iter_mut().find(|(other, _)| other == client) {
                Some((_, queue)) => queue.push_back(turn),
                None => waiting.clients.push_back((client.clone(), VecDeque::from([turn]))),
            }
            granted
        };
        granted.await.expect("a turn that ends goes to the next that waits")
    }

    /// Gives a turn that has ended to the next client that waits.
    fn pass_on(&self) {
        loop {
            let next = {
                let mut waiting = self.lock();
                let Some((client, mut queue)) = waiting.clients.pop_front() else {
                    waiting.free += 1;
                    return;
                };
                let next = queue.pop_front();
                if !queue.is_empty() {
                    waiting.clients.push_back((client, queue));
                }
                next
            };
            // A client that went away doesn't take its turn. If it goes away only now, the turn is
            // dropped, and passed on again.
            if let Some(next) = next.filter(|next| !next.is_closed()) {
                let _ = next.send(Turn(self.clone()));
                return;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use http::{HeaderMap, Method};

    use super::*;

    fn client(number: u8) -> MemoryOwner {
        MemoryOwner::of(&Method::GET, &HeaderMap::new(), IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn clients_take_turns_however_many_requests_each_has() {
        let turns = Turns::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(first) = pin!(turns.take(&client(1))).poll(&mut cx) else { panic!("it is free") };
        // Four more requests of the first client wait, and then one each of two others.
        let clients = [1, 1, 1, 1, 2, 3].map(client);
        let mut waiting: Vec<_> = clients.iter().map(|client| Box::pin(turns.take(client))).collect();
        assert!(waiting.iter_mut().all(|take| take.as_mut().poll(&mut cx).is_pending()));
        let (mut turn, mut order) = (Some(first), Vec::new());
        let mut left: Vec<usize> = (0..waiting.len()).collect();
        while !left.is_empty() {
            turn.take();
            let at = left.iter().position(|&index| match waiting[index].as_mut().poll(&mut cx) {
                Poll::Ready(next) => turn.replace(next).is_none(),
                Poll::Pending => false,
            });
            order.push(left.remove(at.expect("one has its turn")));
        }
        assert_eq!(order, [0, 4, 5, 1, 2, 3]);
    }

    #[test]
    fn a_client_that_goes_away_leaves_its_turn_to_others() {
        let turns = Turns::new(2);
        let mut cx = Context::from_waker(Waker::noop());
        let mut take = |number| {
            let (turns, client) = (turns.clone(), client(number));
            let mut taking = Box::pin(async move { turns.take(&client).await });
            let taken = taking.as_mut().poll(&mut cx);
            (taking, taken)
        };
        let (held, gone, mut next) = ([take(1).1, take(1).1], take(2).0, take(3).0);
        drop(gone);
        drop(held);
        let next = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(next.is_ready() && turns.lock().free == 1);
        drop(next);
        // One that goes away after it got its turn, too.
        let (held, gone) = ([take(1).1, take(1).1], take(2).0);
        drop(held);
        assert_eq!(turns.lock().free, 1);
        drop(gone);
        assert_eq!(turns.lock().free, 2);
    }
}
