//! Requests to verify a platter: all of its tracks are read, in the time that customers leave, as
//! those of a written platter are. A scrub asks for that.

use crate::panel::{Operation, Verification};
use crate::{Action, Berth, Command, CommandId, Controller, Drive, Outcome, Platter, RequestId, Tracks, Whereabouts};

/// The requests to verify a platter that have not ended.
#[derive(Debug, Default)]
pub(super) struct Verifications {
    requests: Vec<RequestId>,
    /// The last command before the last of them: what drives verify on later commands counts.
    after: u64,
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
        let after = self.commands;
        let verifications = self.verifications.entry(platter).or_default();
        verifications.requests.push(request);
        verifications.after = after;
        let state = &mut self.panel.platters[platter.0 as usize];
        let was_verified = state.verified == state.tracks;
        state.verified = 0;
        match state.whereabouts {
            Whereabouts::Berth(Berth::Slot(_)) if was_verified => self.panel.await_verification(platter),
            Whereabouts::Berth(Berth::Bay(drive, _)) => self.verify_again(drive, platter, commands),
            // It waits to be verified already, or the shuttle that has it brings it to a drive or a
            // slot first.
            Whereabouts::Berth(Berth::Slot(_) | Berth::Port) | Whereabouts::Shuttle(_) | Whereabouts::Unwritten => {}
        }
    }

    /// A drive that verifies the platter starts again. One whose last verification hasn't answered
    /// yet can't be interrupted again, and starts again after this one.
    fn verify_again(&mut self, drive: Drive, platter: Platter, commands: &mut Vec<Command>) {
        let state = self.drive(drive);
        let is_under_head = state.bays[usize::from(state.active.0)].held.is_some_and(|held| held.platter == platter);
        let is_verifying = state.operation.is_some_and(|(_, operation)| operation == Operation::Verify);
        if is_under_head && is_verifying && state.interrupted.is_none() {
            let tracks = Tracks { first: 0, count: self.panel.platters[platter.0 as usize].tracks };
            self.command_drive(drive, Operation::Verify, Action::Verify { platter, tracks }, commands);
        } else {
            self.start_next_operation(drive, commands);
        }
    }

    /// A drive has verified tracks of a platter on a command: these many, or all that were left.
    pub(super) fn note_verified(&mut self, platter: Platter, command: CommandId, count: Option<u32>, commands: &mut Vec<Command>) {
        let state = &mut self.panel.platters[platter.0 as usize];
        if self.verifications.get(&platter).is_some_and(|verifications| command.number <= verifications.after) {
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
