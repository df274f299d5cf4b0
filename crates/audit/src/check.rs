//! The check of one copy.
//!
//! A copy is declared lost or wrong only after three steps, because a false alarm costs as much
//! trust as a miss:
//!
//! ```text
//! 1  read            right ---------------------------------------> verified
//!      |             refused (timeout, 500, cut, 403 ...) --------> unavailable
//!    wrong, missing or lost
//!      |
//! 2  read again by   right ---------------------------------------> verified, with the dispute
//!    a fresh         refused, or a third result ------------------> unavailable
//!    connection
//!      | the same
//! 3  check up to     all wrong, missing or refused --------------> unavailable
//!    3 witnesses
//!      | one is right
//!    size-mismatch, digest-mismatch or missing
//! ```
//!
//! By the method `provider`, the node is first asked what it states, and only a statement that
//! contradicts the expected digest leads to step 1: it may be the statement that is wrong.
//!
//! A witness is a copy that this node has shown before. An unmounted disk, a login page that
//! answers every request, or a bucket of the same name elsewhere fail it. Where copies are only
//! looked at, a witness is too: reading it could cost a restore. A file without bytes is no
//! witness: a server that answers everything with nothing would show it.
//!
//! A place that says that content is lost needs no witness. Only archives do, after they recognized
//! all their stores by their marks and found their catalogue to be current; if nothing is left on
//! them, there is no witness either.

use std::time::{Duration, Instant};

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_places::{Cause, Connection, Place, Refusal, Statement};

use crate::copy::{Dispute, Expected, Finding, Method, State, Unavailability};

/// The algorithm for files of which no digest is known.
const RECORDED_WITH: Algorithm = Algorithm::Sha256;
/// Witnesses that are tried before a node is considered not to be itself.
const WITNESSES_TRIED: usize = 3;
/// No node has a file of this name; a place that states one answers every request alike.
pub const NO_FILE: &str = "fulgurite-audit-asks-for-a-file-that-does-not-exist";

/// A copy that a node has shown: proof that answers come from the right place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Where it is at the node.
    pub location: String,
    /// What it contains.
    pub expected: Expected,
    /// What the last check of it found. A copy that couldn't be read stays a witness: if the whole
    /// node is another one now, none can be read.
    pub state: State,
    /// How copies of its node are checked.
    pub method: Method,
}

impl Witness {
    /// True if an answer without bytes would show it.
    fn is_empty(&self) -> bool {
        self.expected.bytes == Some(0)
    }

    /// Puts the best witnesses first: those that were right at last, then those that couldn't be
    /// read; small ones before large ones, and empty ones last, as they prove nothing.
    pub(crate) fn sort(witnesses: &mut [Self]) {
        witnesses.sort_by_key(|witness| {
            let trouble = match witness.state {
                State::Verified | State::HeaderChecked | State::ProviderAttested => 0,
                State::Unverified | State::Unavailable => 1,
                State::SizeMismatch | State::DigestMismatch | State::Missing => 2,
            };
            let bytes = witness.expected.bytes;
            (trouble, bytes == Some(0), bytes.unwrap_or(u64::MAX))
        });
    }
}

/// Limits how fast a check reads, and ends it early.
pub trait Throttle {
    /// Called for each piece that arrives; may block. Returns false to end the reading.
    fn arrived(&mut self, bytes: u64) -> bool;

    /// How long `arrived` has blocked since the last call of this method. It isn't counted as the
    /// node's time.
    fn waited(&mut self) -> Duration {
        Duration::ZERO
    }
}

/// Reads as fast as the place allows, to the end.
impl Throttle for () {
    fn arrived(&mut self, _bytes: u64) -> bool {
        true
    }
}

/// A finding, with how long it took.
#[derive(Debug, Clone)]
pub struct Check {
    /// What was found.
    pub finding: Finding,
    /// How it was found. A check by [`Method::Provider`] that had to read the copy was one by
    /// [`Method::Stream`], and its times are those of a reading.
    pub method: Method,
    /// Bytes of the first reading.
    pub bytes: u64,
    /// Time of the first reading: open, read and digest. A second reading isn't included, so that
    /// times of all checks can be compared.
    pub stream: Duration,
}

/// Checks copies of one node by one connection, which it opens when needed.
pub struct Checker<'a> {
    place: &'a dyn Place,
    connection: Option<Box<dyn Connection>>,
    /// Compares all known digests instead of the strongest.
    all_digests: bool,
}

/// One reading of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reading {
    Missing,
    Lost { why: String },
    Content { bytes: u64, digests: Vec<Digest> },
}

impl<'a> Checker<'a> {
    /// Checks copies at `place`. With `all_digests`, every digest that is known of a file is
    /// compared, otherwise only the strongest.
    #[must_use]
    pub fn new(place: &'a dyn Place, all_digests: bool) -> Self {
        Self { place, connection: None, all_digests }
    }

    /// Checks one copy. `witnesses` are called for only if the copy looks lost or wrong.
    pub fn check(
        &mut self,
        method: Method,
        location: &str,
        expected: &Expected,
        witnesses: &mut dyn FnMut() -> Vec<Witness>,
        throttle: &mut dyn Throttle,
    ) -> Check {
        if method == Method::Stream {
            return self.check_bytes(location, expected, witnesses, throttle);
        }
        let started = Instant::now();
        let finding = match self.check_statement(method, location, expected, witnesses) {
            Ok(Looked::Found(finding)) => finding,
            Ok(Looked::Contradicted(stated)) => {
                let mut check = self.check_bytes(location, expected, witnesses, throttle);
                note_statement(&mut check.finding, stated);
                return check;
            }
            Err(why) => Finding::Unavailable(why),
        };
        Check { finding, method, bytes: 0, stream: started.elapsed() }
    }

    /// Steps 1 to 3.
    fn check_bytes(
        &mut self,
        location: &str,
        expected: &Expected,
        witnesses: &mut dyn FnMut() -> Vec<Witness>,
        throttle: &mut dyn Throttle,
    ) -> Check {
        let (started, method) = (Instant::now(), Method::Stream);
        let algorithms = self.algorithms(expected);
        let first = match self.connected().and_then(|connection| read(connection, location, &algorithms, throttle)) {
            Ok(reading) => reading,
            Err((refusal, bytes)) => {
                // The next copy gets a new connection: this one may be half closed.
                self.connection = None;
                let stream = started.elapsed().saturating_sub(throttle.waited());
                return Check { finding: Finding::Unavailable(refusal.into()), method, bytes, stream };
            }
        };
        let stream = started.elapsed().saturating_sub(throttle.waited());
        let bytes = match &first {
            Reading::Missing | Reading::Lost { .. } => 0,
            Reading::Content { bytes, .. } => *bytes,
        };
        let finding = match dispute(&first, expected) {
            None => self.agreed(&first, expected),
            Some(dispute) => self.confirm(location, expected, &first, dispute, witnesses, throttle).unwrap_or_else(Finding::Unavailable),
        };
        Check { finding, method, bytes, stream }
    }

    /// Steps 2 and 3: a reading that found something wrong is repeated by a fresh connection, and
    /// the node has to show a witness.
    fn confirm(
        &mut self,
        location: &str,
        expected: &Expected,
        first: &Reading,
        first_dispute: Dispute,
        witnesses: &mut dyn FnMut() -> Vec<Witness>,
        throttle: &mut dyn Throttle,
    ) -> Result<Finding, Unavailability> {
        self.connection = None;
        let algorithms = self.algorithms(expected);
        let connection = self.connected().map_err(|(refusal, _)| refusal)?;
        let stated = absent_as_none(connection.length(location))?;
        let second = read(connection, location, &algorithms, throttle).map_err(|(refusal, _)| refusal)?;
        let Some(second_dispute) = dispute(&second, expected) else {
            return Ok(Finding::Verified { disputed: Some(first_dispute) });
        };
        if second != *first {
            return Err(Unavailability::ReadingsDiffer { first: first_dispute, second: describe(&second) });
        }
        let read_bytes = match &second {
            Reading::Missing => None,
            // The file is known still, only its content is lost.
            Reading::Lost { .. } => stated,
            Reading::Content { bytes, .. } => Some(*bytes),
        };
        if stated != read_bytes {
            let second = stated.map_or_else(|| "the node states no such file".into(), |bytes| format!("the node states {bytes} bytes"));
            return Err(Unavailability::ReadingsDiffer { first: first_dispute, second });
        }
        if !matches!(second_dispute, Dispute::Lost { .. }) {
            self.require_witness(location, &second_dispute, witnesses)?;
        }
        Ok(match second_dispute {
            Dispute::Missing => Finding::Missing,
            Dispute::Lost { why } => Finding::Lost { why },
            Dispute::Size { found } => Finding::SizeMismatch { found },
            Dispute::Digest { found } => Finding::DigestMismatch { found },
            Dispute::Stated { .. } => unreachable!("a reading disputes no statement"),
        })
    }

    /// Compares what the node states about a copy, without reading its bytes.
    fn check_statement(
        &mut self,
        method: Method,
        location: &str,
        expected: &Expected,
        witnesses: &mut dyn FnMut() -> Vec<Witness>,
    ) -> Result<Looked, Unavailability> {
        let is_right = |bytes: u64| expected.bytes.is_none_or(|known| known == bytes);
        let first = match self.ask(method, location)? {
            Some(statement) if is_right(statement.bytes) => return Ok(judged(statement, expected)),
            wrong => wrong.map(|statement| statement.bytes),
        };
        self.connection = None;
        let second = match self.ask(method, location)? {
            Some(statement) if is_right(statement.bytes) => return Ok(judged(statement, expected)),
            wrong => wrong.map(|statement| statement.bytes),
        };
        let dispute = first.map_or(Dispute::Missing, |found| Dispute::Size { found });
        if second != first {
            let second = second.map_or_else(|| "no such file".into(), |bytes| format!("{bytes} bytes"));
            return Err(Unavailability::ReadingsDiffer { first: dispute, second });
        }
        self.require_witness(location, &dispute, witnesses)?;
        Ok(Looked::Found(second.map_or(Finding::Missing, |found| Finding::SizeMismatch { found })))
    }

    fn ask(&mut self, method: Method, location: &str) -> Result<Option<Statement>, Unavailability> {
        let stated = self.statement(method, location);
        if stated.is_err() {
            self.connection = None;
        }
        Ok(stated?)
    }

    /// Asks the node what it states about a file; `None` if it states that there is none.
    fn statement(&mut self, method: Method, location: &str) -> Result<Option<Statement>, Refusal> {
        let connection = self.connected().map_err(|(refusal, _)| refusal)?;
        absent_as_none(match method {
            Method::Header => connection.length(location).map(|bytes| Statement { bytes, digests: Vec::new() }),
            Method::Provider | Method::Stream => connection.stated(location),
        })
    }

    /// Fails unless the node shows another copy that it had before. If it never had one, it only
    /// needs to answer as the right place could.
    fn require_witness(
        &mut self,
        location: &str,
        dispute: &Dispute,
        witnesses: &mut dyn FnMut() -> Vec<Witness>,
    ) -> Result<(), Unavailability> {
        let looks = looks(dispute);
        let candidates: Vec<Witness> =
            witnesses().into_iter().filter(|witness| witness.location != location && !witness.is_empty()).collect();
        if candidates.is_empty() {
            let answered = match dispute {
                Dispute::Missing | Dispute::Lost { .. } => self.require_any_file(&looks),
                Dispute::Size { .. } | Dispute::Digest { .. } | Dispute::Stated { .. } => self.require_no_such_file(&looks),
            };
            return answered.map_err(|refusal| Unavailability::Unproven { looks, refusal }).and_then(|answered| answered);
        }
        for witness in candidates.iter().take(WITNESSES_TRIED) {
            match self.is_shown(witness) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // The next witness gets a new connection: this one may be half closed.
                Err(_) => self.connection = None,
            }
        }
        Err(Unavailability::WitnessesGone { looks })
    }

    /// Checks a witness in the way in which its node's copies are checked.
    fn is_shown(&mut self, witness: &Witness) -> Result<bool, Refusal> {
        let (location, expected) = (&witness.location, &witness.expected);
        if witness.method == Method::Stream {
            let algorithms = self.algorithms(expected);
            let connection = self.connected().map_err(|(refusal, _)| refusal)?;
            let reading = read(connection, location, &algorithms, &mut ()).map_err(|(refusal, _)| refusal)?;
            return Ok(dispute(&reading, expected).is_none());
        }
        let statement = self.statement(witness.method, location)?;
        // A length that isn't known proves nothing.
        Ok(statement.is_some_and(|statement| {
            expected.bytes == Some(statement.bytes) && !matches!(judged(statement, expected), Looked::Contradicted(_))
        }))
    }

    fn require_any_file(&mut self, looks: &str) -> Result<Result<(), Unavailability>, Refusal> {
        let mut found = false;
        let connection = self.connected().map_err(|(refusal, _)| refusal)?;
        connection.list(&mut |_| {
            found = true;
            false
        })?;
        Ok(if found { Ok(()) } else { Err(Unavailability::PlaceEmpty { looks: looks.to_owned() }) })
    }

    fn require_no_such_file(&mut self, looks: &str) -> Result<Result<(), Unavailability>, Refusal> {
        let stated = self.statement(Method::Header, NO_FILE)?;
        Ok(if stated.is_none() { Ok(()) } else { Err(Unavailability::AnswersAlike { looks: looks.to_owned() }) })
    }

    /// The finding of a reading that nothing speaks against.
    fn agreed(&self, reading: &Reading, expected: &Expected) -> Finding {
        match reading {
            Reading::Content { bytes, digests } if expected.digests.is_empty() => match digests.first() {
                Some(digest) => Finding::Recorded { bytes: *bytes, digest: digest.clone() },
                None => unreachable!("a reading computes at least one digest"),
            },
            _ => Finding::Verified { disputed: None },
        }
    }

    fn algorithms(&self, expected: &Expected) -> Vec<Algorithm> {
        let known = expected.digests.iter().map(Digest::algorithm);
        if self.all_digests { known.collect() } else { known.max().into_iter().collect() }
    }

    fn connected(&mut self) -> Result<&mut dyn Connection, (Refusal, u64)> {
        if self.connection.is_none() {
            self.connection = Some(self.place.connect().map_err(|refusal| (refusal, 0))?);
        }
        match &mut self.connection {
            Some(connection) => Ok(&mut **connection),
            None => unreachable!("it was opened above"),
        }
    }
}

/// What a look at a copy came to.
enum Looked {
    Found(Finding),
    /// The node states another digest than the expected one.
    Contradicted(Digest),
}

/// What a statement with the right length says about a copy.
fn judged(statement: Statement, expected: &Expected) -> Looked {
    let mut attested = None;
    for stated in statement.digests {
        match expected.digests.iter().find(|known| known.algorithm() == stated.digest.algorithm()) {
            Some(known) if *known == stated.digest => attested = attested.max(Some(stated.digest)),
            // One contradiction is enough, whatever else agrees: a reading settles it.
            Some(_) if stated.is_certain => return Looked::Contradicted(stated.digest),
            _ => {}
        }
    }
    Looked::Found(match (attested, expected.bytes) {
        (Some(stated), _) => Finding::ProviderAttested { stated },
        (None, Some(_)) => Finding::HeaderChecked,
        // An empty or truncated copy would look the same.
        (None, None) => Finding::LengthUnknown { stated: statement.bytes },
    })
}

/// Adds to the finding of a reading that the node states another digest than the expected one.
fn note_statement(finding: &mut Finding, stated: Digest) {
    let dispute = Dispute::Stated { stated };
    match finding {
        Finding::Verified { disputed: disputed @ None } => *disputed = Some(dispute),
        Finding::Unavailable(Unavailability::Refused(refusal)) => {
            let separator = if refusal.detail.is_empty() { "" } else { "; " };
            refusal.detail += &format!("{separator}{dispute}");
        }
        _ => {}
    }
}

/// Reads a copy. A refusal comes with the bytes that had arrived.
fn read(
    connection: &mut dyn Connection,
    location: &str,
    algorithms: &[Algorithm],
    throttle: &mut dyn Throttle,
) -> Result<Reading, (Refusal, u64)> {
    let recorded_with = [RECORDED_WITH];
    let mut digester = Digester::new(if algorithms.is_empty() { &recorded_with } else { algorithms });
    let passed = connection.read(location, &mut |piece| {
        digester.update(piece);
        throttle.arrived(piece.len() as u64)
    });
    match passed {
        // The digest covers what arrived here, whatever the place claims to have passed.
        Ok(passed) if passed != digester.bytes() => {
            Err((Refusal::new(Cause::Cut { received: digester.bytes(), stated: passed }, ""), digester.bytes()))
        }
        Ok(_) => Ok(Reading::Content { bytes: digester.bytes(), digests: digester.finish() }),
        Err(Refusal { cause: Cause::Missing, .. }) => Ok(Reading::Missing),
        Err(Refusal { cause: Cause::Lost, detail }) => Ok(Reading::Lost { why: detail }),
        Err(refusal) => Err((refusal, digester.bytes())),
    }
}

/// What speaks against a reading; `None` if it is as expected. Lengths are compared first: a digest
/// of a part of the content says nothing.
fn dispute(reading: &Reading, expected: &Expected) -> Option<Dispute> {
    let (bytes, digests) = match reading {
        Reading::Missing => return Some(Dispute::Missing),
        Reading::Lost { why } => return Some(Dispute::Lost { why: why.clone() }),
        Reading::Content { bytes, digests } => (bytes, digests),
    };
    if expected.bytes.is_some_and(|known| known != *bytes) {
        return Some(Dispute::Size { found: *bytes });
    }
    let differs = |found: &&Digest| expected.digests.iter().any(|known| known.algorithm() == found.algorithm() && known != *found);
    digests.iter().rev().find(differs).map(|found| Dispute::Digest { found: found.clone() })
}

fn describe(reading: &Reading) -> String {
    match reading {
        Reading::Missing => "no such file".into(),
        Reading::Lost { why } => format!("the content is lost: {why}"),
        Reading::Content { bytes, digests } => Expected { bytes: Some(*bytes), digests: digests.clone() }.to_string(),
    }
}

/// What a copy looks like that two readings dispute.
fn looks(dispute: &Dispute) -> String {
    match dispute {
        Dispute::Missing => "missing".into(),
        Dispute::Lost { why } => format!("lost ({why})"),
        Dispute::Size { found: 1 } => "wrong, with 1 byte".into(),
        Dispute::Size { found } => format!("wrong, with {found} bytes"),
        Dispute::Digest { found } | Dispute::Stated { stated: found } => format!("wrong, with {found:?}"),
    }
}

fn absent_as_none<T>(stated: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
    match stated {
        Ok(stated) => Ok(Some(stated)),
        Err(Refusal { cause: Cause::Missing, .. }) => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

#[cfg(test)]
mod tests;
