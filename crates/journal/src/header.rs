//! The header of a journal: the lines before the first fact.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;

use crate::digest::RunningDigest;
use crate::error::EXCERPT_CHARS_MAX;
use crate::read::Lines;
use crate::words::number;
use crate::{Detail, JournalError};

const FIRST_LINE: &str = "fulgurite journal 1";
/// More lines than any scenario has: a larger number is damage, and reported as such.
const SCENARIO_LINES_MAX: u64 = 100_000;

/// Identifies the run of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Version of the program that wrote it, on one line.
    pub program: String,
    /// How the journal records outputs.
    pub detail: Detail,
    /// The seed of the run.
    pub seed: u64,
    /// The complete scenario as TOML; each line ends with `\n`.
    pub scenario: String,
}

impl Header {
    /// A header that names this version of the program.
    #[must_use]
    pub fn new(scenario: String, seed: u64, detail: Detail) -> Self {
        Self { program: env!("CARGO_PKG_VERSION").to_owned(), detail, seed, scenario }
    }

    pub(crate) fn write(&self, out: &mut impl Write, digest: &mut RunningDigest) -> io::Result<()> {
        let scenario: Vec<&str> = self.scenario.lines().collect();
        let detail = match self.detail {
            Detail::Commands => "detail commands".into(),
            Detail::Digests(every) => format!("detail digests {every}"),
        };
        let (program, seed) = (format!("program {}", self.program), format!("seed {}", self.seed));
        let lines = [FIRST_LINE.into(), program, detail, seed, format!("scenario {}", scenario.len())];
        let scenario = scenario.into_iter().map(|line| if line.is_empty() { "|".into() } else { format!("| {line}") });
        for line in lines.into_iter().chain(scenario) {
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
        let expected = "`scenario` and how many lines it has, at most 100,000";
        let count = number::<u64>(lines.after("scenario ", expected)?).filter(|count| *count <= SCENARIO_LINES_MAX);
        let count = count.ok_or_else(|| lines.unexpected(expected))?;
        let mut scenario = String::new();
        for _ in 0..count {
            let line = lines.next("the scenario")?;
            let text = if line == "|" { Some("") } else { line.strip_prefix("| ") };
            let Some(text) = text else { return Err(lines.unexpected("a line of the scenario after `|`")) };
            scenario.push_str(text);
            scenario.push('\n');
        }
        if lines.next_checked("`begin`")? != "begin" {
            return Err(lines.unexpected("`begin`"));
        }
        Ok(Self { program, detail, seed, scenario })
    }
}
