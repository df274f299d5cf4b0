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
use crate::pipeline::{Pipeline, Unfit};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    journal: u32,
    layout: Layout,
}

/// The version alone: another version may have another layout.
#[derive(Deserialize)]
struct Version {
    journal: u32,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When it was.
    #[serde(with = "crate::event::micros")]
    pub at: Micros,
    /// What happened.
    pub event: Event,
    /// What the pipeline commanded then.
    pub commands: Vec<Command>,
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

/// Reads a journal step by step, so that its length doesn't matter.
#[derive(Debug)]
pub struct JournalReader<R> {
    journal: R,
    layout: Layout,
    text: String,
    /// The number of the last line.
    line: u64,
    /// The instant of the last step.
    at: Micros,
    is_cut: bool,
}

impl<R: BufRead> JournalReader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn begin(mut journal: R) -> Result<Self, ReplayError> {
        let mut text = String::new();
        journal.read_line(&mut text)?;
        if !text.ends_with('\n') {
            return Err(ReplayError::NotBegun);
        }
        let malformed = |source| ReplayError::Malformed { line: 1, source };
        let Version { journal: version } = serde_json::from_str(&text).map_err(malformed)?;
        if version != VERSION {
            return Err(ReplayError::Version(version));
        }
        let Header { layout, .. } = serde_json::from_str(&text).map_err(malformed)?;
        if !layout.is_possible() {
            return Err(ReplayError::Layout);
        }
        Ok(Self { journal, layout, text, line: 1, at: Micros::ZERO, is_cut: false })
    }

    /// The layout of the run.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of the last line that was read, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// True if the last line was cut, and left out.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next step; `None` after the last one that is whole.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn next_step(&mut self) -> Result<Option<Step>, ReplayError> {
        self.text.clear();
        self.journal.read_line(&mut self.text)?;
        if !self.text.ends_with('\n') {
            self.is_cut = !self.text.is_empty();
            return Ok(None);
        }
        self.line += 1;
        let line = self.line;
        let step: Step = serde_json::from_str(&self.text).map_err(|source| ReplayError::Malformed { line, source })?;
        if step.at < self.at {
            return Err(ReplayError::Backwards { line });
        }
        self.at = step.at;
        Ok(Some(step))
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
    /// It has no whole line.
    #[error("the journal is empty, or cut in its first line: the run was killed before it moved a file")]
    NotBegun,
    /// Nothing could pass its stations, or they are too many.
    #[error("the journal's layout is impossible: each station needs an input, an output and a spool volume")]
    Layout,
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
    #[error("the journal has version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// An instant is earlier than the one before.
    #[error("line {line} of the journal: time goes back, so the journal was changed")]
    Backwards {
        /// The line.
        line: u64,
    },
    /// An event can't follow the earlier ones.
    #[error("line {line} of the journal doesn't follow from the lines before, so the journal was changed")]
    Unfit {
        /// The line.
        line: u64,
        /// Why.
        #[source]
        source: Unfit,
    },
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
pub fn replay(journal: impl BufRead) -> Result<Replayed, ReplayError> {
    let mut reader = JournalReader::begin(journal)?;
    let (mut pipeline, mut found, mut steps) = (Pipeline::new(reader.layout()), Vec::new(), 0);
    while let Some(step) = reader.next_step()? {
        let line = reader.line();
        found.clear();
        pipeline.try_step(step.at, step.event, &mut found).map_err(|source| ReplayError::Unfit { line, source })?;
        if found != step.commands {
            return Err(ReplayError::Differs { line, expected: step.commands, found });
        }
        steps += 1;
    }
    Ok(Replayed { steps, has_ended: pipeline.has_ended() })
}

#[cfg(test)]
mod tests;
