//! Copies whose last look is too long ago.
//!
//! A check that reads no bytes leaves no date of verification, so the ages of verifications say
//! nothing of nodes whose copies are only looked at. What tells is when the next look is due: few
//! copies of a node that keeps up have been due for long, and an index finds them.

use crate::copy::Method;
use crate::database::{AuditDatabase, DatabaseError};
use crate::node::{DAY_S, Node};

/// A look may be this late before it is overdue: a daily run begins with what is due at its start.
pub const SLACK_S: u64 = DAY_S;
/// Copies that are counted at most. Each takes two look-ups by key.
const MOST: u64 = 1_000_000;

/// How many copies of a node are overdue for a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// This many were last looked at longer ago than the interval and [`SLACK_S`].
    Copies(u64),
    /// More than this many have been due for longer than [`SLACK_S`]. They were not counted.
    MoreThan(u64),
}

impl Overdue {
    /// The number, which may be a lower bound.
    #[must_use]
    pub fn at_least(self) -> u64 {
        match self {
            Self::Copies(number) | Self::MoreThan(number) => number,
        }
    }

    /// True if there are more than the number says.
    #[must_use]
    pub fn is_more(self) -> bool {
        matches!(self, Self::MoreThan(_))
    }
}

/// Counts the copies of a node that are overdue for a look at `now`, in seconds since 1970. None
/// are at a node whose copies are read: the ages of their verifications tell more. Copies that were
/// never looked at, are lost, wrong or couldn't be read are not counted: their state says enough.
///
/// # Errors
/// If the database can't be read.
pub fn overdue_looks(database: &mut dyn AuditDatabase, node: &Node, now: u64) -> Result<Overdue, DatabaseError> {
    if node.rules.method == Method::Stream {
        return Ok(Overdue::Copies(0));
    }
    let due_before = now.saturating_sub(SLACK_S);
    let looked_before = due_before.saturating_sub(node.rules.interval.as_secs());
    database.overdue_looks(node.id, looked_before, due_before, MOST)
}

/// Counts the copies of a node whose next look lies further ahead than their interval allows: a
/// wrong clock dated them. Verifications have dates of their own, so none are counted at a node
/// whose copies are read.
///
/// # Errors
/// If the database can't be read.
pub fn future_looks(database: &mut dyn AuditDatabase, node: &Node, now: u64) -> Result<u64, DatabaseError> {
    if node.rules.method == Method::Stream {
        return Ok(0);
    }
    let latest = now.saturating_add(node.rules.interval.as_secs()).saturating_add(SLACK_S);
    database.due_after(node.id, latest, MOST)
}
