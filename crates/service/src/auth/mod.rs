//! Authentication and authorization: signatures, accounts, bucket policies.

pub(crate) mod access;
pub(crate) mod bearer;
pub(crate) mod caller;
pub(crate) mod grant;
pub(crate) mod policy;
pub(crate) mod signatures;
pub(crate) mod unsigned;
