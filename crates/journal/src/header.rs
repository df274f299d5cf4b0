//! The header of a journal: the lines before the first fact.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;

use crate::digest::RunningDigest;
use crate::error::EXCERPT_CHARS_MAX;
use crate::read::Lines;
use crate::words::number;
use crate::{Detail, JournalError};

const FIRST_LINE: &str = "fulgurite journal 1";
/// More lines than any description has: a larger number is damage, and reported as such.
const LINES_MAX: u64 = 10_000_000;

/// What a journal is of, and so what its description is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A simulated run: the description is the complete scenario as TOML.
    Scenario,
    /// A live library: the description says where its platters and shuttles were when it started,
    /// and its settings.
    Library,
}

impl Subject {
    const ALL: [Self; 2] = [Self::Scenario, Self::Library];

    fn word(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Library => "library",
        }
    }
}

/// Identifies the run of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Version of the program that wrote it, on one line.
    pub program: String,
    /// How the journal records outputs.
    pub detail: Detail,
    /// The seed of the run.
    pub seed: u64,
    /// What the journal is of.
    pub subject: Subject,
    /// The subject's description, from which a replay builds the region; each line ends with `\n`.
    pub description: String,
}

impl Header {
    /// A header that names this version of the program.
    #[must_use]
    pub fn new(subject: Subject, description: String, seed: u64, detail: Detail) -> Self {
        Self { program: env!("CARGO_PKG_VERSION").to_owned(), detail, seed, subject, description }
    }

    pub(crate) fn write(&self, out: &mut impl Write, digest: &mut RunningDigest) -> io::Result<()> {
        let description: Vec<&str> = self.description.lines().collect();
        let detail = match self.detail {
            Detail::Commands => "detail commands".into(),
            Detail::Digests(every) => format!("detail digests {every}"),
        };
        let (program, seed) = (format!("program {}", self.program), format!("seed {}", self.seed));
        let lines = [FIRST_LINE.into(), program, detail, seed, format!("{} {}", self.subject.word(), description.len())];
        let description = description.into_iter().map(|line| if line.is_empty() { "|".into() } else { format!("| {line}") });
        for line in lines.into_iter().chain(description) {
            digest.add(&line);
            writeln!(out, "{line}")?;
        }
        digest.add("begin");
        writeln!(out, "begin ~{:08x}", digest.checksum())
    }

    pub(crate) fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Self, JournalError> {
        if lines.next("a header")? != FIRST_LINE {
            return Err(JournalError::NoJournal { found: lines.text().chars().take(EXCERPT_CHARS_MAX).collect() });
        }
        let program = lines.after("program ", "`program` and a version")?.to_owned();
        let expected = "`detail commands`, or `detail digests` and for how many facts each";
        let every = |word: &str| number(word.strip_prefix("digests ")?).and_then(NonZeroU64::new);
        let detail = match lines.after("detail ", expected)? {
            "commands" => Detail::Commands,
            word => Detail::Digests(every(word).ok_or_else(|| lines.unexpected(expected))?),
        };
        let seed = lines.after("seed ", "`seed` and a number")?;
        let seed = number(seed).ok_or_else(|| lines.unexpected("`seed` and a number"))?;
        let expected = "`scenario` or `library` and how many lines its description has";
        let words = lines.next(expected)?.split_once(' ');
        let subject = words.and_then(|(word, _)| Subject::ALL.into_iter().find(|subject| subject.word() == word));
        let count = words.and_then(|(_, count)| number::<u64>(count)).filter(|count| *count <= LINES_MAX);
        let (Some(subject), Some(count)) = (subject, count) else { return Err(lines.unexpected(expected)) };
        let mut description = String::new();
        for _ in 0..count {
            let line = lines.next("the description")?;
            let text = if line == "|" { Some("") } else { line.strip_prefix("| ") };
            let Some(text) = text else { return Err(lines.unexpected("a line of the description after `|`")) };
            description.push_str(text);
            description.push('\n');
        }
        if lines.next_checked("`begin`")? != "begin" {
            return Err(lines.unexpected("`begin`"));
        }
        Ok(Self { program, detail, seed, subject, description })
    }
}
