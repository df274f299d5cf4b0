//! Who sees the ways of shuttles.

use fulgurite_library::Shuttle;

use crate::Trajectory;

/// Is shown every leg of every shuttle as it sets out, in order of time, beginning with where all stand.
///
/// A leg is in force until the next one of the same shuttle starts: behind its end the shuttle stands there. A shuttle that stops on its way
/// is shown standing where it stopped, possibly between two shelves.
pub trait MotionLog {
    /// A shuttle sets out, stands at first, or stops.
    fn leg(&mut self, shuttle: Shuttle, leg: &Trajectory) {
        let _ = (shuttle, leg);
    }
}

/// Nobody: costs nothing.
impl MotionLog for () {}
