//! A stop while a lot is being read.

use std::sync::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Holds up reads until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    /// Reads that have begun.
    reads: AtomicUsize,
}

struct Gated {
    at: At,
    gate: Arc<Gate>,
}

impl Place for Gated {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        Ok(Box::new(Self { at: At(self.at.0.clone()), gate: self.gate.clone() }))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl Connection for Gated {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.at.length(location)
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        self.gate.reads.fetch_add(1, Ordering::Relaxed);
        let is_open = self.gate.is_open.lock().expect("locked");
        drop(self.gate.opened.wait_while(is_open, |is_open| !*is_open).expect("locked"));
        self.at.read(location, sink)
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        self.at.list(each)
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        self.at.write(location, bytes, content)
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        self.at.remove(location)
    }

    fn presigned_url(&mut self, location: &str, valid: Duration) -> Result<Option<String>, Refusal> {
        self.at.presigned_url(location, valid)
    }
}

/// Stops the run once both streams read, and opens the gate once they know that.
struct Stopping {
    gate: Arc<Gate>,
    has_stopped: bool,
}

impl Watcher for Stopping {
    fn order(&mut self) -> Order {
        if self.has_stopped {
            *self.gate.is_open.lock().expect("locked") = true;
            self.gate.opened.notify_all();
        }
        self.has_stopped |= self.gate.reads.load(Ordering::Relaxed) == 2;
        if self.has_stopped { Order::Stop } else { Order::Run }
    }

    fn stepped(&mut self, _: Micros, _: &Event, _: &[Command], _: &Progress<'_>) -> io::Result<()> {
        Ok(())
    }

    fn failed(&mut self, name: &str, _: Stage, reason: &str, _: bool) {
        panic!("{name}: {reason}");
    }

    fn unreachable(&mut self, _: Stage, why: &str) {
        panic!("{why}");
    }

    fn set_aside(&mut self, volume: &str, _: u32, _: &str) {
        panic!("{volume}");
    }
}

#[test]
fn a_stop_does_not_wait_for_the_other_files_of_a_lot() {
    let files = some_files(40);
    let case = Case::new(&files);
    let gate = Arc::<Gate>::default();
    let source = Arc::new(Gated { at: At(case.source.clone()), gate: gate.clone() });
    let setup = Setup { source, ..case.setup() };
    super::super::run(&setup, &mut case.database(), &mut Stopping { gate, has_stopped: false }).expect("it stops");
    // Two streams were reading the first of eight files each.
    assert_eq!(case.destination.files().len(), 2);
    case.all_arrived();
}
