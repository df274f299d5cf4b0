//! Parses exactly the lines that [`Fact`]'s `Display` writes: of several spellings of a fact, only
//! that one is accepted.

use std::str::Split;

use fulgurite_domain::Micros;
use fulgurite_library::{
    Action, Actor, Bay, Berth, Command, CommandId, Drive, Event, Fault, Library, Platter, Position, ReadRequest, RegionPlatter, RequestId,
    Shard, Shuttle, Slot, Tracks,
};

use crate::Fact;
use crate::fact::{OUTCOMES, REGION_OUTCOMES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unexpected<'a> {
    /// The word; empty at the end of the line.
    pub(crate) found: &'a str,
    pub(crate) expected: &'static str,
}

struct Words<'a>(Split<'a, char>);

/// Reads a line without its check.
pub(crate) fn parse(line: &str) -> Result<Fact, Unexpected<'_>> {
    let mut words = Words(line.split(' '));
    let fact = words.fact()?;
    words.end()?;
    Ok(fact)
}

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        self.0.next().unwrap_or("")
    }

    fn end(&mut self) -> Result<(), Unexpected<'a>> {
        match self.0.next() {
            None => Ok(()),
            Some(found) => Err(Unexpected { found, expected: "nothing more on this line" }),
        }
    }

    /// The next word, parsed by `read`.
    fn word<T>(&mut self, expected: &'static str, read: impl FnOnce(&'a str) -> Option<T>) -> Result<T, Unexpected<'a>> {
        let found = self.next();
        read(found).ok_or(Unexpected { found, expected })
    }

    fn fact(&mut self) -> Result<Fact, Unexpected<'a>> {
        let expected = "an instant, `>`, `=` or `.`";
        match self.next() {
            ">" => self.output(),
            "=" => {
                let count = self.word("how many facts", number)?;
                Ok(Fact::Digest { count, digest: self.word("a digest of 16 digits", |word| hexadecimal(word, 16))? })
            }
            "." => Ok(Fact::End { inputs: self.word("how many inputs", number)?, now: Micros(self.word("an instant", number)?) }),
            word => self.input(Micros(number(word).ok_or(Unexpected { found: word, expected })?)),
        }
    }

    fn input(&mut self, now: Micros) -> Result<Fact, Unexpected<'a>> {
        enum Of {
            Request(RequestId),
            Library(Library),
        }
        let of = |word| request(word).map(Of::Request).or_else(|| library(word).map(Of::Library));
        match self.word("a request or a library", of)? {
            Of::Library(library) => Ok(Fact::Happened { now, library, event: self.event()? }),
            Of::Request(request) => {
                let deadline = match self.asked()? {
                    Asked::By(deadline) => deadline,
                    Asked::Sooner(deadline) => return Ok(Fact::Hastened { now, request, deadline }),
                    Asked::Verify => return Ok(Fact::VerificationRequested { now, request, platter: RegionPlatter(self.platter()?.0) }),
                };
                let mut shards = Vec::new();
                for found in self.0.by_ref() {
                    let (platter, tracks) = part(found).ok_or(Unexpected { found, expected: "a shard, such as P5:0+3" })?;
                    shards.push(Shard { platter: RegionPlatter(platter.0), tracks });
                }
                Ok(Fact::Requested { now, request, deadline, shards })
            }
        }
    }

    /// What a request asks for, with the deadline if it has one.
    fn asked(&mut self) -> Result<Asked, Unexpected<'a>> {
        type WithDeadline = fn(Micros) -> Asked;
        let words: [(&str, Option<WithDeadline>); 3] = [("by", Some(Asked::By)), ("sooner", Some(Asked::Sooner)), ("verify", None)];
        let Some(asked) = self.word("`by`, `sooner` or `verify`", |word| one_of(&words, word))? else { return Ok(Asked::Verify) };
        // The greatest number is written as `never`.
        let instant = |word| if word == "never" { Some(Micros::NEVER) } else { number(word).map(Micros).filter(|at| *at != Micros::NEVER) };
        self.word("an instant or `never`", instant).map(asked)
    }

    fn event(&mut self) -> Result<Event, Unexpected<'a>> {
        Ok(match self.next() {
            "asked" => {
                let id = self.request()?;
                match self.asked()? {
                    Asked::By(deadline) => {
                        let (platter, tracks) = self.part()?;
                        Event::ReadRequested(ReadRequest { id, platter, tracks, deadline })
                    }
                    Asked::Sooner(deadline) => Event::ReadHastened { request: id, platter: self.platter()?, deadline },
                    Asked::Verify => Event::VerificationRequested { request: id, platter: self.platter()? },
                }
            }
            "written" => Event::PlatterWritten { platter: self.platter()? },
            "done" => Event::Done { command: self.id()? },
            "interrupted" => Event::Interrupted { command: self.id()?, verified: self.word("how many tracks", number)? },
            "failed" => Event::Failed { command: self.id()?, fault: self.fault()? },
            "lost" => Event::Lost { actor: self.actor()?, fault: self.fault()? },
            "repaired" => Event::Repaired { actor: self.actor()? },
            "unavailable" => Event::PlatterUnavailable { platter: self.platter()? },
            "available" => Event::PlatterAvailable { platter: self.platter()? },
            "low" => Event::ChargeLow { shuttle: self.word(SHUTTLE, shuttle)? },
            "woken" => Event::Woken,
            found => return Err(Unexpected { found, expected: "an event, such as `done`" }),
        })
    }

    fn output(&mut self) -> Result<Fact, Unexpected<'a>> {
        let found = self.next();
        if let Some(request) = request(found) {
            return Ok(Fact::Ended { request, outcome: self.word("how the request ended", |word| one_of(&REGION_OUTCOMES, word))? });
        }
        let library = library(found).ok_or(Unexpected { found, expected: "a request or a library" })?;
        let found = self.next();
        let command = if found == "finish" {
            Command::Finish { request: self.request()?, outcome: self.word("how the read ended", |word| one_of(&OUTCOMES, word))? }
        } else {
            let id = id(found).ok_or(Unexpected { found, expected: "a command, such as S3#89, or `finish`" })?;
            Command::Do { id, action: self.action()? }
        };
        Ok(Fact::Commanded { library, command })
    }

    fn action(&mut self) -> Result<Action, Unexpected<'a>> {
        Ok(match self.next() {
            "move" => Action::Move { to: self.word("a position, such as 4@1200000", position)? },
            "pick" => Action::Pick { platter: self.platter()?, from: self.word(BERTH, berth)? },
            "place" => Action::Place { platter: self.platter()?, to: self.word(BERTH, berth)? },
            "charge" => Action::Charge,
            "mount" => Action::Mount { platter: self.platter()?, bay: self.bay()? },
            "unmount" => Action::Unmount { platter: self.platter()?, bay: self.bay()? },
            "switch" => Action::Switch { to: self.bay()? },
            "read" => {
                let (platter, tracks) = self.part()?;
                let adjacent = self.word("`adjacent` or `seek`", |word| one_of(&[("adjacent", true), ("seek", false)], word))?;
                Action::Read { platter, tracks, adjacent, request: self.request()? }
            }
            "verify" => {
                let (platter, tracks) = self.part()?;
                Action::Verify { platter, tracks }
            }
            found => return Err(Unexpected { found, expected: "an action, such as `move`" }),
        })
    }

    fn fault(&mut self) -> Result<Fault, Unexpected<'a>> {
        Ok(match self.next() {
            "stopped" => Fault::Stopped { x_um: self.word(MICROMETRES, signed)? },
            "collided" => Fault::Collided { with: self.word(SHUTTLE, shuttle)?, x_um: self.word(MICROMETRES, signed)? },
            "down" => Fault::DriveDown,
            found => return Err(Unexpected { found, expected: "`stopped`, `collided` or `down`" }),
        })
    }

    fn request(&mut self) -> Result<RequestId, Unexpected<'a>> {
        self.word("a request, such as R17", request)
    }

    fn platter(&mut self) -> Result<Platter, Unexpected<'a>> {
        self.word("a platter, such as P45", platter)
    }

    fn part(&mut self) -> Result<(Platter, Tracks), Unexpected<'a>> {
        self.word("tracks of a platter, such as P45:0+3", part)
    }

    fn actor(&mut self) -> Result<Actor, Unexpected<'a>> {
        self.word("a shuttle or a drive, such as S3 or D4", actor)
    }

    fn id(&mut self) -> Result<CommandId, Unexpected<'a>> {
        self.word("a command, such as S3#89", id)
    }

    fn bay(&mut self) -> Result<Bay, Unexpected<'a>> {
        self.word("a bay", |word| number(word).map(Bay))
    }
}

const SHUTTLE: &str = "a shuttle, such as S3";
const BERTH: &str = "a berth, such as slot17, D4.1 or port";
const MICROMETRES: &str = "a place in micrometres";

/// What a request asks for.
enum Asked {
    /// Tracks, by a deadline.
    By(Micros),
    /// An earlier deadline for what was requested.
    Sooner(Micros),
    /// The verification of a platter.
    Verify,
}

/// A decimal number without leading zeros.
pub(crate) fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    is_plain.then(|| word.parse().ok()).flatten()
}

/// A hexadecimal number of exactly this many digits, in lower case.
pub(crate) fn hexadecimal(word: &str, digits: usize) -> Option<u64> {
    let is_plain = word.len() == digits && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_plain.then(|| u64::from_str_radix(word, 16).ok()).flatten()
}

fn signed(word: &str) -> Option<i64> {
    match word.strip_prefix('-') {
        Some(digits) => digits.bytes().next().filter(|first| (b'1'..=b'9').contains(first)).and_then(|_| word.parse().ok()),
        None => number(word),
    }
}

fn numbered<T: std::str::FromStr>(word: &str, letters: &str) -> Option<T> {
    number(word.strip_prefix(letters)?)
}

fn library(word: &str) -> Option<Library> {
    numbered(word, "L").map(Library)
}

fn request(word: &str) -> Option<RequestId> {
    numbered(word, "R").map(RequestId)
}

pub(crate) fn platter(word: &str) -> Option<Platter> {
    numbered(word, "P").map(Platter)
}

pub(crate) fn shuttle(word: &str) -> Option<Shuttle> {
    numbered(word, "S").map(Shuttle)
}

pub(crate) fn actor(word: &str) -> Option<Actor> {
    shuttle(word).map(Actor::Shuttle).or_else(|| numbered(word, "D").map(Drive).map(Actor::Drive))
}

fn id(word: &str) -> Option<CommandId> {
    let (actor_word, digits) = word.split_once('#')?;
    Some(CommandId { actor: actor(actor_word)?, number: number(digits)? })
}

fn part(word: &str) -> Option<(Platter, Tracks)> {
    let (of, tracks) = word.split_once(':')?;
    let (first, count) = tracks.split_once('+')?;
    Some((platter(of)?, Tracks { first: number(first)?, count: number(count)? }))
}

pub(crate) fn position(word: &str) -> Option<Position> {
    let (shelf, x_um) = word.split_once('@')?;
    Some(Position { shelf: number(shelf)?, x_um: signed(x_um)? })
}

pub(crate) fn berth(word: &str) -> Option<Berth> {
    if word == "port" {
        return Some(Berth::Port);
    }
    if let Some(slot) = numbered(word, "slot") {
        return Some(Berth::Slot(Slot(slot)));
    }
    let (drive, bay) = word.strip_prefix('D')?.split_once('.')?;
    Some(Berth::Bay(Drive(number(drive)?), Bay(number(bay)?)))
}

fn one_of<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, meaning)| *meaning)
}
