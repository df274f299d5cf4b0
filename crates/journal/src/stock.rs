//! Where the platters and shuttles of a library are, as lines of text: what a library takes up its
//! work from, and what the journal of a live library begins with.
//!
//! ```text
//! written 38            the first 38 platters are in their slots, verified
//! shuttle 4@1200000     the first shuttle is at shelf 4, 1.2 m from the left; one line for each
//! between S3 5          out of order between its shelf and shelf 5
//! down S3               out of order until it is repaired
//! failed D7             out of order for a while
//! found P45 D3.1 77     platter 45 is in bay 1 of drive 3, with 77 tracks verified
//! found P46 S0 0        platter 46 is on shuttle 0
//! ```

use std::fmt;

use fulgurite_library::{Actor, Berth, Found, Platter, Position, Shuttle, Whereabouts};

use crate::fact::{actor_words, berth_words};
use crate::words::{actor, berth, number, platter, position, shuttle};

/// Where the platters and shuttles of a library are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stock {
    /// The number of platters that are in their slots and verified, except for those that were
    /// found elsewhere.
    pub written: u32,
    /// Where each shuttle is; empty if each is at its resting place.
    pub shuttles: Vec<Position>,
    /// Shuttles that are out of order between two shelves, with the shelf that `shuttles` doesn't
    /// say.
    pub between: Vec<(Shuttle, u8)>,
    /// Machines that are out of order until someone repairs them.
    pub down: Vec<Actor>,
    /// Machines that are out of order for a while.
    pub failed: Vec<Actor>,
    /// Platters that are elsewhere, or in another state.
    pub found: Vec<Found>,
}

/// A line of a stock can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found `{0}`, but where a platter or a shuttle of the library is, is expected")]
pub struct StockError(pub String);

impl Stock {
    /// Reads lines.
    ///
    /// # Errors
    /// [`StockError`] with the first line that is wrong.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, StockError> {
        let mut stock = Self::default();
        for line in lines {
            stock.add(line).ok_or_else(|| StockError(line.chars().take(80).collect()))?;
        }
        Ok(stock)
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "written" => self.written = number(rest)?,
            "shuttle" => self.shuttles.push(position(rest)?),
            "between" => {
                let (which, shelf) = rest.split_once(' ')?;
                self.between.push((shuttle(which)?, number(shelf)?));
            }
            "down" => self.down.push(actor(rest)?),
            "failed" => self.failed.push(actor(rest)?),
            "found" => {
                let mut words = rest.split(' ');
                let (Some(which), Some(place), Some(verified), None) = (words.next(), words.next(), words.next(), words.next()) else {
                    return None;
                };
                self.found.push(Found { platter: platter(which)?, at: whereabouts(place)?, verified: number(verified)? });
            }
            _ => return None,
        }
        Some(())
    }
}

fn whereabouts(word: &str) -> Option<Whereabouts> {
    if word == "unwritten" {
        return Some(Whereabouts::Unwritten);
    }
    shuttle(word).map(Whereabouts::Shuttle).or_else(|| berth(word).map(Whereabouts::Berth))
}

impl fmt::Display for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "written {}", self.written)?;
        self.shuttles.iter().try_for_each(|Position { shelf, x_um }| writeln!(f, "shuttle {shelf}@{x_um}"))?;
        for (shuttle, shelf) in &self.between {
            writeln!(f, "between {} {shelf}", actor_words(Actor::Shuttle(*shuttle)))?;
        }
        self.down.iter().try_for_each(|actor| writeln!(f, "down {}", actor_words(*actor)))?;
        self.failed.iter().try_for_each(|actor| writeln!(f, "failed {}", actor_words(*actor)))?;
        for Found { platter: Platter(platter), at, verified } in &self.found {
            match at {
                Whereabouts::Berth(at @ (Berth::Slot(_) | Berth::Bay(..) | Berth::Port)) => {
                    writeln!(f, "found P{platter} {} {verified}", berth_words(*at))?;
                }
                Whereabouts::Shuttle(shuttle) => writeln!(f, "found P{platter} {} {verified}", actor_words(Actor::Shuttle(*shuttle)))?,
                Whereabouts::Unwritten => writeln!(f, "found P{platter} unwritten {verified}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_library::{Bay, Drive, Slot};

    use super::*;

    #[test]
    fn a_stock_reads_back_as_it_was_written() {
        let found = |platter, at, verified| Found { platter: Platter(platter), at, verified };
        let stock = Stock {
            written: 38,
            shuttles: vec![Position { shelf: 4, x_um: 1_200_000 }, Position { shelf: 0, x_um: 0 }],
            between: vec![(Shuttle(1), 1)],
            down: vec![Actor::Shuttle(Shuttle(1)), Actor::Drive(Drive(19))],
            failed: vec![Actor::Drive(Drive(7))],
            found: vec![
                found(45, Whereabouts::Berth(Berth::Bay(Drive(3), Bay(1))), 77),
                found(46, Whereabouts::Shuttle(Shuttle(0)), 0),
                found(2, Whereabouts::Berth(Berth::Slot(Slot(9_000))), 100),
                found(47, Whereabouts::Berth(Berth::Port), 0),
                found(3, Whereabouts::Unwritten, 0),
            ],
        };
        assert_eq!(Stock::parse(stock.to_string().lines()), Ok(stock));
        for wrong in [
            "",
            "written",
            "written -1",
            "found P1 D3 0",
            "found P1 port 0 0",
            "down L1",
            "shuttle 4",
            "between D1 2",
            "between S1",
            "else 1",
        ] {
            assert_eq!(Stock::parse([wrong]), Err(StockError(wrong.to_owned())));
        }
    }
}
