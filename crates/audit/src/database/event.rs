//! Events: what happened to a copy, and when.

use std::time::Duration;

use crate::copy::{Dispute, Expected, FileId, Finding, Method, NodeId, State};

/// What happened to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// A check found this. [`State::Unverified`] stands for a first reading that recorded the
    /// digest.
    Checked(State),
    /// A check verified the copy by its second reading; the first one differed.
    VerifiedAfterDispute,
    /// What the copy should contain was replaced by an inventory.
    ExpectationReplaced,
    /// The copy was rewritten, from a copy that had been verified just before.
    Repaired,
    /// The copy was read for the repair of another one, and all of its bytes are right.
    SourceVerified,
    /// The copy was read for the repair of another one, and couldn't be used.
    SourceRejected,
    /// The copy couldn't be rewritten, or not as a whole.
    RepairFailed,
    /// The copy is no longer listed and checked. Nothing was done at the node.
    Removed,
    /// A check found that the copy exists, and no length was known to compare.
    LengthUnknown,
}

const AFTER_DISPUTE: u8 = 32;
const REPLACED: u8 = 33;
const REPAIRED: u8 = 34;
const SOURCE_VERIFIED: u8 = 35;
const SOURCE_REJECTED: u8 = 36;
const REPAIR_FAILED: u8 = 37;
const REMOVED: u8 = 38;
const LENGTH_UNKNOWN: u8 = 39;

impl EventKind {
    /// The kind of a check with this finding.
    #[must_use]
    pub fn of(finding: &Finding) -> Self {
        match finding {
            // The first reading verified it; only the node's statement differed.
            Finding::Verified { disputed: Some(Dispute::Stated { .. }) } => Self::Checked(State::Verified),
            Finding::Verified { disputed: Some(_) } => Self::VerifiedAfterDispute,
            Finding::LengthUnknown { .. } => Self::LengthUnknown,
            _ => Self::Checked(finding.state()),
        }
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Checked(state) => state.number(),
            Self::VerifiedAfterDispute => AFTER_DISPUTE,
            Self::ExpectationReplaced => REPLACED,
            Self::Repaired => REPAIRED,
            Self::SourceVerified => SOURCE_VERIFIED,
            Self::SourceRejected => SOURCE_REJECTED,
            Self::RepairFailed => REPAIR_FAILED,
            Self::Removed => REMOVED,
            Self::LengthUnknown => LENGTH_UNKNOWN,
        }
    }

    /// The kind of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            AFTER_DISPUTE => Some(Self::VerifiedAfterDispute),
            REPLACED => Some(Self::ExpectationReplaced),
            REPAIRED => Some(Self::Repaired),
            SOURCE_VERIFIED => Some(Self::SourceVerified),
            SOURCE_REJECTED => Some(Self::SourceRejected),
            REPAIR_FAILED => Some(Self::RepairFailed),
            REMOVED => Some(Self::Removed),
            LENGTH_UNKNOWN => Some(Self::LengthUnknown),
            _ => State::from_number(number).map(Self::Checked),
        }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Checked(State::Unverified) => "digest-recorded",
            Self::Checked(state) => state.name(),
            Self::VerifiedAfterDispute => "verified-by-second-reading",
            Self::ExpectationReplaced => "expectation-replaced",
            Self::Repaired => "repaired",
            Self::SourceVerified => "source-verified",
            Self::SourceRejected => "source-rejected",
            Self::RepairFailed => "repair-failed",
            Self::Removed => "removed",
            Self::LengthUnknown => "length-unknown",
        }
    }
}

/// Something that happened to a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number; later events have greater ones.
    pub event: u64,
    /// The node.
    pub node: NodeId,
    /// The file.
    pub file: FileId,
    /// When, in seconds since 1970.
    pub at: u64,
    /// What.
    pub kind: EventKind,
    /// By which method, for checks.
    pub method: Method,
    /// Bytes read by the first reading.
    pub bytes: u64,
    /// Time of the first reading.
    pub stream: Duration,
    /// What else is to be said: the bytes or digest found, or why the copy was unavailable.
    pub detail: String,
}

/// A copy that events are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The node.
    pub node: NodeId,
    /// The file's name.
    pub name: String,
    /// Where it is at the node.
    pub location: String,
    /// What it should contain now.
    pub expected: Expected,
}

/// The detail of an event with this finding of a check by `method`.
pub(super) fn detail(method: Method, finding: &Finding) -> String {
    match finding {
        Finding::Verified { disputed: Some(dispute) } => dispute.to_string(),
        Finding::Recorded { bytes, digest } => format!("{bytes} bytes, {digest:?}"),
        Finding::SizeMismatch { found } => format!("{found} bytes"),
        Finding::DigestMismatch { found } => format!("{found:?}"),
        Finding::Lost { why } => format!("the content is lost for good: {why}"),
        Finding::Unavailable(why) => why.to_string(),
        Finding::ProviderAttested { stated } => format!("{stated:?}"),
        Finding::LengthUnknown { stated } => format!("the node states {stated} bytes, and the file's length isn't known"),
        Finding::HeaderChecked if method == Method::Provider => "the node states no digest that can be compared".into(),
        Finding::Verified { disputed: None } | Finding::Missing | Finding::HeaderChecked => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_by_statement_tells_what_was_compared() {
        assert_eq!(detail(Method::Header, &Finding::HeaderChecked), "");
        assert_eq!(detail(Method::Provider, &Finding::HeaderChecked), "the node states no digest that can be compared");
        let stated = fulgurite_digest::Digest::new(fulgurite_digest::Algorithm::Md5, &[7; 16]).expect("16 bytes");
        let hex = format!("md5:{}", "07".repeat(16));
        assert_eq!(detail(Method::Provider, &Finding::ProviderAttested { stated: stated.clone() }), hex);
        // One reading verified the copy.
        let settled = Finding::Verified { disputed: Some(Dispute::Stated { stated }) };
        assert_eq!(EventKind::of(&settled), EventKind::Checked(State::Verified));
        assert!(detail(Method::Stream, &settled).contains(&hex));
    }

    #[test]
    fn kinds_keep_their_stored_numbers() {
        for number in 0..=u8::MAX {
            if let Some(kind) = EventKind::from_number(number) {
                assert_eq!(kind.number(), number, "{}", kind.name());
            }
        }
        // These numbers are in users' databases.
        let numbers = State::ALL.map(|state| EventKind::Checked(state).number());
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(
            [EventKind::VerifiedAfterDispute, EventKind::ExpectationReplaced, EventKind::Repaired].map(EventKind::number),
            [32, 33, 34]
        );
        assert_eq!([EventKind::SourceVerified, EventKind::SourceRejected, EventKind::RepairFailed].map(EventKind::number), [35, 36, 37]);
        assert_eq!([EventKind::Removed, EventKind::LengthUnknown].map(EventKind::number), [38, 39]);
    }
}
