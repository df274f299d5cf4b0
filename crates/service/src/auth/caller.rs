//! The caller of a request: its account and the origin of its connection.

use std::net::IpAddr;
use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, header};
use s3s::{S3Result, s3_error};

use crate::auth::policy::Origin;
use crate::state::Account;

/// Headers that describe the caller or the connection and that policies can test. A put that is
/// made from another request has those of that request.
pub(crate) const CALLER_HEADERS: [HeaderName; 3] = [header::REFERER, header::USER_AGENT, HeaderName::from_static("x-amz-content-sha256")];

/// The caller of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// The account; `None` for anonymous requests.
    pub(crate) account: Option<Arc<Account>>,
    pub(crate) origin: Origin,
}

impl Caller {
    /// The account that sent a request, or `AccessDenied` if it is anonymous.
    pub(crate) fn account_of(request: &Extensions) -> S3Result<Arc<Account>> {
        let account = request.get::<Self>().and_then(|caller| caller.account.clone());
        account.ok_or_else(|| s3_error!(AccessDenied))
    }
}

/// The access key of a request whose signature was already checked; `None` if it is anonymous. It
/// is a request extension, which clients can't set.
#[derive(Debug, Clone)]
pub(crate) struct Signed(pub(crate) Option<String>);

/// The client side of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether the server terminates TLS on this connection.
    pub(crate) is_tls: bool,
}

/// The origin of a request: its connection and its headers `Referer` and `User-Agent`.
pub(crate) fn origin(peer: Option<Peer>, headers: &HeaderMap) -> Origin {
    Origin::new(peer.map(|peer| peer.address), peer.is_some_and(|peer| peer.is_tls), headers)
}
