//! Random bytes of the operating system, for identifiers and keys.

/// `N` random bytes.
///
/// # Panics
/// If the operating system gives none: nothing safe could be done then.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
