//! Queues of read requests. Requests are listed per platter; platters with requests wait in one
//! line per *lane*, the half of a shelf that they are in. What is due first comes first, and among
//! equals what arrived first: its [`Rank`].
//!
//! ```text
//! lane 0: platter 17 -> platter 4 -> platter 230        lane 1: platter 9 -> ...
//!            |             |
//!         request 1     request 2
//!         request 5
//! ```
//!
//! A platter joins its line when its first request arrives. If all requests have the same time
//! until they are due, it joins at the end: lists linked through the platters make joining, leaving
//! and taking the first request constant-time. Three cases take longer: a more urgent request
//! searches for its place; so does a platter that returns to its slot or whose fetch was cancelled;
//! and reading by track sorts the platter's requests, and searches them for the next most urgent.

use fulgurite_domain::Micros;

use crate::{Platter, ReadRequest, RequestId, Tracks};

/// Requests for a platter that arrive and are due within this time of each other are read in order
/// of their tracks.
const BATCH: Micros = Micros(60_000_000);

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Half of a shelf: `2 * shelf` for the left one, `2 * shelf + 1` for the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u16);

/// The place of a request in the order of service: by due time, then by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// When its last byte is due; [`Micros::NEVER`] if there is no deadline.
    pub deadline: Micros,
    /// When it arrived.
    pub arrived: Micros,
}

impl Rank {
    /// The time that it had until its deadline when it arrived.
    fn allowance(self) -> Option<Micros> {
        (self.deadline != Micros::NEVER).then(|| self.deadline.since(self.arrived))
    }

    /// Whether another request arrived and is due at nearly the same time.
    fn is_near(self, other: Self) -> bool {
        let is_near = |one: Micros, two: Micros| one.since(two) <= BATCH && two.since(one) <= BATCH;
        is_near(self.arrived, other.arrived) && is_near(self.deadline, other.deadline)
    }
}

/// A waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingRequest {
    /// Its identifier.
    pub id: RequestId,
    /// The requested tracks.
    pub tracks: Tracks,
    /// Its place in the order of service.
    pub rank: Rank,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    request: WaitingRequest,
    next: u32,
}

/// The requests for a platter, as a linked list of nodes, and its place in a lane's line.
#[derive(Debug, Clone, Copy)]
struct PlatterQueue {
    /// The list has three parts: `urgent` requests in order of ranks, which came after the next
    /// part was sorted and are more urgent; `sorted` ones in the order in which the drive's head
    /// passes them; and the rest in order of ranks. The first part exists only while the second
    /// does.
    first: u32,
    last: u32,
    tracks: u32,
    requests: u32,
    urgent: u32,
    sorted: u32,
    /// The rank of the most urgent one when the second part was sorted.
    sorted_rank: Option<Rank>,
    /// The rank of the most urgent request.
    most_urgent: Option<Rank>,
    lane: Option<Lane>,
    /// The platters before and after this one in the lane's line.
    previous: u32,
    following: u32,
}

impl PlatterQueue {
    /// A platter without requests.
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        tracks: 0,
        requests: 0,
        urgent: 0,
        sorted: 0,
        sorted_rank: None,
        most_urgent: None,
        lane: None,
        previous: NONE,
        following: NONE,
    };
}

#[derive(Debug, Clone, Copy)]
struct Line {
    first: u32,
    last: u32,
    platters: u32,
    tracks: u64,
}

/// All waiting requests, by platter, and all platters waiting to be fetched, by lane.
#[derive(Debug, Clone)]
pub struct Queue {
    nodes: Vec<Node>,
    free: u32,
    platter_queues: Vec<PlatterQueue>,
    lines: Vec<Line>,
    platters: u32,
    requests: u64,
    /// The longest time until its deadline that any request has had.
    longest: Micros,
    /// From this many tracks on, reading a platter takes long.
    long_tracks: u32,
    /// The platters in lines that take long to read.
    long_reads: Vec<Platter>,
}

impl Queue {
    /// Creates empty queues for this number of platters and lanes. A platter with `long_tracks` or
    /// more requested tracks takes long to read.
    #[must_use]
    pub fn new(platters: usize, lanes: usize, long_tracks: u32) -> Self {
        let line = Line { first: NONE, last: NONE, platters: 0, tracks: 0 };
        Self {
            nodes: Vec::new(),
            free: NONE,
            platter_queues: vec![PlatterQueue::EMPTY; platters],
            lines: vec![line; lanes],
            platters: 0,
            requests: 0,
            longest: Micros::ZERO,
            long_tracks,
            long_reads: Vec::new(),
        }
    }

    pub(crate) fn add_platter(&mut self) {
        self.platter_queues.push(PlatterQueue::EMPTY);
    }

    /// All waiting requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Platters in the lines of all lanes.
    #[must_use]
    pub fn platters(&self) -> u32 {
        self.platters
    }

    /// The platters in lines that take long to read.
    #[must_use]
    pub fn long_reads(&self) -> &[Platter] {
        &self.long_reads
    }

    /// Platters in a lane's line.
    #[must_use]
    pub fn platters_in(&self, lane: Lane) -> u32 {
        self.lines[usize::from(lane.0)].platters
    }

    /// Tracks requested from the platters in a lane's line.
    #[must_use]
    pub fn tracks_in(&self, lane: Lane) -> u64 {
        self.lines[usize::from(lane.0)].tracks
    }

    /// The platters of a lane's line, most urgent request first.
    pub fn line(&self, lane: Lane) -> impl Iterator<Item = Platter> + '_ {
        let mut next = self.lines[usize::from(lane.0)].first;
        std::iter::from_fn(move || {
            let platter = (next != NONE).then_some(Platter(next))?;
            next = self.platter_queues[next as usize].following;
            Some(platter)
        })
    }

    /// The rank of the most urgent request for a platter.
    #[must_use]
    pub fn rank(&self, platter: Platter) -> Option<Rank> {
        self.platter_queues[platter.0 as usize].most_urgent
    }

    /// Finds the most urgent request for a platter; none can be more urgent than `least`.
    fn find_most_urgent(&self, platter: Platter, least: Rank) -> Option<Rank> {
        let platter_queue = &self.platter_queues[platter.0 as usize];
        // The first of the third part may be more urgent than what is left of the second.
        let parts = if platter_queue.urgent > 0 { 1 } else { platter_queue.sorted + 1 };
        let mut most_urgent = None;
        for (_, request) in self.waiting(platter).take(parts as usize) {
            most_urgent = Some(most_urgent.map_or(request.rank, |most: Rank| most.min(request.rank)));
            // Requests that arrive together have the same rank.
            if request.rank == least {
                break;
            }
        }
        most_urgent
    }

    /// How long the most urgent request for a platter counts as having waited: since it arrived,
    /// and its head start. Zero if there is none.
    #[must_use]
    pub fn age(&self, platter: Platter, now: Micros) -> Micros {
        self.rank(platter).map_or(Micros::ZERO, |rank| now.since(rank.arrived) + self.head_start_of(rank))
    }

    /// By how much less time the most urgent request for a platter had until its deadline, on
    /// arrival, than the longest that any request has had. Zero without a deadline.
    #[must_use]
    pub fn head_start(&self, platter: Platter) -> Micros {
        self.rank(platter).map_or(Micros::ZERO, |rank| self.head_start_of(rank))
    }

    fn head_start_of(&self, rank: Rank) -> Micros {
        rank.allowance().map_or(Micros::ZERO, |allowance| self.longest.since(allowance))
    }

    fn waiting(&self, platter: Platter) -> impl Iterator<Item = (u32, WaitingRequest)> + '_ {
        let mut next = self.platter_queues[platter.0 as usize].first;
        std::iter::from_fn(move || {
            let index = (next != NONE).then_some(next)?;
            let node = self.nodes[index as usize];
            next = node.next;
            Some((index, node.request))
        })
    }

    /// Requests waiting for a platter.
    #[must_use]
    pub fn requests_for(&self, platter: Platter) -> u32 {
        self.platter_queues[platter.0 as usize].requests
    }

    /// Tracks requested from a platter.
    #[must_use]
    pub fn tracks_for(&self, platter: Platter) -> u32 {
        self.platter_queues[platter.0 as usize].tracks
    }

    /// The lane whose line a platter is in.
    #[must_use]
    pub fn lane_of(&self, platter: Platter) -> Option<Lane> {
        self.platter_queues[platter.0 as usize].lane
    }

    /// Adds a request. A platter in a line moves forward if that makes it more urgent.
    pub(crate) fn push(&mut self, now: Micros, request: &ReadRequest) {
        let rank = Rank { deadline: request.deadline, arrived: now };
        self.add(request.platter, WaitingRequest { id: request.id, tracks: request.tracks, rank });
    }

    /// Gives a waiting request an earlier deadline. Does nothing if it isn't waiting for this
    /// platter, or is due by then already.
    pub(crate) fn hasten(&mut self, platter: Platter, id: RequestId, deadline: Micros) {
        let Some((place, (index, request))) = self.waiting(platter).enumerate().find(|(_, (_, request))| request.id == id) else { return };
        if deadline >= request.rank.deadline {
            return;
        }
        let lane = self.lane_of(platter);
        self.remove_platter(platter);
        self.unlink(platter, place as u32, index);
        self.add(platter, WaitingRequest { rank: Rank { deadline, ..request.rank }, ..request });
        if let Some(lane) = lane {
            self.enqueue_platter(platter, lane);
        }
    }

    fn add(&mut self, platter: Platter, request: WaitingRequest) {
        let WaitingRequest { tracks, rank, .. } = request;
        self.longest = self.longest.max(rank.allowance().unwrap_or(Micros::ZERO));
        let lane = self.lane_of(platter);
        let first = self.rank(platter);
        let is_first = first.is_none_or(|first| rank < first);
        let moves = lane.filter(|_| is_first);
        if moves.is_some() {
            self.remove_platter(platter);
        }
        self.insert(platter, request);
        self.platter_queues[platter.0 as usize].most_urgent = Some(first.map_or(rank, |first| first.min(rank)));
        match (moves, lane) {
            (Some(lane), _) => self.enqueue_platter(platter, lane),
            (None, Some(lane)) => {
                self.lines[usize::from(lane.0)].tracks += u64::from(tracks.count);
                let all = self.tracks_for(platter);
                let was_long = all - tracks.count.min(all) >= self.long_tracks;
                if !was_long && all >= self.long_tracks {
                    self.long_reads.push(platter);
                }
            }
            (None, None) => {}
        }
    }

    /// Inserts a request into its platter's list.
    fn insert(&mut self, platter: Platter, request: WaitingRequest) {
        let (before, is_urgent) = self.place(platter, request.rank);
        let next = match before {
            NONE => self.platter_queues[platter.0 as usize].first,
            before => self.nodes[before as usize].next,
        };
        let node = Node { request, next };
        let index = if self.free == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let index = self.free;
            self.free = self.nodes[index as usize].next;
            self.nodes[index as usize] = node;
            index
        };
        let platter_queue = &mut self.platter_queues[platter.0 as usize];
        match before {
            NONE => platter_queue.first = index,
            before => self.nodes[before as usize].next = index,
        }
        if next == NONE {
            platter_queue.last = index;
        }
        platter_queue.urgent += u32::from(is_urgent);
        platter_queue.tracks = platter_queue.tracks.saturating_add(request.tracks.count);
        platter_queue.requests += 1;
        self.requests += 1;
    }

    /// The node after which a request of this rank is inserted ([`NONE`]: at the front), and
    /// whether that is in the first part.
    fn place(&self, platter: Platter, rank: Rank) -> (u32, bool) {
        let platter_queue = &self.platter_queues[platter.0 as usize];
        let is_urgent = platter_queue.sorted > 0 && platter_queue.sorted_rank.is_some_and(|sorted| rank < sorted);
        let (from, until) = match is_urgent {
            true => (0, platter_queue.urgent),
            false => (platter_queue.urgent + platter_queue.sorted, platter_queue.requests),
        };
        // Requests usually come in order of ranks.
        if until == platter_queue.requests && until > 0 && (from == until || self.nodes[platter_queue.last as usize].request.rank <= rank) {
            return (platter_queue.last, is_urgent);
        }
        let mut before = NONE;
        for (place, (index, request)) in (0..until).zip(self.waiting(platter)) {
            if place >= from && request.rank > rank {
                break;
            }
            before = index;
        }
        (before, is_urgent)
    }

    /// Takes the next request for a platter: the most urgent, or, with `at`, the first one that a
    /// head passes going up from that track.
    pub(crate) fn pop(&mut self, platter: Platter, at: Option<u32>) -> Option<WaitingRequest> {
        if let Some(track) = at
            && self.platter_queues[platter.0 as usize].sorted == 0
        {
            self.sort(platter, track);
        }
        let index = self.platter_queues[platter.0 as usize].first;
        if index == NONE {
            return None;
        }
        let request = self.nodes[index as usize].request;
        self.unlink(platter, 0, index);
        if let Some(lane) = self.lane_of(platter) {
            let line = &mut self.lines[usize::from(lane.0)];
            line.tracks = line.tracks.saturating_sub(u64::from(request.tracks.count));
        }
        Some(request)
    }

    /// Removes the request at position `place` of a platter's list; `index` is its node.
    fn unlink(&mut self, platter: Platter, place: u32, index: u32) {
        let Node { request, next } = self.nodes[index as usize];
        let previous = (place > 0).then(|| self.waiting(platter).nth(place as usize - 1)).flatten().map_or(NONE, |(previous, _)| previous);
        let platter_queue = &mut self.platter_queues[platter.0 as usize];
        match previous {
            NONE => platter_queue.first = next,
            previous => self.nodes[previous as usize].next = next,
        }
        if next == NONE {
            platter_queue.last = previous;
        }
        if place < platter_queue.urgent {
            platter_queue.urgent -= 1;
        } else if place < platter_queue.urgent + platter_queue.sorted {
            platter_queue.sorted -= 1;
        }
        if platter_queue.sorted == 0 {
            // What was urgent is in order with the rest.
            platter_queue.urgent = 0;
        }
        // A saturated sum would go wrong here, but no library has 2^32 tracks waiting on one
        // platter.
        platter_queue.tracks = platter_queue.tracks.saturating_sub(request.tracks.count);
        platter_queue.requests -= 1;
        self.requests -= 1;
        let was_most_urgent = platter_queue.most_urgent == Some(request.rank);
        self.nodes[index as usize].next = self.free;
        self.free = index;
        if was_most_urgent {
            self.platter_queues[platter.0 as usize].most_urgent = self.find_most_urgent(platter, request.rank);
        }
    }

    /// Sorts the requests at the front that arrived and are due within [`BATCH`] of the first;
    /// later calls take from the front. The head goes up from where it is, then starts again from
    /// the first track as often as needed; a request that it could only read by going back waits
    /// for the next pass. The others keep their order, so none waits much longer than it would by
    /// rank.
    fn sort(&mut self, platter: Platter, track: u32) {
        let Some((_, first)) = self.waiting(platter).next() else { return };
        let is_near = |(_, request): &(u32, WaitingRequest)| request.rank.is_near(first.rank);
        let mut remaining: Vec<(Tracks, u32)> =
            self.waiting(platter).take_while(is_near).map(|(index, request)| (request.tracks, index)).collect();
        let sorted = remaining.len() as u32;
        let rest = self.waiting(platter).nth(remaining.len()).map_or(NONE, |(index, _)| index);
        // The sort is stable: equal tracks stay in order of ranks.
        remaining.sort_by_key(|(tracks, _)| tracks.first);
        let mut order = Vec::with_capacity(remaining.len());
        let mut head = track;
        while !remaining.is_empty() {
            remaining.retain(|(tracks, index)| {
                let is_passed = tracks.first >= head;
                if is_passed {
                    head = tracks.end();
                    order.push(*index);
                }
                !is_passed
            });
            head = 0;
        }
        let mut next = rest;
        for index in order.iter().rev() {
            self.nodes[*index as usize].next = next;
            next = *index;
        }
        let platter_queue = &mut self.platter_queues[platter.0 as usize];
        platter_queue.first = next;
        if rest == NONE {
            platter_queue.last = order.last().copied().unwrap_or(NONE);
        }
        (platter_queue.urgent, platter_queue.sorted, platter_queue.sorted_rank) = (0, sorted, Some(first.rank));
    }

    /// Inserts a platter with requests into a lane's line, by its rank. Does nothing if it is there
    /// already or has no requests.
    pub(crate) fn enqueue_platter(&mut self, platter: Platter, lane: Lane) {
        let index = platter.0;
        let Some(rank) = self.rank(platter) else { return };
        if self.platter_queues[index as usize].lane == Some(lane) {
            return;
        }
        self.remove_platter(platter);
        let mut previous = self.lines[usize::from(lane.0)].last;
        while previous != NONE && self.rank(Platter(previous)).is_some_and(|other| other > rank) {
            previous = self.platter_queues[previous as usize].previous;
        }
        let line = &mut self.lines[usize::from(lane.0)];
        let following = if previous == NONE { line.first } else { self.platter_queues[previous as usize].following };
        if previous == NONE {
            line.first = index;
        } else {
            self.platter_queues[previous as usize].following = index;
        }
        if following == NONE {
            line.last = index;
        } else {
            self.platter_queues[following as usize].previous = index;
        }
        line.platters += 1;
        self.platters += 1;
        let platter_queue = &mut self.platter_queues[index as usize];
        if platter_queue.tracks >= self.long_tracks {
            self.long_reads.push(platter);
        }
        line.tracks += u64::from(platter_queue.tracks);
        (platter_queue.lane, platter_queue.previous, platter_queue.following) = (Some(lane), previous, following);
    }

    /// Removes a platter from its line; it keeps its requests.
    pub(crate) fn remove_platter(&mut self, platter: Platter) {
        let platter_queue = &mut self.platter_queues[platter.0 as usize];
        let Some(lane) = platter_queue.lane.take() else { return };
        let (previous, following, tracks) = (platter_queue.previous, platter_queue.following, platter_queue.tracks);
        let line = &mut self.lines[usize::from(lane.0)];
        line.platters -= 1;
        self.platters -= 1;
        if tracks >= self.long_tracks {
            self.long_reads.retain(|other| *other != platter);
        }
        line.tracks = line.tracks.saturating_sub(u64::from(tracks));
        if previous == NONE {
            line.first = following;
        } else {
            self.platter_queues[previous as usize].following = following;
        }
        let line = &mut self.lines[usize::from(lane.0)];
        if following == NONE {
            line.last = previous;
        } else {
            self.platter_queues[following as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests;
