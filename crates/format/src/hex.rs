//! Hexadecimal text of fixed length, for keys and digests.

/// Appends `bytes` to `text` as lower-case digits.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
}

/// Reads exactly `2 * N` digits of either case into `bytes`; `None` for anything else.
///
/// Writes into the caller's buffer, so that no copy of a secret is left in a moved value.
pub(crate) fn parse_hex<const N: usize>(text: &[u8], bytes: &mut [u8; N]) -> Option<()> {
    if text.len() != 2 * N {
        return None;
    }
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}
