//! Destinations that take two names for one.

use super::super::folded;
use super::*;

const CASE: Folding = Folding { case: true, normalization: false };

fn named(names: &[&str]) -> BTreeMap<String, Vec<u8>> {
    names.iter().map(|name| ((*name).to_owned(), b"the same content".to_vec())).collect()
}

impl Case {
    fn folding(files: &BTreeMap<String, Vec<u8>>, folding: Folding) -> Self {
        let case = Self::new(files);
        *case.destination.folding.lock().expect("locked") = folding;
        case
    }

    /// The names of files in a state.
    fn names(&self, state: State) -> Vec<String> {
        let mut names: Vec<String> = self.database().in_state(state, 0, 1_000).expect("rows").into_iter().map(|row| row.name).collect();
        names.sort_unstable();
        names
    }
}

#[test]
fn files_with_one_name_at_the_destination_are_not_migrated_even_if_they_are_equal() {
    for (folding, pair) in [(CASE, ["a/README", "a/Readme"]), (Folding { case: false, normalization: true }, ["a/e\u{301}", "a/\u{e9}"])] {
        let files = named(&[pair[0], pair[1], "a/other", "b/README"]);
        let case = Case::folding(&files, folding);
        let notes = &mut Notes::default();
        case.run(notes).expect("it runs");
        assert_eq!(case.names(State::Failed), pair);
        assert_eq!(case.names(State::Migrated), ["a/other", "b/README"]);
        assert_eq!(case.destination.files(), named(&["a/other", "b/README"]));
        let mut failed: Vec<&str> = notes.failed.iter().map(|failed| failed.0.as_str()).collect();
        failed.sort_unstable();
        assert_eq!(failed, pair);
        for (name, stage, reason, is_final) in &notes.failed {
            let other = if name == pair[0] { pair[1] } else { pair[0] };
            assert!(*stage == Stage::Output && *is_final && reason.contains(&format!("{other:?}")), "{reason}");
        }
        // Trying them again changes nothing.
        case.database().retry_failed().expect("retried");
        case.run(&mut Notes::default()).expect("it runs");
        assert_eq!(case.names(State::Failed), pair);
        // Once one is renamed at the source, both arrive.
        let mut source = case.source.files.lock().expect("locked");
        let content = source.remove(pair[1]).expect("a file");
        source.insert("a/renamed".to_owned(), content);
        drop(source);
        case.add(&[row("a/renamed", 16)]);
        case.database().retry_failed().expect("retried");
        case.run(&mut Notes::default()).expect("it runs");
        assert_eq!(case.names(State::Migrated), [pair[0], "a/other", "a/renamed", "b/README"]);
        assert_eq!(case.destination.files().len(), 4);
    }
}

#[test]
fn a_destination_that_distinguishes_names_gets_all_of_them() {
    Case::new(&named(&["README", "Readme", "e\u{301}", "\u{e9}"])).all_arrived();
}

#[test]
fn a_destination_that_could_not_be_asked_at_the_beginning_is_asked_before_the_files_are_written() {
    let files = named(&["README", "Readme", "e\u{301}", "\u{e9}", "other"]);
    for folding in [CASE, Folding::default()] {
        let case = Case { lot_files: 2, ..Case::folding(&files, folding) };
        *case.destination.is_unusable.lock().expect("locked") = Some(Cause::Connection);
        let returns = &mut Returns { destination: case.destination.clone(), failed: Vec::new() };
        super::super::run(&case.setup(), &mut case.database(), returns).expect("it runs");
        let folded: &[&str] = if folding.case { &["README", "Readme"] } else { &[] };
        assert_eq!(case.names(State::Failed), folded);
        assert_eq!(returns.failed.len(), folded.len());
        assert_eq!(case.destination.files().len(), files.len() - folded.len());
    }
}

/// Brings the destination back when a stream has missed it.
struct Returns {
    destination: Arc<Store>,
    failed: Vec<String>,
}

impl Watcher for Returns {
    fn order(&mut self) -> Order {
        Order::Run
    }

    fn stepped(&mut self, _: Micros, _: &Event, _: &[Command], _: &Progress<'_>) -> io::Result<()> {
        Ok(())
    }

    fn failed(&mut self, name: &str, _: Stage, _: &str, _: bool) {
        self.failed.push(name.to_owned());
    }

    fn unreachable(&mut self, _: Stage, _: &str) {
        *self.destination.is_unusable.lock().expect("locked") = None;
    }

    fn set_aside(&mut self, _: &str, _: u32, _: &str) {}
}

#[test]
fn what_an_earlier_run_took_for_migrated_is_neither_certified_nor_released() {
    let case = Case::new(&named(&["README", "Readme", "other"]));
    case.all_arrived();
    // As if the destination had been a share that ignores case all the time.
    case.destination.files.lock().expect("locked").remove("Readme");
    *case.destination.folding.lock().expect("locked") = CASE;
    let mut told = Vec::new();
    let refused = folded::refuse(&mut case.database(), &At(case.source.clone()), CASE, &mut |name, _| told.push(name.to_owned()));
    assert_eq!((refused.expect("refused"), told.len()), (2, 2));
    assert_eq!((case.names(State::Failed), case.names(State::Migrated)), (vec!["README".into(), "Readme".into()], vec!["other".into()]));
    let setup = case.setup();
    again::release(&mut case.database(), &At(case.source.clone()), &*setup.destination, 1, u64::MAX >> 1, &mut |_, _| true)
        .expect("released");
    assert_eq!(case.source.files(), named(&["README", "Readme"]));
}

#[test]
fn a_name_that_a_released_file_has_at_the_destination_is_not_given_to_another() {
    let case = Case::folding(&named(&["README"]), CASE);
    case.all_arrived();
    let setup = case.setup();
    again::release(&mut case.database(), &At(case.source.clone()), &*setup.destination, 1, u64::MAX >> 1, &mut |_, _| true)
        .expect("released");
    *case.source.files.lock().expect("locked") = named(&["Readme"]);
    case.add(&[row("Readme", 16)]);
    case.run(&mut Notes::default()).expect("it runs");
    assert_eq!((case.names(State::Failed), case.names(State::Released)), (vec!["Readme".into()], vec!["README".into()]));
}
