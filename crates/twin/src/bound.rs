//! bound
use fulgurite_domain::Micros;

/// What no policy can beat.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bound {
    /// Tail
    pub tail: Micros,
    /// Longest
    pub longest: Micros,
}
