//! Parameters of a query.

use crate::http::url_encoding::decode;

/// A decoded query parameter. Names may be encoded as well as values. A value that can't be decoded
/// is returned raw, never as absent, since a policy may deny requests that have the parameter.
/// (Requests with such a query are rejected earlier.)
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let value = pairs.into_iter().find_map(|(key, value)| (decode(key).as_deref() == Some(name)).then_some(value))?;
    Some(decode(value).unwrap_or_else(|| value.to_owned()))
}

/// Whether a query has a parameter, with or without a value. Its name may be encoded.
pub(crate) fn has_parameter(query: Option<&str>, name: &str) -> bool {
    let mut names = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    names.any(|found| found == name || (found.contains('%') && decode(found).as_deref() == Some(name)))
}
