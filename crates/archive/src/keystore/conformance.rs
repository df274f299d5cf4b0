//! The conformance suite for key stores: one function for each property, and [`conformance!`],
//! which turns each into a test.

use super::*;

/// Where one key store is kept, so that tests can open it again.
pub(crate) trait Fixture {
    /// Opens the store. The first call creates it.
    fn open(&self) -> Box<dyn KeyStore>;
    /// All bytes of all files of the store, concatenated.
    fn raw(&self) -> Vec<u8>;
}

/// Generates a test for each property. `$fixture` creates a new [`Fixture`].
macro_rules! conformance {
    ($fixture:expr) => {
        $crate::keystore::conformance::conformance! { $fixture;
            a_key_is_found_as_it_was_kept
            keeping_a_key_again_changes_nothing
            a_key_is_never_replaced_by_another
            a_failed_insert_keeps_nothing
            a_reopened_store_has_all_keys
            pages_give_every_key_once_in_order
            a_destroyed_key_is_gone
            a_destroyed_key_is_in_no_file
            places_of_destroyed_keys_are_used_again
        }
    };
    ($fixture:expr; $($property:ident)*) => {
        $(
            #[test]
            fn $property() {
                $crate::keystore::conformance::$property(&$fixture);
            }
        )*
    };
}
pub(crate) use conformance;

/// A version and its key. Both differ from those of other seeds in every few bytes, and identifiers
/// are not in the order of seeds.
pub(crate) fn key(seed: u64) -> (VersionId, WrappedKey) {
    let mix = |salt: u64| {
        (seed ^ salt << 40).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let mut id = [0; 16];
    let mut wrapped = [0; 40];
    for (i, chunk) in (0..).zip(id.chunks_mut(8).chain(wrapped.chunks_mut(8))) {
        chunk.copy_from_slice(&mix(i).to_le_bytes());
    }
    (VersionId(id), WrappedKey(wrapped))
}

fn keys(seeds: impl Iterator<Item = u64>) -> Vec<(VersionId, WrappedKey)> {
    seeds.map(key).collect()
}

fn all(store: &mut dyn KeyStore, limit: usize) -> Vec<(VersionId, WrappedKey)> {
    let mut found: Vec<(VersionId, WrappedKey)> = Vec::new();
    loop {
        let page = store.page(found.last().map(|&(id, _)| id), limit).expect("listed");
        if page.is_empty() {
            return found;
        }
        assert!(page.len() <= limit);
        found.extend(page);
    }
}

/// Number of aligned eight-byte pieces of these keys found in the bytes.
fn found_in(raw: &[u8], keys: &[(VersionId, WrappedKey)]) -> usize {
    let pieces: std::collections::HashSet<&[u8]> = keys.iter().flat_map(|(_, key)| key.0.chunks(8)).collect();
    raw.windows(8).filter(|window| pieces.contains(window)).count()
}

pub(crate) fn a_key_is_found_as_it_was_kept(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    assert!(store.is_empty().expect("counted"));
    let kept = keys(0..500);
    store.insert(&kept[..1]).expect("kept");
    store.insert(&kept[1..]).expect("kept");
    store.insert(&[]).expect("an empty insert succeeds");
    for &(id, wrapped) in &kept {
        assert_eq!(store.get(id).expect("looked up"), Some(wrapped));
    }
    let absent = key(500).0;
    assert_eq!(store.get(absent).expect("looked up"), None);
    assert_eq!(store.get_many(&[kept[7].0, absent, kept[3].0]).expect("looked up"), [Some(kept[7].1), None, Some(kept[3].1)]);
    assert_eq!(store.len().expect("counted"), 500);
    store.check().expect("sound");
}

pub(crate) fn keeping_a_key_again_changes_nothing(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let kept = keys(0..50);
    store.insert(&kept).expect("kept");
    store.destroy(&[kept[5].0]).expect("destroyed");
    store.insert(&kept[..5]).expect("kept already");
    store.insert(&[kept[6], kept[6], key(99), key(99)]).expect("kept already, in part");
    assert_eq!(store.len().expect("counted"), 50);
    store.check().expect("sound");
}

pub(crate) fn a_key_is_never_replaced_by_another(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let (id, wrapped) = key(1);
    store.insert(&[(id, wrapped)]).expect("kept");
    let refused = store.insert(&[(id, key(2).1)]).expect_err("refused");
    assert!(matches!(refused, KeyStoreError::OtherKey(found) if found == id), "{refused}");
    assert_eq!(store.get(id).expect("looked up"), Some(wrapped));
}

pub(crate) fn a_failed_insert_keeps_nothing(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    store.insert(&[key(1), key(2)]).expect("kept");
    store.destroy(&[key(2).0]).expect("destroyed");
    store.insert(&[key(3), key(4), (key(1).0, key(5).1)]).expect_err("refused");
    assert_eq!(all(&mut *store, 10), [key(1)]);
    store.check().expect("sound");
}

pub(crate) fn a_reopened_store_has_all_keys(fixture: &dyn Fixture) {
    let mut kept = keys(0..3_000);
    let mut store = fixture.open();
    store.insert(&kept).expect("kept");
    store.destroy(&[kept[10].0]).expect("destroyed");
    drop(store);
    let mut store = fixture.open();
    kept.remove(10);
    kept.sort_by_key(|&(id, _)| id);
    assert_eq!(all(&mut *store, 777), kept);
    store.check().expect("sound");
}

pub(crate) fn pages_give_every_key_once_in_order(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let wrapped = key(1).1;
    let mut kept: Vec<_> = (0..20).map(|i| (VersionId([i * 13; 16]), wrapped)).collect();
    kept.push((VersionId([0xff; 16]), wrapped));
    store.insert(&kept).expect("kept");
    kept.sort_by_key(|&(id, _)| id);
    for limit in [1, 2, 20, 21, 22] {
        assert_eq!(all(&mut *store, limit), kept, "{limit} a page");
    }
}

pub(crate) fn a_destroyed_key_is_gone(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    store.insert(&keys(0..10)).expect("kept");
    for _ in 0..2 {
        store.destroy(&[key(4).0, key(8).0, key(99).0]).expect("destroyed");
    }
    assert_eq!(store.get_many(&[key(4).0, key(5).0, key(8).0]).expect("looked up"), [None, Some(key(5).1), None]);
    assert_eq!(store.len().expect("counted"), 8);
    store.insert(&[key(4)]).expect("a restored version can get its key back");
    assert_eq!(store.get(key(4).0).expect("looked up"), Some(key(4).1));
    store.check().expect("sound");
}

pub(crate) fn a_destroyed_key_is_in_no_file(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    // Many inserts with destructions in between, so that the store has grown, shrunk and reused
    // space in every way it can.
    let kept = keys(0..8_000);
    let mut lost = Vec::new();
    for (i, chunk) in kept.chunks(800).enumerate() {
        store.insert(chunk).expect("kept");
        assert_eq!(found_in(&fixture.raw(), chunk).min(4_000), 4_000, "the search finds stored keys");
        let some: Vec<_> = chunk.iter().chain(&kept[..i * 80]).copied().filter(|key| key.0.0[3] % 3 == (i % 3) as u8).collect();
        store.destroy(&some.iter().map(|&(id, _)| id).collect::<Vec<_>>()).expect("destroyed");
        lost.extend(some);
        assert_eq!(found_in(&fixture.raw(), &lost), 0, "after {i} rounds");
    }
    let rest = all(&mut *store, 100_000);
    assert_eq!(rest.len() as u64, store.len().expect("counted"));
    store.destroy(&rest.iter().map(|&(id, _)| id).collect::<Vec<_>>()).expect("destroyed");
    assert_eq!(found_in(&fixture.raw(), &kept), 0);
    drop(store);
    assert_eq!(found_in(&fixture.raw(), &kept), 0);
}

pub(crate) fn places_of_destroyed_keys_are_used_again(fixture: &dyn Fixture) {
    let mut store = fixture.open();
    let mut bytes = None;
    for round in 0..5 {
        let kept = keys(round * 5_000..(round + 1) * 5_000);
        store.insert(&kept).expect("kept");
        store.check().expect("sound");
        store.destroy(&kept.iter().map(|&(id, _)| id).collect::<Vec<_>>()).expect("destroyed");
        store.check().expect("sound");
        let now = fixture.raw().len();
        assert!(now <= *bytes.get_or_insert(now) * 5 / 4, "{now} bytes after round {round}");
    }
}
