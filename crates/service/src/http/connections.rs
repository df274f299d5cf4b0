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

/// Interval at which another idle connection is closed while no permit becomes free.
const EVICTION_INTERVAL: Duration = Duration::from_millis(50);

/// How long a connection must be idle before it may be closed: a new one is about to send a
/// request.
const IDLE_BEFORE_EVICTION: Duration = Duration::from_secs(2);
/// How long a connection that is being closed may take to send the end of its last response.
const RESPONSE_GRACE: Duration = Duration::from_millis(400);

struct ConnectionState {
    peer: IpAddr,
    /// Since when the connection is idle; `None` during a request.
    idle_since: Option<Instant>,
    served: bool,
    evicted: Arc<Notify>,
    is_evicted: bool,
}

#[derive(Default)]
struct Inner {
    next_id: u64,
    open: HashMap<u64, ConnectionState>,
    count_by_peer: HashMap<IpAddr, usize>,
}

#[derive(Clone)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    per_peer: usize,
    inner: Arc<Mutex<Inner>>,
}

impl Connections {
    /// Allows `connections_max` connections in total and `per_peer` per address; 0 is no limit per
    /// address.
    pub(crate) fn new(connections_max: usize, per_peer: usize) -> Self {
        let per_peer = if per_peer == 0 { usize::MAX } else { per_peer };
        Self { permits: Arc::new(Semaphore::new(connections_max)), per_peer, inner: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. Closes idle connections until one becomes free.
    pub(crate) async fn acquire_permit(&self) -> OwnedSemaphorePermit {
        loop {
            if let Ok(permit) = self.permits.clone().try_acquire_owned() {
                return permit;
            }
            self.evict(None);
            if let Ok(permit) = tokio::time::timeout(EVICTION_INTERVAL, self.permits.clone().acquire_owned()).await {
                return permit.expect("it is never closed");
            }
        }
    }

    /// Admits a connection. Returns `None` if its address is at its limit and none of its
    /// connections may be closed: all are busy, or idle for too short a time.
    pub(crate) fn admit(&self, peer: IpAddr, permit: OwnedSemaphorePermit) -> Option<Connection> {
        let peer = limited_address(peer);
        let has = self.lock().count_by_peer.get(&peer).copied().unwrap_or(0);
        if has >= self.per_peer && !self.evict(Some(peer)) {
            return None;
        }
        let mut inner = self.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        let evicted = Arc::new(Notify::new());
        let state = ConnectionState { peer, idle_since: Some(Instant::now()), served: false, evicted: evicted.clone(), is_evicted: false };
        inner.open.insert(id, state);
        *inner.count_by_peer.entry(peer).or_default() += 1;
        drop(inner);
        Some(Connection { connections: self.clone(), id, evicted, _permit: permit })
    }

    /// Closes the idlest connection, of this address or of any. Returns `false` if none has been
    /// idle for [`IDLE_BEFORE_EVICTION`].
    fn evict(&self, of: Option<IpAddr>) -> bool {
        let mut inner = self.lock();
        let open = inner.open.iter_mut().filter(|(_, state)| !state.is_evicted && of.is_none_or(|peer| peer == state.peer));
        let idle = open.filter(|(_, state)| state.idle_since.is_some_and(|since| since.elapsed() >= IDLE_BEFORE_EVICTION));
        // The ID, in order of opening, breaks ties.
        let Some((_, idlest)) = idle.min_by_key(|(id, state)| (state.served, state.idle_since, **id)) else { return false };
        idlest.is_evicted = true;
        idlest.evicted.notify_one();
        let peer = idlest.peer;
        // It no longer counts for its address, though closing takes a moment.
        uncount_peer(&mut inner, peer);
        true
    }
}

fn uncount_peer(inner: &mut Inner, peer: IpAddr) {
    if let Some(count) = inner.count_by_peer.get_mut(&peer) {
        *count -= 1;
        if *count == 0 {
            inner.count_by_peer.remove(&peer);
        }
    }
}

/// The unit of the limit per address. For IPv6 it is the /64 network, since a client has all of it.
fn limited_address(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX))),
        address => address,
    }
}

pub(crate) struct Connection {
    connections: Connections,
    id: u64,
    evicted: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
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
                (true, Some(since)) if since.elapsed() >= RESPONSE_GRACE => return,
                _ => tokio::time::sleep(RESPONSE_GRACE / 4).await,
            }
        }
    }

    /// Whether the connection ever had a request, and since when it is idle.
    fn idle(&self) -> (bool, Option<Instant>) {
        self.connections.lock().open.get(&self.id).map_or((false, None), |state| (state.served, state.idle_since))
    }

    /// Marks the connection busy until the returned guard is dropped. The flag is true if this
    /// request must be the last.
    pub(crate) fn request(&self) -> (BusyGuard, bool) {
        let mut is_last = false;
        if let Some(state) = self.connections.lock().open.get_mut(&self.id) {
            (state.idle_since, state.served, is_last) = (None, true, state.is_evicted);
        }
        (BusyGuard { connections: self.connections.clone(), id: self.id }, is_last)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut inner = self.connections.lock();
        if let Some(state) = inner.open.remove(&self.id)
            && !state.is_evicted
        {
            uncount_peer(&mut inner, state.peer);
        }
    }
}

/// Guard of a request in progress, up to the end of its response.
pub(crate) struct BusyGuard {
    connections: Connections,
    id: u64,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        if let Some(state) = self.connections.lock().open.get_mut(&self.id) {
            state.idle_since = Some(Instant::now());
        }
    }
}

/// A response body that keeps its connection busy.
pub(crate) struct BusyBody {
    pub(crate) body: s3s::Body,
    pub(crate) _busy_guard: BusyGuard,
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
    use crate::test_gateway::soon;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    async fn open(connections: &Connections, peer: IpAddr) -> Option<Connection> {
        connections.admit(peer, soon(connections.acquire_permit()).await)
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
            let mut early = std::pin::pin!(connections.acquire_permit());
            assert!(futures_util::poll!(&mut early).is_pending());
            assert!(!connections.evict(None), "all of them are too young");
        }
        tokio::time::advance(IDLE_BEFORE_EVICTION).await;
        let mut next = std::pin::pin!(connections.acquire_permit());
        assert!(futures_util::poll!(&mut next).is_pending());
        soon(silent.evicted()).await;
        drop(silent);
        let fourth = connections.admit(PEER, soon(next).await).expect("room");
        let other = fourth.request();
        let mut next = std::pin::pin!(connections.acquire_permit());
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
        tokio::time::advance(IDLE_BEFORE_EVICTION).await;
        let third = open(&connections, PEER).await.expect("an idle one makes room");
        soon(first.evicted()).await;
        drop((first, second, third));
        assert!(connections.lock().count_by_peer.is_empty() && connections.lock().open.is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let of = |text: &str| limited_address(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
