//! Limits open connections, in total and per address. At a limit, the server closes the connection
//! that has been idle longest, and those that never sent a request before the others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use s3s::StdError;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// How often another idle connection is closed while no permit becomes free.
const NEXT: Duration = Duration::from_millis(50);

/// How long a connection must be idle before it may be closed: a new one is about to send a
/// request.
const GRACE: Duration = Duration::from_secs(2);
/// How long a connection that is being closed may take to send the end of its last response.
const LINGER: Duration = Duration::from_millis(400);

struct Known {
    peer: IpAddr,
    /// Since when the connection is idle; `None` during a request.
    idle: Option<Instant>,
    served: bool,
    evicted: Arc<Notify>,
    is_evicted: bool,
}

#[derive(Default)]
struct Inner {
    next: u64,
    all: HashMap<u64, Known>,
    of_peer: HashMap<IpAddr, usize>,
}

#[derive(Clone)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    per_peer: usize,
    inner: Arc<Mutex<Inner>>,
}

impl Connections {
    /// Allows `most` connections in total and `per_peer` per address; 0 is no limit per address.
    pub(crate) fn new(most: usize, per_peer: usize) -> Self {
        let per_peer = if per_peer == 0 { usize::MAX } else { per_peer };
        Self { permits: Arc::new(Semaphore::new(most)), per_peer, inner: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. Closes idle connections until one becomes free.
    pub(crate) async fn room(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = self.permits.clone().try_acquire_owned() {
                return permit;
            }
            self.evict(None);
            if let Ok(permit) = tokio::time::timeout(NEXT, self.permits.clone().acquire_owned()).await {
                return permit.expect("it is never closed");
            }
        }
    }

    /// Admits a connection. Returns `None` if its address is at its limit and all its connections
    /// are busy.
    pub(crate) fn admit(&self, peer: IpAddr, room: OwnedSemaphorePermit) -> Option<Connection> {
        let peer = site(peer);
        let has = self.lock().of_peer.get(&peer).copied().unwrap_or(0);
        if has >= self.per_peer && !self.evict(Some(peer)) {
            return None;
        }
        let mut inner = self.lock();
        let id = inner.next;
        inner.next += 1;
        let evicted = Arc::new(Notify::new());
        let known = Known { peer, idle: Some(Instant::now()), served: false, evicted: evicted.clone(), is_evicted: false };
        inner.all.insert(id, known);
        *inner.of_peer.entry(peer).or_default() += 1;
        drop(inner);
        Some(Connection { all: self.clone(), id, evicted, _room: room })
    }

    /// Closes the idlest connection, of this address or of any. Returns whether one was idle.
    fn evict(&self, of: Option<IpAddr>) -> bool {
        let mut inner = self.lock();
        let open = inner.all.iter_mut().filter(|(_, known)| !known.is_evicted && of.is_none_or(|peer| peer == known.peer));
        let idle = open.filter(|(_, known)| known.idle.is_some_and(|since| since.elapsed() >= GRACE));
        // The ID, in order of opening, breaks ties.
        let Some((_, idlest)) = idle.min_by_key(|(id, known)| (known.served, known.idle, **id)) else { return false };
        idlest.is_evicted = true;
        idlest.evicted.notify_one();
        let peer = idlest.peer;
        // It no longer counts for its address, though closing takes a moment.
        forget(&mut inner, peer);
        true
    }
}

fn forget(inner: &mut Inner, peer: IpAddr) {
    if let Some(count) = inner.of_peer.get_mut(&peer) {
        *count -= 1;
        if *count == 0 {
            inner.of_peer.remove(&peer);
        }
    }
}

/// The unit of the limit per address. For IPv6 it is the /64 network, since a client has all of it.
fn site(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX))),
        address => address,
    }
}

pub(crate) struct Connection {
    all: Connections,
    id: u64,
    evicted: Arc<Notify>,
    _room: OwnedSemaphorePermit,
}

impl Connection {
    /// Waits until the connection has to be closed and has sent its last response.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
        loop {
            match self.idle() {
                // A connection that never had a request has nothing to send. Another may still have
                // to send the end of a response.
                (false, _) => return,
                (true, Some(since)) if since.elapsed() >= LINGER => return,
                _ => tokio::time::sleep(LINGER / 4).await,
            }
        }
    }

    /// Whether the connection ever had a request, and since when it is idle.
    fn idle(&self) -> (bool, Option<Instant>) {
        self.all.lock().all.get(&self.id).map_or((false, None), |known| (known.served, known.idle))
    }

    /// Marks the connection busy until the returned guard is dropped. The flag is true if this
    /// request must be the last.
    pub(crate) fn request(&self) -> (Busy, bool) {
        let mut is_last = false;
        if let Some(known) = self.all.lock().all.get_mut(&self.id) {
            (known.idle, known.served, is_last) = (None, true, known.is_evicted);
        }
        (Busy { all: self.all.clone(), id: self.id }, is_last)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        if let Some(known) = inner.all.remove(&self.id)
            && !known.is_evicted
        {
            forget(&mut inner, known.peer);
        }
    }
}

/// Guard of a request in progress, up to the end of its response.
pub(crate) struct Busy {
    all: Connections,
    id: u64,
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(known) = self.all.lock().all.get_mut(&self.id) {
            known.idle = Some(Instant::now());
        }
    }
}

/// A response body that keeps its connection busy.
pub(crate) struct BusyBody {
    pub(crate) body: s3s::Body,
    pub(crate) _busy: Busy,
}

impl Body for BusyBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::soon;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    async fn open(connections: &Connections, peer: IpAddr) -> Option<Connection> {
        connections.admit(peer, soon(connections.room()).await)
    }

    #[tokio::test(start_paused = true)]
    async fn the_idlest_connection_is_closed_and_busy_ones_stay() {
        let connections = Connections::new(3, 0);
        let busy = open(&connections, PEER).await.expect("room");
        tokio::time::advance(Duration::from_secs(1)).await;
        let request = busy.request();
        let served = open(&connections, PEER).await.expect("room");
        drop(served.request());
        let silent = open(&connections, PEER).await.expect("room");
        {
            let mut early = std::pin::pin!(connections.room());
            assert!(futures_util::poll!(&mut early).is_pending());
            assert!(!connections.evict(None), "all of them are too young");
        }
        tokio::time::advance(GRACE).await;
        let mut next = std::pin::pin!(connections.room());
        assert!(futures_util::poll!(&mut next).is_pending());
        soon(silent.evicted()).await;
        drop(silent);
        let fourth = connections.admit(PEER, soon(next).await).expect("room");
        let other = fourth.request();
        let mut next = std::pin::pin!(connections.room());
        assert!(futures_util::poll!(&mut next).is_pending());
        soon(served.evicted()).await;
        drop(served);
        drop((soon(next).await, request, other));
    }

    #[tokio::test(start_paused = true)]
    async fn connections_per_address_are_limited() {
        let connections = Connections::new(10, 2);
        let first = open(&connections, PEER).await.expect("room");
        let second = open(&connections, PEER).await.expect("room");
        let requests = (first.request(), second.request());
        assert!(open(&connections, PEER).await.is_none(), "all of its connections are busy");
        assert!(open(&connections, [127, 0, 0, 2].into()).await.is_some());
        drop(requests);
        tokio::time::advance(GRACE).await;
        let third = open(&connections, PEER).await.expect("an idle one makes room");
        soon(first.evicted()).await;
        drop((first, second, third));
        assert!(connections.lock().of_peer.is_empty() && connections.lock().all.is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let of = |text: &str| site(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
