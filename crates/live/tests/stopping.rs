//! A library whose thread hangs.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use fulgurite_domain::SetShape;
use fulgurite_journal::Stock;
use fulgurite_library_settings::LibrarySettings;
use fulgurite_live::{Ended, Events, JournalEnd, Motions, Plan, Read, Runner, RunnerSettings, Verify};

/// Waits with the last state until the test has dropped the other end.
struct Hangs(Receiver<()>);

impl Events for Hangs {
    fn read(&mut self, _: Read) {}
    fn verify(&mut self, _: Verify) {}
    fn interrupted(&mut self, _: Verify) {}
    fn ended(&mut self, _: Ended) {}
    fn keep(&mut self, _: Stock) {
        let _ = self.0.recv();
    }
    fn is_watched(&self) -> bool {
        false
    }
    fn moved(&mut self, _: Motions) {}
    fn journal_ended(&mut self, _: JournalEnd) {}
    fn panicked(&mut self, panic: Box<dyn std::any::Any + Send>) {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn nothing_waits_for_ever_for_a_library_that_does_not_stop() {
    let plan = Arc::new(Plan::new(LibrarySettings::default(), SetShape { information: 16, redundancy: 3 }, 10, 1_000).expect("sets fit"));
    let hour = Duration::from_secs(3_600);
    let settings = RunnerSettings { time_scale: 1.0, keep_every: hour, report_every: hour, journal: None, seed: 1 };
    let (hold, hangs) = channel();
    let runner = Runner::start(plan, Stock::default(), &settings, Hangs(hangs)).expect("a thread starts");
    assert!(!runner.stop(Duration::ZERO) && !runner.stop(Duration::ZERO), "it has not handed its state over");
    drop(hold);
    assert!(runner.stop(hour) && runner.stop(hour));
}
