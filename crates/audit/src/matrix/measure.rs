//! One reading of a known file.

use std::time::{Duration, Instant};

use fulgurite_digest::{Digest, Digester};
use fulgurite_places::{Cause, Place, Refusal};

use crate::copy::Expected;
use crate::expectation::Outcome;
use crate::run::Stop;
use crate::series::Probe;
use crate::slowdown::Timing;

/// How long a signed URL is valid: longer than the deadlines of any place.
const VALID: Duration = Duration::from_secs(15 * 60);

/// What a reading found.
pub(super) struct Measured {
    pub(super) outcome: Outcome,
    /// What it says about the node's times, if anything.
    pub(super) timing: Option<Timing>,
    pub(super) bytes: u64,
    /// From the beginning of the connection to the last byte.
    pub(super) time: Duration,
    pub(super) detail: String,
}

/// Reads a file by a new connection, and compares it. `None` if the run was stopped meanwhile.
pub(super) fn measure(place: &dyn Place, probe: Probe, location: &str, expected: &Expected, stop: &Stop) -> Option<Measured> {
    let Some(strongest) = expected.digests.iter().map(Digest::algorithm).max() else {
        let why = "its digest isn't known any more, so nothing tells right bytes from wrong ones";
        return Some(refused(&Refusal::new(Cause::Unsupported, why), 0, Duration::ZERO));
    };
    let mut digester = Digester::new(&[strongest]);
    // A person's download begins when the URL is known.
    let url = match probe {
        Probe::Access => match signed(place, location) {
            Ok(url) => Some(url),
            Err(refusal) => return Some(refused(&refusal, 0, Duration::ZERO)),
        },
        Probe::Audit => None,
    };
    let begun = Instant::now();
    let mut sink = |piece: &[u8]| {
        digester.update(piece);
        !stop.is_stopped()
    };
    let passed = match &url {
        Some(url) => place.fetch_url(url, &mut sink),
        None => place.connect().and_then(|mut connection| connection.read(location, &mut sink)),
    };
    // In microseconds, as databases keep it: a detector sees what the records say.
    let time = Duration::from_micros(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    let bytes = digester.bytes();
    match passed {
        Err(refusal) if refusal.cause == Cause::Abandoned && stop.is_stopped() => None,
        Err(refusal) => Some(refused(&refusal, bytes, time)),
        // The digest covers what arrived here, whatever the place claims to have passed.
        Ok(passed) if passed != bytes => Some(refused(&Refusal::new(Cause::Cut { received: bytes, stated: passed }, ""), bytes, time)),
        Ok(_) => Some(compared(expected, &digester.finish(), bytes, time)),
    }
}

fn signed(place: &dyn Place, location: &str) -> Result<String, Refusal> {
    let url = place.connect()?.presigned_url(location, VALID)?;
    url.ok_or_else(|| Refusal::new(Cause::Unsupported, "it signs no URLs"))
}

fn refused(refusal: &Refusal, bytes: u64, time: Duration) -> Measured {
    let (outcome, timing) = match refusal.cause {
        Cause::Missing => (Outcome::WrongBytes, None),
        cause => (Outcome::Unanswered, cause.is_temporary().then_some(Timing::Unanswered)),
    };
    Measured { outcome, timing, bytes, time, detail: refusal.to_string() }
}

fn compared(expected: &Expected, found: &[Digest], bytes: u64, time: Duration) -> Measured {
    let wrong = |timing, detail| Measured { outcome: Outcome::WrongBytes, timing, bytes, time, detail };
    if let Some(known) = expected.bytes.filter(|known| *known != bytes) {
        return wrong(None, format!("{bytes} bytes instead of {known}"));
    }
    let differs = |found: &&Digest| expected.digests.iter().any(|known| known.algorithm() == found.algorithm() && known != *found);
    match found.iter().find(differs) {
        Some(found) => wrong(Some(Timing::Answered(time)), format!("other bytes, with {found:?}")),
        None => Measured { outcome: Outcome::Right(time), timing: Some(Timing::Answered(time)), bytes, time, detail: String::new() },
    }
}
