//! Copies, their states, and what a check can find.
//!
//! A copy is a file at a node. Its state is what the last check found; the date at which its bytes
//! were last read and found right is kept apart, and only a reading of all bytes changes it.

use std::fmt;

use fulgurite_digest::Digest;
use fulgurite_places::Refusal;

/// A node of an audit, as its database numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// A file of an audit, as its database numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// What the last check of a copy found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Never read since it became known, or since its expected digest changed.
    Unverified,
    /// All bytes were read, and the digest is the expected one.
    Verified,
    /// It has another length than expected, by two readings and the length that the node states.
    SizeMismatch,
    /// It has the expected length and another digest, by two readings.
    DigestMismatch,
    /// The node states that it does not exist, or that its content is lost for good, while it shows
    /// other copies.
    Missing,
    /// It couldn't be read, so nothing is known about it.
    Unavailable,
    /// It exists and has the expected length, by what the node states. Its bytes were not read.
    HeaderChecked,
    /// The node states the expected digest. Its bytes were not read by the audit.
    ProviderAttested,
}

impl State {
    /// All states, in the order of their stored numbers.
    pub const ALL: [Self; 8] = [
        Self::Unverified,
        Self::Verified,
        Self::SizeMismatch,
        Self::DigestMismatch,
        Self::Missing,
        Self::Unavailable,
        Self::HeaderChecked,
        Self::ProviderAttested,
    ];

    /// Its name in reports, metrics and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Verified => "verified",
            Self::SizeMismatch => "size-mismatch",
            Self::DigestMismatch => "digest-mismatch",
            Self::Missing => "missing",
            Self::Unavailable => "unavailable",
            Self::HeaderChecked => "header-checked",
            Self::ProviderAttested => "provider-attested",
        }
    }

    /// True if the copy is known to be lost or wrong.
    #[must_use]
    pub fn is_bad(self) -> bool {
        matches!(self, Self::SizeMismatch | Self::DigestMismatch | Self::Missing)
    }

    /// True if the last check found the copy where it should be, and nothing wrong.
    #[must_use]
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Verified | Self::HeaderChecked | Self::ProviderAttested)
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The state of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How copies of a node are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Reads all bytes and computes their digest.
    Stream,
    /// Compares the digest that the provider states, where it states one of a known algorithm.
    Provider,
    /// Compares the length that the node states.
    Header,
}

impl Method {
    /// All methods, in the order of their stored numbers.
    pub const ALL: [Self; 3] = [Self::Stream, Self::Provider, Self::Header];

    /// Its name in settings and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Provider => "provider",
            Self::Header => "header",
        }
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The method of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of a file's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expected {
    /// Its length, if known.
    pub bytes: Option<u64>,
    /// Its digests, at most one for each algorithm, in the order of
    /// [`Algorithm`](fulgurite_digest::Algorithm). Empty if none is known.
    pub digests: Vec<Digest>,
}

impl Expected {
    /// True if no content can be as both say.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        let is_other = |new: &Digest| self.digests.iter().any(|old| old.algorithm() == new.algorithm() && old != new);
        self.bytes.zip(other.bytes).is_some_and(|(old, new)| old != new) || other.digests.iter().any(is_other)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            Some(1) => f.write_str("1 byte")?,
            Some(bytes) => write!(f, "{bytes} bytes")?,
            None => f.write_str("an unknown length")?,
        }
        if self.digests.is_empty() {
            f.write_str(", no digest")?;
        }
        self.digests.iter().try_for_each(|digest| write!(f, ", {digest:?}"))
    }
}

/// What a check found.
#[derive(Debug, Clone)]
pub enum Finding {
    /// All bytes were read, and they are the expected ones.
    Verified {
        /// What an earlier reading or request in the same check got instead, if it differed.
        disputed: Option<Dispute>,
    },
    /// All bytes were read twice with the same result, or once where nothing was suspicious, but no
    /// digest is known to compare them with.
    Recorded {
        /// Bytes read.
        bytes: u64,
        /// The digest that will be expected from now on.
        digest: Digest,
    },
    /// The length differs, by two readings and by what the node states.
    SizeMismatch {
        /// Bytes found.
        found: u64,
    },
    /// The digest differs, by two readings.
    DigestMismatch {
        /// The digest found.
        found: Digest,
    },
    /// The file doesn't exist, by two requests.
    Missing,
    /// The node states by two readings that the content is lost for good.
    Lost {
        /// What it says about that.
        why: String,
    },
    /// Nothing is known about the copy.
    Unavailable(Unavailability),
    /// The node states the expected length.
    HeaderChecked,
    /// The node states a length, and neither a length nor a digest is known to compare with what it
    /// states.
    LengthUnknown {
        /// The length that the node states.
        stated: u64,
    },
    /// The node states the expected length and an expected digest.
    ProviderAttested {
        /// The digest that the node states.
        stated: Digest,
    },
}

impl Finding {
    /// The state of a copy with this finding.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Verified { .. } => State::Verified,
            // There was nothing to verify against. The next check compares with the digest.
            Self::Recorded { .. } | Self::LengthUnknown { .. } => State::Unverified,
            Self::SizeMismatch { .. } => State::SizeMismatch,
            Self::DigestMismatch { .. } => State::DigestMismatch,
            Self::Missing | Self::Lost { .. } => State::Missing,
            Self::Unavailable(_) => State::Unavailable,
            Self::HeaderChecked => State::HeaderChecked,
            Self::ProviderAttested { .. } => State::ProviderAttested,
        }
    }
}

/// What an earlier reading or request got that a later reading didn't confirm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Dispute {
    /// The node stated that the file does not exist.
    #[error("the first request was answered as if the file did not exist")]
    Missing,
    /// The node stated that the content is lost for good.
    #[error("the first reading was answered as if the content were lost: {why}")]
    Lost {
        /// What it said about that.
        why: String,
    },
    /// Another number of bytes.
    #[error("the first reading got {found} bytes")]
    Size {
        /// Bytes of the first reading.
        found: u64,
    },
    /// Another digest, stated by the node. All bytes were then read, and were right.
    #[error("the node states {stated:?}, which is not the expected digest")]
    Stated {
        /// The digest that the node states.
        stated: Digest,
    },
    /// Other bytes.
    #[error("the first reading got other bytes, with {found:?}")]
    Digest {
        /// The digest of the first reading.
        found: Digest,
    },
}

/// Why nothing is known about a copy.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unavailability {
    /// The place refused, or didn't answer.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// Two readings of the copy contradict each other, so neither proves anything.
    #[error("two readings differ: {first}; the second: {second}")]
    ReadingsDiffer {
        /// The first reading.
        first: Dispute,
        /// The second reading, or the length that the node states.
        second: String,
    },
    /// The copy looks lost or wrong, but none of the copies that this node had before can be shown.
    #[error(
        "the copy looks {looks}, but none of the copies tried that were here before can be shown now: \
         is this still the right disk, bucket or server?"
    )]
    WitnessesGone {
        /// What the copy looks like.
        looks: String,
    },
    /// The copy looks missing, and the place has no file at all.
    #[error("the copy looks {looks}, but the place is empty: is it mounted, and is it the right one?")]
    PlaceEmpty {
        /// What the copy looks like.
        looks: String,
    },
    /// The copy looks wrong, and the place also states a file that can't exist.
    #[error("the copy looks {looks}, but the place answers as if any file existed: is it a login page?")]
    AnswersAlike {
        /// What the copy looks like.
        looks: String,
    },
    /// The copy looks lost or wrong. The node has shown no other copy so far, and refused the
    /// request that would tell whether it is the right place.
    #[error("the copy looks {looks}, but the node has shown no other copy yet, and refused to tell more: {refusal}")]
    Unproven {
        /// What the copy looks like.
        looks: String,
        /// The refusal.
        refusal: Refusal,
    },
}
