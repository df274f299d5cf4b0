//! The journal of a run: each event with the commands that followed, for replay.
//!
//! ```text
//! {"journal":1,"layout":{…}}
//! {"at":1764350000000000,"event":"Begun","commands":[{"Ask":{"stream":0,"mounted":null}}]}
//! ```
//!
//! A line is a JSON value. The last one may be cut, by a kill.

use std::io::{self, BufRead, Write};

use fulgurite_domain::Micros;
use serde::{Deserialize, Serialize};

use crate::event::{Command, Event};
use crate::layout::Layout;
use crate::pipeline::Pipeline;

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    journal: u32,
    layout: Layout,
}

#[derive(Serialize, Deserialize)]
struct Step {
    #[serde(with = "crate::event::micros")]
    at: Micros,
    event: Event,
    commands: Vec<Command>,
}

/// Writes a journal.
#[derive(Debug)]
pub struct JournalWriter<W: Write>(W);

impl<W: Write> JournalWriter<W> {
    /// Begins a journal.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn begin(mut out: W, layout: &Layout) -> io::Result<Self> {
        serde_json::to_writer(&mut out, &Header { journal: VERSION, layout: layout.clone() })?;
        out.write_all(b"\n")?;
        Ok(Self(out))
    }

    /// Adds a step.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn step(&mut self, at: Micros, event: &Event, commands: &[Command]) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, &Step { at, event: *event, commands: commands.to_vec() })?;
        self.0.write_all(b"\n")
    }

    /// What it is written to.
    pub fn into_inner(self) -> W {
        self.0
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A journal that was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replayed {
    /// Steps that gave the same commands.
    pub steps: u64,
    /// True if the run ended.
    pub has_ended: bool,
}

/// A journal could not be replayed, or gave other commands.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It can't be read.
    #[error("can't read the journal")]
    Read(#[from] io::Error),
    /// A line is malformed.
    #[error("line {line} of the journal is malformed")]
    Malformed {
        /// Its number.
        line: u64,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// Another program wrote it.
    #[error("the journal has version {0}; this program replays version {VERSION}")]
    Version(u32),
    /// The pipeline gave other commands.
    #[error("line {line} of the journal: the pipeline gave {found:?}, and the journal has {expected:?}")]
    Differs {
        /// The line.
        line: u64,
        /// The journal's commands.
        expected: Vec<Command>,
        /// The pipeline's.
        found: Vec<Command>,
    },
}

/// Hands the events of a journal to a new pipeline, and compares its commands with those in the
/// journal.
///
/// # Errors
/// [`ReplayError`].
///
/// # Panics
/// If an event can't follow the earlier ones: the journal was changed.
pub fn replay(mut journal: impl BufRead) -> Result<Replayed, ReplayError> {
    let mut text = String::new();
    journal.read_line(&mut text)?;
    let header: Header = serde_json::from_str(&text).map_err(|source| ReplayError::Malformed { line: 1, source })?;
    if header.journal != VERSION {
        return Err(ReplayError::Version(header.journal));
    }
    let (mut pipeline, mut found) = (Pipeline::new(&header.layout), Vec::new());
    for steps in 0.. {
        let line = steps + 2;
        text.clear();
        journal.read_line(&mut text)?;
        if !text.ends_with('\n') {
            return Ok(Replayed { steps, has_ended: pipeline.has_ended() });
        }
        let step: Step = serde_json::from_str(&text).map_err(|source| ReplayError::Malformed { line, source })?;
        found.clear();
        pipeline.step(step.at, step.event, &mut found);
        if found != step.commands {
            return Err(ReplayError::Differs { line, expected: step.commands, found });
        }
    }
    unreachable!("there are more numbers than lines")
}
