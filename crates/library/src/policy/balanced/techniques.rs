//! The settings of the balanced policy.

use fulgurite_domain::Micros;

/// The techniques that the policy applies. Each can be disabled to measure its contribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Techniques {
    /// Both bays of a drive serve customers while many platters wait.
    pub exchanges: bool,
    /// The number of oldest platters of a section among which the one with the lowest cost is
    /// chosen; 1 is strictly by age.
    pub window: u32,
    /// Seconds of travel that one second of age offsets, so that platters that were skipped get
    /// their turn.
    pub age_counts: f64,
    /// How much more urgent a section without a shuttle must be before a shuttle moves there that
    /// has work in its own.
    pub moves_above: Micros,
    /// How much more urgent the section at the other end of the shelf must be before a shuttle
    /// fetches from it; [`Micros::NEVER`] if shuttles never do.
    pub assists_above: Micros,
    /// Requests for one platter are read in order of their tracks.
    pub reads_by_track: bool,
    /// Waiting platters per drive of a section from which verification is set aside.
    pub set_aside_above: u32,
    /// One in this many drives never stops verifying, whatever waits; 0 for none.
    pub one_verifies_of: u32,
    /// Verification is never set aside in so many drives that more than this many written platters
    /// wait for it: for each further one, a drive verifies, whatever waits.
    pub unverified_at_most: u32,
    /// Verification returns after no platter has waited for this long.
    pub brought_back_after: Micros,
}

impl Default for Techniques {
    fn default() -> Self {
        Self {
            exchanges: true,
            window: 32,
            age_counts: 0.007,
            moves_above: Micros(100_000_000),
            assists_above: Micros(200_000_000),
            reads_by_track: true,
            set_aside_above: 6,
            one_verifies_of: 0,
            unverified_at_most: 10,
            brought_back_after: Micros(120_000_000),
        }
    }
}
