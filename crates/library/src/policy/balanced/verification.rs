//! When verification makes way for customers.
//!
//! While many platters wait, the platter under verification is set aside in a spare slot, and both
//! bays of the drive serve customers. The backlog of verification limits that: from some number of
//! unverified platters on, each further one takes a drive back to verification. So the backlog
//! stays below that number plus the number of drives, as long as the drives can verify what is
//! written at all, and staging needs no more room than for that.

use fulgurite_domain::Micros;

use super::Techniques;
use crate::section::Section;
use crate::{Drive, Layout, Panel, Purpose};

#[derive(Debug, Clone)]
pub(super) struct Suspension {
    /// The drives that should use both bays for customers.
    customers_only: Vec<bool>,
    /// When each section last had a waiting platter.
    last_waiting: Vec<Micros>,
    /// Of the sections without a waiting platter whose drives don't verify: the earliest time at
    /// which one last had one. As of the last update.
    quiet_since: Option<Micros>,
}

impl Suspension {
    pub(super) fn new(layout: &Layout, sections: &[Section]) -> Self {
        let customers_only = vec![false; usize::from(layout.drive_count())];
        Self { customers_only, last_waiting: vec![Micros::ZERO; sections.len()], quiet_since: None }
    }

    pub(super) fn customers_only(&self) -> &[bool] {
        &self.customers_only
    }

    fn verifies(&self, drive: Drive) -> bool {
        !self.customers_only[usize::from(drive.0)]
    }

    /// Decides which drives use both bays for customers: from when many platters wait in a section
    /// until none has waited for a while, and only as many as the section has shuttles at work.
    /// `waiting` and `workers` are the numbers of waiting platters and of shuttles of each.
    pub(super) fn update(&mut self, panel: &Panel, sections: &[Section], waiting: &[u32], workers: &[u32], techniques: &Techniques) {
        if !techniques.exchanges {
            return;
        }
        // The drives with the highest numbers verify what exceeds the backlog, so that the choice
        // doesn't change with the queues.
        let needed = panel.unverified().saturating_sub(techniques.unverified_at_most) as usize;
        let reachable = (0..self.customers_only.len() as u16).rev().filter(|drive| panel.is_reachable(Drive(*drive)));
        let first_kept = if needed == 0 { u16::MAX } else { reachable.take(needed).last().unwrap_or(u16::MAX) };
        // Never without a waiting platter, even above 0: what begins then would end at once.
        let is_full = |section: &Section, waiting: u32| waiting > 0 && waiting >= techniques.set_aside_above * section.drives.len() as u32;
        let may_begin =
            |(section, waiting): (&Section, &u32)| is_full(section, *waiting) && section.drives.iter().any(|drive| self.verifies(*drive));
        let mut spare = 0;
        if sections.iter().zip(waiting).any(may_begin) {
            // Drives that have yet to set their platter aside may take a spare slot each.
            let due = panel.drives().filter(|drive| !self.verifies(*drive) && has_verification(panel, *drive)).count() as u32;
            spare = panel.spare_slots().saturating_sub(due);
        }
        self.quiet_since = None;
        for (((section, waiting), workers), last_waiting) in sections.iter().zip(waiting).zip(workers).zip(&mut self.last_waiting) {
            if *waiting > 0 {
                *last_waiting = panel.now();
            }
            let every = techniques.one_verifies_of;
            // A shuttle that finds two bays at one door never waits. A second drive would not make
            // it faster, and goes on verifying.
            let mut gainful = *workers;
            let mut is_suspended = false;
            // The last drive of each group keeps verifying.
            let keeps = |drive: &Drive| every > 0 && u32::from(drive.0) % every == every - 1 || drive.0 >= first_kept;
            for drive in &section.drives {
                let customers_only = &mut self.customers_only[usize::from(drive.0)];
                *customers_only = if gainful == 0 || keeps(drive) || !panel.is_reachable(*drive) {
                    false
                } else if *customers_only {
                    *waiting > 0 || panel.now().since(*last_waiting) < techniques.brought_back_after
                } else {
                    // A platter without a home is set aside in a spare slot.
                    let begins = is_full(section, *waiting) && spare > 0;
                    spare -= u32::from(begins);
                    begins
                };
                gainful -= u32::from(*customers_only);
                is_suspended |= *customers_only;
            }
            if is_suspended && *waiting == 0 {
                self.quiet_since = Some(self.quiet_since.map_or(*last_waiting, |since| since.min(*last_waiting)));
            }
        }
    }

    /// When a section will have had no waiting platter for long enough, as of the last update.
    pub(super) fn deadline(&self, techniques: &Techniques) -> Option<Micros> {
        self.quiet_since.map(|since| since + techniques.brought_back_after)
    }
}

pub(super) fn has_verification(panel: &Panel, drive: Drive) -> bool {
    panel.bays(drive).iter().any(|bay| bay.held.is_some_and(|held| held.purpose == Purpose::Verification))
}
