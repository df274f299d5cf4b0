//! Who a request is of, and where it comes from: what is known of it before anything is decided.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;

use crate::auth::policy::Origin;
use crate::state::Account;

/// Who a request is of, and where it comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// Nobody, where a bucket lets everybody in.
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) origin: Origin,
}

/// The access key that a request was signed with, once its signature was checked; none where it has none. No client can say this.
#[derive(Debug, Clone)]
pub(crate) struct Signed(pub(crate) Option<String>);

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether its connection is our own TLS.
    pub(crate) is_tls: bool,
}

/// Where a request comes from, with what its headers say of that.
pub(crate) fn origin(peer: Option<Peer>, headers: &HeaderMap) -> Origin {
    Origin::new(peer.map(|peer| peer.address), peer.is_some_and(|peer| peer.is_tls), headers)
}
