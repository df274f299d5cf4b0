//! Checks that every accepted request ends once, with a true outcome (I6): shards reported as read
//! were read by a drive after the request arrived; recovered ones from as many others of the set as
//! carry information; no platter is unavailable unless something has failed; and drives read all
//! tracks of a platter after its verification was requested.

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{Action, Command, Event, Platter, Region, RegionOutcome, RegionPlatter, RequestId, Shard, Tracks, Whereabouts};

use super::AnsweredCommand;

/// A violation of the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum WrongEnd {
    #[error("at {now}, request {} arrives again while it is open", .request.0)]
    Again { now: Micros, request: RequestId },
    #[error("at {now}, request {} ends as {outcome:?}, but it is not open", .request.0)]
    NotOpen { now: Micros, request: RequestId, outcome: RegionOutcome },
    #[error("at {now}, request {} ends as {outcome:?}, but for its shard {shard} {truth}", .request.0)]
    Untrue { now: Micros, request: RequestId, outcome: RegionOutcome, shard: usize, truth: &'static str },
    #[error("request {} arrived at {arrived} and has not ended at {now}", .request.0)]
    Never { now: Micros, request: RequestId, arrived: Micros },
    #[error("the region has {found} open requests, but {expected} are expected")]
    Count { found: usize, expected: usize },
}

#[derive(Debug, Clone)]
struct Open {
    arrived: Micros,
    shards: Vec<Shard>,
    /// For each shard, a bit for each platter of its set that was read since the request arrived.
    read: Vec<u64>,
    /// True if a shard names tracks that don't exist.
    refusable: bool,
}

/// An open request to verify a platter.
#[derive(Debug, Clone)]
struct OpenVerification {
    arrived: Micros,
    library: usize,
    platter: Platter,
    /// The last command before it; only later ones count.
    after: u64,
    /// Tracks read since, from the first on.
    verified: u32,
    refusable: bool,
}

/// Open requests and what was read for them.
#[derive(Debug, Clone, Default)]
pub struct EveryRequestEnds {
    open: BTreeMap<RequestId, Open>,
    verifications: BTreeMap<RequestId, OpenVerification>,
    /// The last command of each library.
    commands: Vec<u64>,
    /// The shards that wait for these tracks of a set.
    wanted: BTreeMap<(u32, Tracks), Vec<(RequestId, usize)>>,
    members: u32,
    information: u32,
    /// Whether a set in which fewer platters are written has fewer information platters.
    has_small_sets: bool,
    tracks: u32,
    /// The region-wide number of each platter, by library.
    names: Vec<Vec<Option<u32>>>,
    places: Vec<(usize, Platter)>,
    unwritten: Vec<bool>,
    /// True once anything failed or was declared unavailable.
    has_failed: bool,
    ended: u64,
}

impl EveryRequestEnds {
    /// For a region without input so far, with `tracks` tracks on a platter.
    pub fn new(region: &Region, tracks: u32) -> Self {
        let sets = region.sets();
        let mut names: Vec<Vec<Option<u32>>> =
            region.controllers().iter().map(|controller| vec![None; controller.panel().platter_count() as usize]).collect();
        let mut unwritten = Vec::with_capacity(sets.places.len());
        for (index, (library, platter)) in sets.places.iter().enumerate() {
            names[usize::from(library.0)][platter.0 as usize] = Some(index as u32);
            let panel = region.controllers()[usize::from(library.0)].panel();
            unwritten.push(panel.whereabouts(*platter) == Whereabouts::Unwritten);
        }
        let (members, information) = (sets.shape.platters().into(), sets.shape.information.into());
        let places = sets.places.iter().map(|(library, platter)| (usize::from(library.0), *platter)).collect();
        let has_small_sets = region.has_small_sets();
        let commands = vec![0; names.len()];
        Self { members, information, has_small_sets, tracks, commands, names, places, unwritten, ..Self::default() }
    }

    /// Checks one fact, and the command that it answers.
    ///
    /// # Errors
    /// [`WrongEnd`] names the request that breaks the rule.
    pub fn observe(&mut self, now: Micros, fact: &Fact, answered: Option<&AnsweredCommand>) -> Result<(), WrongEnd> {
        match fact {
            Fact::Requested { request, shards, .. } => self.requested(now, *request, shards),
            Fact::VerificationRequested { request, platter, .. } => self.verification_requested(now, *request, *platter),
            Fact::Commanded { library, command: Command::Do { id, .. } } => {
                self.commands[usize::from(library.0)] = id.number;
                Ok(())
            }
            Fact::Ended { request, outcome } => self.has_ended(now, *request, *outcome),
            Fact::Happened { library, event, .. } => {
                match event {
                    Event::PlatterUnavailable { .. } | Event::Failed { .. } | Event::Lost { .. } => self.has_failed = true,
                    Event::PlatterWritten { platter } => {
                        if let Some(name) = self.names[usize::from(library.0)][platter.0 as usize] {
                            self.unwritten[name as usize] = false;
                        }
                    }
                    _ => {}
                }
                let Some(AnsweredCommand { library, open, outcome }) = answered else { return Ok(()) };
                let library = usize::from(library.0);
                match (open.action, outcome) {
                    (Action::Read { platter, tracks, .. }, Event::Done { .. }) => self.was_read(library, platter, tracks),
                    (Action::Verify { platter, tracks }, Event::Done { .. }) => {
                        self.was_verified(library, platter, tracks, open.id.number);
                    }
                    (Action::Verify { platter, tracks }, Event::Interrupted { verified: count, .. }) => {
                        self.was_verified(library, platter, Tracks { count: *count, ..tracks }, open.id.number);
                    }
                    _ => {}
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn requested(&mut self, now: Micros, request: RequestId, shards: &[Shard]) -> Result<(), WrongEnd> {
        let is_there = |shard: &Shard| {
            let is_written = self.unwritten.get(shard.platter.0 as usize).is_some_and(|unwritten| !unwritten);
            is_written && shard.tracks.count > 0 && shard.tracks.end() <= self.tracks
        };
        let refusable = shards.is_empty() || !shards.iter().all(is_there);
        let open = Open { arrived: now, shards: shards.to_vec(), read: vec![0; shards.len()], refusable };
        if self.verifications.contains_key(&request) || self.open.insert(request, open).is_some() {
            return Err(WrongEnd::Again { now, request });
        }
        for (index, shard) in shards.iter().enumerate() {
            self.wanted.entry((shard.platter.0 / self.members, shard.tracks)).or_default().push((request, index));
        }
        Ok(())
    }

    fn verification_requested(&mut self, now: Micros, request: RequestId, platter: RegionPlatter) -> Result<(), WrongEnd> {
        let refusable = self.unwritten.get(platter.0 as usize).is_none_or(|unwritten| *unwritten);
        let (library, platter) = self.places.get(platter.0 as usize).copied().unwrap_or((0, Platter(u32::MAX)));
        let open = OpenVerification { arrived: now, library, platter, after: self.commands[library], verified: 0, refusable };
        if self.open.contains_key(&request) || self.verifications.insert(request, open).is_some() {
            return Err(WrongEnd::Again { now, request });
        }
        Ok(())
    }

    fn was_verified(&mut self, library: usize, platter: Platter, tracks: Tracks, command: u64) {
        let of_platter = self.verifications.values_mut().filter(|open| (open.library, open.platter) == (library, platter));
        for open in of_platter.filter(|open| open.after < command && tracks.first <= open.verified) {
            open.verified = open.verified.max(tracks.end());
        }
    }

    fn verification_has_ended(
        &self,
        now: Micros,
        request: RequestId,
        outcome: RegionOutcome,
        open: &OpenVerification,
    ) -> Result<(), WrongEnd> {
        let untrue = |truth| Err(WrongEnd::Untrue { now, request, outcome, shard: 0, truth });
        match outcome {
            RegionOutcome::Refused if !open.refusable => untrue("the platter exists"),
            RegionOutcome::Unavailable if !self.has_failed => untrue("nothing has failed"),
            RegionOutcome::Recovered => untrue("a platter can't be verified on others"),
            RegionOutcome::Read if open.verified < self.tracks => untrue("not all tracks were verified"),
            RegionOutcome::Read | RegionOutcome::Refused | RegionOutcome::Unavailable => Ok(()),
        }
    }

    fn was_read(&mut self, library: usize, platter: Platter, tracks: Tracks) {
        let Some(name) = self.names[library].get(platter.0 as usize).copied().flatten() else { return };
        let (set, position) = (name / self.members, name % self.members);
        for (request, shard) in self.wanted.get(&(set, tracks)).into_iter().flatten() {
            if let Some(open) = self.open.get_mut(request) {
                open.read[*shard] |= 1 << position;
            }
        }
    }

    fn has_ended(&mut self, now: Micros, request: RequestId, outcome: RegionOutcome) -> Result<(), WrongEnd> {
        if let Some(open) = self.verifications.remove(&request) {
            self.ended += 1;
            return self.verification_has_ended(now, request, outcome, &open);
        }
        let Some(open) = self.open.remove(&request) else { return Err(WrongEnd::NotOpen { now, request, outcome }) };
        self.ended += 1;
        for (index, shard) in open.shards.iter().enumerate() {
            let key = (shard.platter.0 / self.members, shard.tracks);
            if let Some(waiting) = self.wanted.get_mut(&key) {
                waiting.retain(|other| *other != (request, index));
                if waiting.is_empty() {
                    self.wanted.remove(&key);
                }
            }
        }
        let untrue = |shard, truth| Err(WrongEnd::Untrue { now, request, outcome, shard, truth });
        match outcome {
            RegionOutcome::Refused if !open.refusable => untrue(0, "the platter and its tracks exist"),
            RegionOutcome::Recovered | RegionOutcome::Unavailable if !self.has_failed => untrue(0, "nothing has failed"),
            RegionOutcome::Read | RegionOutcome::Recovered => {
                for (index, (shard, read)) in open.shards.iter().zip(&open.read).enumerate() {
                    let is_read = read & 1 << (shard.platter.0 % self.members) != 0;
                    if !is_read && outcome == RegionOutcome::Read {
                        return untrue(index, "the tracks were not read");
                    }
                    if !is_read && read.count_ones() < self.information_of(shard.platter) {
                        return untrue(index, "too few of the set were read");
                    }
                }
                Ok(())
            }
            RegionOutcome::Refused | RegionOutcome::Unavailable => Ok(()),
        }
    }

    /// The number of information platters of a platter's set.
    fn information_of(&self, platter: RegionPlatter) -> u32 {
        if !self.has_small_sets {
            return self.information;
        }
        let first = platter.0 / self.members * self.members;
        let members = self.unwritten.iter().skip(first as usize).take(self.members as usize);
        let written = members.filter(|unwritten| !**unwritten).count() as u32;
        written.saturating_sub(self.members - self.information).max(1)
    }

    /// Checks the requests that are left.
    ///
    /// # Errors
    /// [`WrongEnd::Never`] if a request is open though the run continued until all had ended;
    /// [`WrongEnd::Count`] if the region has another number of open requests.
    pub fn finish(&self, now: Micros, region: &Region, is_drained: bool) -> Result<(), WrongEnd> {
        let arrivals = self.open.iter().map(|(request, open)| (*request, open.arrived));
        let verifications = self.verifications.iter().map(|(request, open)| (*request, open.arrived));
        if let Some((request, arrived)) = arrivals.chain(verifications).next().filter(|_| is_drained) {
            return Err(WrongEnd::Never { now, request, arrived });
        }
        let (found, expected) = (region.open_requests(), self.open.len() + self.verifications.len());
        if found == expected { Ok(()) } else { Err(WrongEnd::Count { found, expected }) }
    }

    /// Requests that ended.
    pub fn ended(&self) -> u64 {
        self.ended
    }
}
