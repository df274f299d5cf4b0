//! Bearer tokens of the server's own pages: metrics and the dashboard.

use http::{HeaderMap, header};

/// Whether a request carries this token. The comparison takes constant time, so that a guess
/// doesn't reveal how much of it is right.
pub(crate) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = value.and_then(|value| value.strip_prefix("Bearer "));
    sent.is_some_and(|sent| aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), sent.as_bytes()).is_ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let sent = |value: &'static str| HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
        assert!(has_token(&sent("Bearer moonlight"), "moonlight"));
        for wrong in ["Bearer moonligh", "Bearer moonlightx", "Bearer ", "bearer moonlight", "moonlight", "Basic moonlight", ""] {
            assert!(!has_token(&sent(wrong), "moonlight"), "{wrong}");
        }
        assert!(!has_token(&HeaderMap::new(), "moonlight"));
    }
}
