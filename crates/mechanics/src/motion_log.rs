//! Logs of shuttle motion.

use fulgurite_library::Shuttle;

use crate::Trajectory;

/// Receives every leg of every shuttle when it starts, in time order, beginning with the start
/// positions.
///
/// A leg is in force until the next leg of the same shuttle starts; after its end the shuttle
/// stands at its target. A shuttle that stops during a leg is reported standing where it stopped,
/// possibly between two shelves.
pub trait MotionLog {
    /// A shuttle starts a leg, has its start position, or stops.
    fn leg(&mut self, shuttle: Shuttle, leg: &Trajectory) {
        let _ = (shuttle, leg);
    }
}

/// Logs nothing, at no cost.
impl MotionLog for () {}
