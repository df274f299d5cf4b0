//! Random bytes from the operating system, for identifiers and keys.

/// Returns `N` random bytes.
///
/// # Panics
/// If the operating system provides none: no safe operation is possible then.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    bytes
}
