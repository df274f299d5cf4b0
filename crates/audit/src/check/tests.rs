use super::*;
use crate::fake_place::{FakePlace, Fault};

const CONTENT: &[u8] = b"the content of a file that is checked";

fn expected(content: &[u8]) -> Expected {
    let mut digester = Digester::new(&[Algorithm::Md5, Algorithm::Sha256]);
    digester.update(content);
    Expected { bytes: Some(content.len() as u64), digests: digester.finish() }
}

fn witness(location: &str, content: &[u8]) -> Witness {
    Witness { location: location.into(), expected: expected(content), state: State::Verified, method: Method::Stream }
}

struct Bench {
    place: FakePlace,
    witnesses: Vec<Witness>,
}

/// A place with the file `a` and a witness.
fn bench() -> Bench {
    let place = FakePlace::default();
    place.put("a", CONTENT);
    place.put("witness", b"proof");
    Bench { place, witnesses: vec![witness("witness", b"proof")] }
}

impl Bench {
    fn check(&self) -> Check {
        self.check_with(Method::Stream, &expected(CONTENT))
    }

    fn check_with(&self, method: Method, expected: &Expected) -> Check {
        Checker::new(&self.place, false).check(method, "a", expected, &mut || self.witnesses.clone(), &mut ())
    }

    fn finding(&self) -> Finding {
        self.check().finding
    }
}

fn is_unavailable(finding: &Finding) -> bool {
    matches!(finding, Finding::Unavailable(_))
}

#[test]
fn a_right_copy_is_verified_by_one_reading() {
    let bench = bench();
    let check = bench.check();
    assert!(matches!(check.finding, Finding::Verified { disputed: None }));
    assert_eq!(check.bytes, CONTENT.len() as u64);
    assert_eq!(bench.place.readings.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn every_flipped_bit_is_found() {
    for bit in 0..CONTENT.len() * 8 {
        let bench = bench();
        let mut flipped = CONTENT.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        bench.place.put("a", &flipped);
        let Finding::DigestMismatch { found } = bench.finding() else { panic!("bit {bit} was missed") };
        assert!(expected(&flipped).digests.contains(&found));
    }
}

#[test]
fn a_shorter_copy_and_a_longer_copy_are_size_mismatches() {
    for content in [&CONTENT[1..], &[CONTENT, b"x"].concat(), b""] {
        let bench = bench();
        bench.place.put("a", content);
        let finding = bench.finding();
        assert!(matches!(finding, Finding::SizeMismatch { found } if found == content.len() as u64), "{finding:?}");
    }
}

#[test]
fn a_deleted_copy_is_missing() {
    let bench = bench();
    bench.place.delete("a");
    assert!(matches!(bench.finding(), Finding::Missing));
}

#[test]
fn content_that_a_place_states_twice_to_be_lost_is_lost() {
    let bench = bench();
    bench.place.fault("a", Fault::Refuse(Cause::Lost));
    assert!(matches!(bench.finding(), Finding::Verified { disputed: Some(Dispute::Lost { .. }) }));
    for _ in 0..2 {
        bench.place.fault("a", Fault::Refuse(Cause::Lost));
    }
    let finding = bench.finding();
    assert!(matches!(&finding, Finding::Lost { why } if why == "by the test"), "{finding:?}");
    assert_eq!(finding.state(), crate::copy::State::Missing);
    // Lost for one reading and missing for the other proves nothing.
    bench.place.fault("a", Fault::Refuse(Cause::Lost));
    bench.place.fault("a", Fault::Refuse(Cause::Missing));
    assert!(is_unavailable(&bench.finding()));
    // If everything is lost, no witness is left.
    bench.place.delete("witness");
    for _ in 0..2 {
        bench.place.fault("a", Fault::Refuse(Cause::Lost));
    }
    assert!(matches!(bench.finding(), Finding::Lost { .. }));
}

#[test]
fn a_file_without_bytes_is_no_witness() {
    for method in [Method::Stream, Method::Header] {
        let mut bench = bench();
        bench.witnesses = vec![Witness { method, ..witness("empty", b"") }];
        bench.place.put("empty", b"");
        bench.place.put("a", b"x");
        let finding = bench.check_with(method, &expected(CONTENT)).finding;
        assert!(matches!(finding, Finding::SizeMismatch { found: 1 }), "the node reports that a made-up name doesn't exist: {finding:?}");
        bench.place.answer_all_with(b"");
        let finding = bench.check_with(method, &expected(CONTENT)).finding;
        assert!(matches!(finding, Finding::Unavailable(Unavailability::AnswersAlike { .. })), "{method}: {finding:?}");
    }
}

#[test]
fn one_byte_is_no_bytes() {
    assert_eq!(looks(&Dispute::Size { found: 1 }), "wrong, with 1 byte");
    assert_eq!(looks(&Dispute::Size { found: 2 }), "wrong, with 2 bytes");
}

#[test]
fn a_fault_of_the_first_reading_is_not_held_against_the_copy() {
    for fault in [Fault::Content(b"something else".to_vec()), Fault::Content(CONTENT.to_ascii_uppercase()), Fault::Refuse(Cause::Missing)] {
        let bench = bench();
        bench.place.fault("a", fault.clone());
        let finding = bench.finding();
        assert!(matches!(finding, Finding::Verified { disputed: Some(_) }), "{fault:?}: {finding:?}");
        // The second reading came by another connection.
        assert_eq!(bench.place.connections.load(std::sync::atomic::Ordering::Relaxed), 2);
    }
}

#[test]
fn refusals_of_every_kind_leave_a_copy_unavailable_and_never_mismatched() {
    let causes = [
        Cause::Denied,
        Cause::Throttled { retry_after: Some(Duration::from_secs(3)) },
        Cause::TimedOut,
        Cause::Connection,
        Cause::Fault,
        Cause::Unsupported,
        Cause::Cut { received: 1, stated: 2 },
    ];
    for cause in causes {
        let bench = bench();
        bench.place.set_down(Some(cause));
        let finding = bench.finding();
        assert!(matches!(&finding, Finding::Unavailable(Unavailability::Refused(refusal)) if refusal.cause == cause), "{finding:?}");
    }
    for fault in [Fault::CutHalf, Fault::LieHalf] {
        let bench = bench();
        bench.place.fault("a", fault);
        assert!(is_unavailable(&bench.finding()));
    }
}

#[test]
fn refusals_of_the_second_reading_leave_a_copy_unavailable() {
    for fault in [Fault::Refuse(Cause::TimedOut), Fault::CutHalf, Fault::LieHalf] {
        let bench = bench();
        bench.place.fault("a", Fault::Content(b"wrong".to_vec()));
        bench.place.fault("a", fault);
        assert!(is_unavailable(&bench.finding()));
    }
}

#[test]
fn two_readings_that_differ_prove_nothing() {
    let pairs: [[Fault; 2]; 4] = [
        [Fault::Content(b"one".to_vec()), Fault::Content(b"other".to_vec())],
        [Fault::Content(CONTENT.to_ascii_uppercase()), Fault::Content(CONTENT.to_ascii_lowercase()[1..].to_vec())],
        [Fault::Refuse(Cause::Missing), Fault::Content(b"other".to_vec())],
        [Fault::Content(b"one".to_vec()), Fault::Refuse(Cause::Missing)],
    ];
    for pair in pairs {
        let bench = bench();
        let shown = format!("{pair:?}");
        pair.into_iter().for_each(|fault| bench.place.fault("a", fault));
        let finding = bench.finding();
        assert!(matches!(finding, Finding::Unavailable(Unavailability::ReadingsDiffer { .. })), "{shown}: {finding:?}");
    }
}

#[test]
fn a_length_that_contradicts_the_readings_proves_nothing() {
    let bench = bench();
    bench.place.put("a", b"short");
    bench.place.state_length("a", CONTENT.len() as u64);
    assert!(matches!(bench.finding(), Finding::Unavailable(Unavailability::ReadingsDiffer { .. })));
}

#[test]
fn a_node_that_no_longer_shows_what_it_had_declares_nothing() {
    let wrong: [fn(&FakePlace); 3] = [FakePlace::clear, |place| place.delete("a"), |place| place.put("a", b"<html>log in</html>")];
    for make_wrong in wrong {
        let bench = bench();
        make_wrong(&bench.place);
        bench.place.delete("witness");
        let finding = bench.finding();
        assert!(matches!(finding, Finding::Unavailable(Unavailability::WitnessesGone { .. })), "{finding:?}");
    }
    // One witness of several is enough: the others may have been lost since.
    let mut bench = bench();
    bench.place.delete("a");
    bench.witnesses.insert(0, witness("lost", b"lost"));
    assert!(matches!(bench.finding(), Finding::Missing));
}

#[test]
fn a_copy_is_never_its_own_witness() {
    let mut bench = bench();
    bench.place.put("a", b"wrong");
    bench.witnesses = vec![witness("a", b"wrong")];
    // Nothing else was ever shown, so two readings have to do.
    assert!(matches!(bench.finding(), Finding::SizeMismatch { found: 5 }));
}

#[test]
fn an_empty_place_without_witnesses_is_unavailable() {
    let mut bench = bench();
    bench.witnesses.clear();
    bench.place.delete("a");
    assert!(matches!(bench.finding(), Finding::Missing));
    bench.place.clear();
    assert!(matches!(bench.finding(), Finding::Unavailable(Unavailability::PlaceEmpty { .. })));
}

#[test]
fn a_place_without_witnesses_that_answers_every_request_alike_is_unavailable() {
    for method in Method::ALL {
        let mut bench = bench();
        bench.witnesses.clear();
        bench.place.answer_all_with(b"<html>log in</html>");
        let finding = bench.check_with(method, &expected(CONTENT)).finding;
        assert!(matches!(finding, Finding::Unavailable(Unavailability::AnswersAlike { .. })), "{finding:?}");
    }
}

#[test]
fn a_witness_that_is_refused_does_not_end_the_search() {
    let mut bench = bench();
    bench.place.delete("a");
    for location in ["refused", "cut"] {
        bench.place.put(location, b"more proof");
        bench.witnesses.insert(0, witness(location, b"more proof"));
    }
    bench.place.fault("refused", Fault::Refuse(Cause::Denied));
    bench.place.fault("cut", Fault::CutHalf);
    assert!(matches!(bench.finding(), Finding::Missing));
    // If none can be shown, the reason tells about the copy.
    bench.place.fault("witness", Fault::Refuse(Cause::Denied));
    bench.place.fault("refused", Fault::Refuse(Cause::Denied));
    bench.place.fault("cut", Fault::CutHalf);
    let Finding::Unavailable(why) = bench.finding() else { panic!("no witness was shown") };
    assert!(why.to_string().starts_with("the copy looks missing, but"), "{why}");
}

#[test]
fn a_witness_is_looked_at_where_copies_are() {
    for method in [Method::Header, Method::Provider] {
        let mut bench = bench();
        bench.witnesses[0].method = method;
        bench.place.delete("a");
        assert!(matches!(bench.check_with(method, &expected(CONTENT)).finding, Finding::Missing));
        assert_eq!(bench.readings(), 0);
        bench.place.state_length("witness", 9);
        let finding = bench.check_with(method, &expected(CONTENT)).finding;
        assert!(matches!(finding, Finding::Unavailable(Unavailability::WitnessesGone { .. })), "{finding:?}");
    }
    let mut bench = bench();
    bench.witnesses[0].method = Method::Provider;
    bench.place.delete("a");
    bench.place.state_digest("witness", digest(Algorithm::Md5, b"other"), true);
    assert!(is_unavailable(&bench.provider().finding));
    // Without a known length, an answer proves nothing.
    bench.witnesses[0] = Witness { expected: Expected::default(), method: Method::Header, ..bench.witnesses[0].clone() };
    assert!(is_unavailable(&bench.provider().finding));
}

#[test]
fn the_strongest_digest_is_compared_and_all_if_asked_for() {
    let bench = bench();
    let mut wrong_md5 = expected(CONTENT);
    wrong_md5.digests[0] = Digest::new(Algorithm::Md5, &[7; 16]).expect("16 bytes");
    assert!(matches!(bench.check_with(Method::Stream, &wrong_md5).finding, Finding::Verified { .. }));
    let all = Checker::new(&bench.place, true).check(Method::Stream, "a", &wrong_md5, &mut || bench.witnesses.clone(), &mut ());
    assert!(matches!(all.finding, Finding::DigestMismatch { found } if found.algorithm() == Algorithm::Md5));
}

#[test]
fn without_a_known_digest_one_is_recorded() {
    let bench = bench();
    let unknown = Expected { bytes: Some(CONTENT.len() as u64), digests: Vec::new() };
    let Finding::Recorded { bytes, digest } = bench.check_with(Method::Stream, &unknown).finding else { panic!("nothing was recorded") };
    assert_eq!(bytes, CONTENT.len() as u64);
    assert!(expected(CONTENT).digests.contains(&digest));
    let longer = Expected { bytes: Some(1), digests: Vec::new() };
    assert!(matches!(bench.check_with(Method::Stream, &longer).finding, Finding::SizeMismatch { .. }));
}

#[test]
fn a_header_check_reads_no_byte_and_verifies_nothing() {
    let bench = bench();
    assert!(matches!(bench.check_with(Method::Header, &expected(CONTENT)).finding, Finding::HeaderChecked));
    assert_eq!(bench.place.readings.load(std::sync::atomic::Ordering::Relaxed), 0);
    bench.place.state_length("a", 3);
    assert!(matches!(bench.check_with(Method::Header, &expected(CONTENT)).finding, Finding::SizeMismatch { found: 3 }));
    bench.place.delete("a");
    assert!(matches!(bench.check_with(Method::Header, &expected(CONTENT)).finding, Finding::Missing));
    bench.place.delete("witness");
    assert!(is_unavailable(&bench.check_with(Method::Header, &expected(CONTENT)).finding));
}

fn digest(algorithm: Algorithm, content: &[u8]) -> Digest {
    let mut digester = Digester::new(&[algorithm]);
    digester.update(content);
    digester.finish().remove(0)
}

impl Bench {
    /// Lets the place state the digest of a content.
    fn state(&self, algorithm: Algorithm, content: &[u8], is_certain: bool) {
        self.place.state_digest("a", digest(algorithm, content), is_certain);
    }

    fn provider(&self) -> Check {
        self.check_with(Method::Provider, &expected(CONTENT))
    }

    fn readings(&self) -> u64 {
        self.place.readings.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn a_stated_digest_attests_a_copy_without_a_reading() {
    for is_certain in [true, false] {
        let bench = bench();
        bench.state(Algorithm::Md5, CONTENT, is_certain);
        let check = bench.provider();
        assert!(matches!(check.finding, Finding::ProviderAttested { stated } if stated == digest(Algorithm::Md5, CONTENT)));
        assert_eq!((check.method, check.bytes, bench.readings()), (Method::Provider, 0, 0));
    }
    // Of several, the strongest is named.
    let bench = bench();
    bench.state(Algorithm::Sha256, CONTENT, true);
    bench.state(Algorithm::Md5, CONTENT, true);
    assert!(matches!(bench.provider().finding, Finding::ProviderAttested { stated } if stated.algorithm() == Algorithm::Sha256));
}

#[test]
fn a_provider_that_attests_a_rotten_copy_is_believed() {
    let bench = bench();
    bench.place.put("a", &CONTENT.to_ascii_uppercase());
    bench.state(Algorithm::Sha256, CONTENT, true);
    assert!(matches!(bench.provider().finding, Finding::ProviderAttested { .. }));
}

#[test]
fn statements_that_cannot_be_compared_leave_a_copy_header_checked() {
    // Nothing, another algorithm, and what may be no digest of the content.
    let nothing = |_: &Bench| {};
    let statements: [fn(&Bench); 3] =
        [nothing, |bench| bench.state(Algorithm::Sha1, b"x", true), |bench| bench.state(Algorithm::Md5, b"x", false)];
    for state in statements {
        let bench = bench();
        state(&bench);
        assert!(matches!(bench.provider().finding, Finding::HeaderChecked));
        assert_eq!(bench.readings(), 0);
    }
    let bench = bench();
    bench.state(Algorithm::Md5, CONTENT, true);
    let unknown = Expected { bytes: Some(CONTENT.len() as u64), digests: Vec::new() };
    assert!(matches!(bench.check_with(Method::Provider, &unknown).finding, Finding::HeaderChecked));
}

#[test]
fn a_wrong_statement_about_a_right_copy_is_settled_by_one_reading() {
    let bench = bench();
    bench.state(Algorithm::Md5, b"x", true);
    // One contradiction is enough.
    bench.state(Algorithm::Sha256, CONTENT, true);
    let check = bench.provider();
    assert!(
        matches!(&check.finding, Finding::Verified { disputed: Some(Dispute::Stated { stated }) } if *stated == digest(Algorithm::Md5, b"x"))
    );
    assert_eq!((check.method, check.bytes, bench.readings()), (Method::Stream, CONTENT.len() as u64, 1));
}

#[test]
fn a_stated_digest_alone_never_makes_a_copy_wrong() {
    let rotten = CONTENT.to_ascii_uppercase();
    let bench = bench();
    bench.place.put("a", &rotten);
    bench.state(Algorithm::Md5, &rotten, true);
    let check = bench.provider();
    assert!(matches!(check.finding, Finding::DigestMismatch { found } if found == digest(Algorithm::Sha256, &rotten)));
    // Two readings and a witness.
    assert_eq!((check.method, bench.readings()), (Method::Stream, 3));
    bench.place.delete("witness");
    assert!(matches!(bench.provider().finding, Finding::Unavailable(Unavailability::WitnessesGone { .. })));
    // The object was replaced after it was asked about, or between the readings.
    bench.place.put("a", CONTENT);
    assert!(matches!(bench.provider().finding, Finding::Verified { disputed: Some(Dispute::Stated { .. }) }));
    bench.place.fault("a", Fault::Content(rotten));
    assert!(matches!(bench.provider().finding, Finding::Verified { disputed: Some(Dispute::Digest { .. }) }));
}

#[test]
fn a_reading_that_fails_after_a_contradiction_tells_of_it() {
    let bench = bench();
    bench.state(Algorithm::Md5, b"x", true);
    bench.place.fault("a", Fault::Refuse(Cause::Unsupported));
    let check = bench.provider();
    let Finding::Unavailable(why) = &check.finding else { panic!("{:?}", check.finding) };
    assert!(why.to_string().contains("by the test; the node states md5:"), "{why}");
}

#[test]
fn an_attested_copy_needs_the_right_length() {
    let bench = bench();
    bench.state(Algorithm::Sha256, CONTENT, true);
    bench.place.state_length("a", 3);
    assert!(matches!(bench.provider().finding, Finding::SizeMismatch { found: 3 }));
    bench.place.delete("a");
    assert!(matches!(bench.provider().finding, Finding::Missing));
    bench.place.set_down(Some(Cause::TimedOut));
    assert!(is_unavailable(&bench.provider().finding));
}

#[test]
fn a_reading_that_is_ended_early_has_no_result() {
    struct Never;
    impl Throttle for Never {
        fn arrived(&mut self, _bytes: u64) -> bool {
            false
        }
    }
    let bench = bench();
    let check = Checker::new(&bench.place, false).check(Method::Stream, "a", &expected(CONTENT), &mut Vec::new, &mut Never);
    assert!(matches!(check.finding, Finding::Unavailable(Unavailability::Refused(refusal)) if refusal.cause == Cause::Abandoned));
}

#[test]
fn a_stated_length_is_right_only_if_one_is_known() {
    for method in [Method::Header, Method::Provider] {
        for content in [CONTENT, &CONTENT[1..], b""] {
            let bench = bench();
            bench.place.put("a", content);
            for digests in [Vec::new(), expected(CONTENT).digests] {
                let finding = bench.check_with(method, &Expected { bytes: None, digests }).finding;
                assert!(matches!(finding, Finding::LengthUnknown { stated } if stated == content.len() as u64), "{method}: {finding:?}");
                assert_eq!(finding.state(), State::Unverified);
            }
        }
        // That it is missing shows without a length, too.
        let bench = bench();
        bench.place.delete("a");
        assert!(matches!(bench.check_with(method, &Expected::default()).finding, Finding::Missing));
    }
}
