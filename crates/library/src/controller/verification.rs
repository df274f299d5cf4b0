//! Requests to verify a platter: all of its tracks are read, in the time that customers leave, as
//! those of a written platter are. A scrub asks for that.

use crate::panel::{Operation, Verification};
use crate::{Berth, Command, Controller, Outcome, Platter, RequestId, Whereabouts};

/// The requests to verify a platter that have not ended.
#[derive(Debug, Default)]
pub(super) struct Verifications {
    requests: Vec<RequestId>,
    /// Whether a drive was verifying the platter when the last request came: what it reads doesn't
    /// count, and verification starts again after it.
    restarts: bool,
}

impl Controller {
    pub(super) fn handle_verification_request(&mut self, request: RequestId, platter: Platter, commands: &mut Vec<Command>) {
        // Without shuttles, nothing brings a platter that no customer wants.
        let verifies = self.panel.verification == Verification::Written && !self.needs_no_shuttles;
        let state = self.panel.platters.get(platter.0 as usize);
        let exists = state.is_some_and(|state| state.whereabouts != Whereabouts::Unwritten);
        if !verifies || !exists || !self.panel.is_available(platter) {
            let outcome = if verifies && exists { Outcome::Unavailable } else { Outcome::Refused };
            commands.push(Command::Finish { request, outcome });
            return;
        }
        let is_running = self.panel.drives.iter().any(|drive| {
            let under_head = drive.bays[usize::from(drive.active.0)].held.map(|held| held.platter);
            let is_verifying = drive.operation.is_some_and(|(_, operation)| operation == Operation::Verify);
            is_verifying && under_head == Some(platter) || drive.interrupted.is_some_and(|(_, interrupted)| interrupted == platter)
        });
        let verifications = self.verifications.entry(platter).or_default();
        verifications.requests.push(request);
        verifications.restarts = is_running;
        if is_running {
            return;
        }
        let state = &mut self.panel.platters[platter.0 as usize];
        let was_verified = state.verified == state.tracks;
        state.verified = 0;
        match state.whereabouts {
            Whereabouts::Berth(Berth::Slot(_)) if was_verified => self.panel.await_verification(platter),
            Whereabouts::Berth(Berth::Bay(drive, _)) => self.start_next_operation(drive, commands),
            // It waits to be verified already, or the shuttle that has it brings it to a drive or a
            // slot first.
            Whereabouts::Berth(Berth::Slot(_) | Berth::Port) | Whereabouts::Shuttle(_) | Whereabouts::Unwritten => {}
        }
    }

    /// A drive has verified tracks of a platter: these many, or all that were left.
    pub(super) fn note_verified(&mut self, platter: Platter, count: Option<u32>, commands: &mut Vec<Command>) {
        let state = &mut self.panel.platters[platter.0 as usize];
        if let Some(verifications) = self.verifications.get_mut(&platter)
            && std::mem::take(&mut verifications.restarts)
        {
            state.verified = 0;
            return;
        }
        match count {
            None => state.verified = state.tracks,
            // Endless verification makes no progress.
            Some(_) if state.tracks == u32::MAX => return,
            Some(count) => state.verified = state.verified.saturating_add(count).min(state.tracks),
        }
        if state.verified == state.tracks {
            self.end_verifications(platter, Outcome::Read, commands);
        }
    }

    pub(super) fn end_verifications(&mut self, platter: Platter, outcome: Outcome, commands: &mut Vec<Command>) {
        let requests = self.verifications.remove(&platter).map_or(Vec::new(), |verifications| verifications.requests);
        commands.extend(requests.into_iter().map(|request| Command::Finish { request, outcome }));
    }
}
