//! What happens to a pipeline, and what it asks for.

use fulgurite_domain::Micros;
use serde::{Deserialize, Serialize};

use crate::layout::{SpoolId, StreamId};
use crate::lot::{Lot, LotId, SourceVolume};

/// Something that happened.
///
/// A stage that ends says what is left of the lot: files that failed are no longer part of it. The
/// inventory keeps them, and offers them again when they may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An earlier run left a lot in a spool volume, and it isn't read again. Comes before
    /// [`Begun`](Self::Begun).
    Found {
        /// The lot.
        lot: Lot,
        /// Where it is.
        spool: SpoolId,
    },
    /// The run begins.
    Begun,
    /// The inventory answers [`Command::Ask`] with a lot.
    Offered {
        /// The stream that asked.
        stream: StreamId,
        /// The lot.
        lot: Lot,
    },
    /// The inventory has no lot now for the stream that asked.
    NothingOffered {
        /// The stream that asked.
        stream: StreamId,
        /// When to ask again: files wait to be tried again, or their volume is in use. `None` if
        /// no file is left that this run could still migrate, apart from those in lots.
        #[serde(with = "optional_micros")]
        again_at: Option<Micros>,
    },
    /// A stream ended reading a lot into its spool.
    Read(Done),
    /// A stream ended writing a lot to the destination.
    Written(Done),
    /// A stream ended reading a lot back from the destination.
    Scanned(Done),
    /// An instant of [`Command::WakeAt`] has come.
    Woken,
    /// The operator pauses the migration: lots on their way arrive, and no others begin.
    Paused,
    /// The operator resumes it.
    Resumed,
    /// The run should end: as [`Paused`](Self::Paused), and it ends when nothing is on its way.
    Stopped,
}

/// A stage that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The stream.
    pub stream: StreamId,
    /// The lot.
    pub lot: LotId,
    /// Files of the lot that passed.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// The part of the time in which bytes moved; the rest is gaps between files.
    #[serde(with = "micros")]
    pub moving: Micros,
}

/// Something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Ask the inventory for a lot. It is answered with [`Event::Offered`] or
    /// [`Event::NothingOffered`].
    Ask {
        /// The input stream that wants it.
        stream: StreamId,
        /// The volume that the stream's drive has mounted; its lots come first.
        mounted: Option<SourceVolume>,
    },
    /// Read a lot from the source into a spool volume.
    Read {
        /// The input stream.
        stream: StreamId,
        /// The lot.
        lot: LotId,
        /// Where to put it.
        spool: SpoolId,
    },
    /// Write a lot from its spool volume to the destination.
    Write {
        /// The output stream.
        stream: StreamId,
        /// The lot.
        lot: LotId,
        /// Where it is.
        spool: SpoolId,
    },
    /// Read a lot back from the destination and compare it.
    Scan {
        /// The scan stream.
        stream: StreamId,
        /// The lot.
        lot: LotId,
    },
    /// Remove a lot from its spool volume.
    Release {
        /// The lot.
        lot: LotId,
        /// Where it is.
        spool: SpoolId,
    },
    /// The lot fits into no spool volume of the stream's station.
    Reject {
        /// The stream that has it.
        stream: StreamId,
        /// The lot.
        lot: LotId,
        /// Bytes of the largest volume.
        largest: u64,
    },
    /// Send [`Event::Woken`] at this instant.
    WakeAt(#[serde(with = "micros")] Micros),
    /// Nothing is on its way, and nothing will be: the run has ended.
    End,
}

/// Instants as numbers.
pub(crate) mod micros {
    use super::{Deserialize, Micros, Serialize};

    pub(crate) fn serialize<S: serde::Serializer>(micros: &Micros, serializer: S) -> Result<S::Ok, S::Error> {
        micros.0.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Micros, D::Error> {
        u64::deserialize(deserializer).map(Micros)
    }
}

/// Instants that may be missing, as numbers.
mod optional_micros {
    use super::{Deserialize, Micros, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(micros: &Option<Micros>, serializer: S) -> Result<S::Ok, S::Error> {
        micros.map(|micros| micros.0).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Micros>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Micros))
    }
}
