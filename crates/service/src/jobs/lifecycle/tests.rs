use fulgurite_domain::{Attributes, Kind};
use http::Method;
use s3s::dto;

use super::*;
use crate::lifecycle::{Expiration, Filter, Noncurrent, Rule};
use crate::s3::conditions::PutConditions;
use crate::state::{Retention, RetentionMode, VersionState};
use crate::test_gateway::{TestGateway, s3_request, soon};

/// A gateway with a bucket of this versioning and these rules, and nothing that carries them out.
fn with(versioning: Versioning, rules: Vec<Rule>) -> TestGateway {
    let test = TestGateway::new();
    let change = |bucket: &mut Bucket| {
        bucket.versioning = versioning;
        bucket.lifecycle = Some(Rules(rules));
    };
    test.gateway.state.change_bucket("photos", change).expect("changed").expect("it is there");
    test
}

fn keep(newer: u32) -> Rule {
    Rule { enabled: true, noncurrent: Some(Noncurrent { days: None, newer: Some(newer) }), ..Rule::default() }
}

fn expire(expiration: Expiration) -> Rule {
    Rule { enabled: true, expiration: Some(expiration), ..Rule::default() }
}

impl TestGateway {
    /// Puts an object without regard to rules, as before they were put.
    async fn put_before_rules(&self, key: &str, content: &[u8]) {
        let rules = self.bucket().lifecycle.clone();
        self.set_rules(None);
        self.put(key, content).await;
        self.set_rules(rules);
    }

    fn set_rules(&self, rules: Option<Rules>) {
        self.gateway.state.change_bucket("photos", |bucket| bucket.lifecycle = rules).expect("changed").expect("it is there");
    }

    /// Walks the bucket as if so many days had passed. Returns whether nothing failed.
    async fn walk_after(&self, days: i64) -> bool {
        let (_running, stop) = watch::channel(false);
        soon(walk_bucket(&self.gateway, "photos", now_ms() + days * DAY_MS, &stop)).await
    }

    fn versions(&self, key: &str) -> Vec<VersionRow> {
        self.gateway.namespace.versions(&object_name("photos", key)).expect("listed")
    }

    fn sizes(&self, key: &str) -> Vec<u64> {
        self.versions(key).iter().map(|row| row.record.size).collect()
    }

    fn hold(&self, row: &VersionRow) {
        let change = VersionState { legal_hold: Some(true), ..VersionState::default() };
        self.gateway.state.change_version(row.id, &change).expect("changed");
    }
}

#[tokio::test]
async fn a_walk_keeps_so_many_versions_and_those_under_a_hold() {
    let test = with(Versioning::Enabled, vec![keep(1)]);
    for size in 1..=6 {
        test.put_before_rules("a", &vec![0; size]).await;
    }
    test.put_before_rules("b", b"1").await;
    let held = test.versions("a").into_iter().find(|row| row.record.size == 2).expect("it is there");
    test.hold(&held);
    assert!(test.walk_after(0).await);
    assert_eq!((test.sizes("a"), test.sizes("b")), (vec![6, 5, 2], vec![1]));
    let kept = Retention { mode: RetentionMode::Compliance, until_ms: now_ms() + DAY_MS };
    let change = VersionState { legal_hold: Some(false), retention: Some(Some(kept)), ..VersionState::default() };
    test.gateway.state.change_version(held.id, &change).expect("changed");
    assert!(test.walk_after(0).await);
    assert_eq!(test.sizes("a"), [6, 5, 2]);
    assert!(test.walk_after(2).await);
    assert_eq!(test.sizes("a"), [6, 5], "the retention has ended");
}

#[tokio::test]
async fn versions_of_many_names_and_many_versions_of_one_are_removed() {
    let test = with(Versioning::Enabled, vec![keep(2)]);
    // More than a page, and than what is removed at once.
    for number in 0..(REMOVED_AT_ONCE + 40) {
        test.put_before_rules("many", &vec![0; number % 7]).await;
    }
    for name in 0..90 {
        for size in 0..4 {
            test.put_before_rules(&format!("name {name:02}"), &vec![0; size]).await;
        }
    }
    assert!(test.walk_after(0).await);
    assert_eq!(test.versions("many").len(), 3);
    assert!((0..90).all(|name| test.sizes(&format!("name {name:02}")) == [3, 2, 1]));
    let removed = test.gateway.jobs.lifecycle.counts.removed.load(Ordering::Relaxed);
    assert_eq!(removed as usize, REMOVED_AT_ONCE + 40 - 3 + 90);
}

#[tokio::test]
async fn a_put_removes_what_is_outnumbered() {
    let test = with(Versioning::Enabled, vec![keep(2)]);
    for size in 1..=9 {
        test.put("a", &vec![0; size]).await;
    }
    assert_eq!(test.sizes("a"), [9, 8, 7]);
    assert_eq!(test.gateway.jobs.lifecycle.counts.removed_by_puts.load(Ordering::Relaxed), 6);
    test.hold(&test.versions("a")[2]);
    test.put("a", &[0; 10]).await;
    assert_eq!(test.sizes("a"), [10, 9, 8, 7], "the oldest is under a hold");
    // Names that only begin alike are others.
    test.put("a/b", &[0; 3]).await;
    assert_eq!((test.sizes("a").len(), test.sizes("a/b")), (4, vec![3]));
}

#[tokio::test]
async fn with_versioning_suspended_a_put_replaces_the_null_version_and_counts_the_others() {
    let test = with(Versioning::Enabled, vec![keep(2)]);
    for size in 1..=3 {
        test.put("a", &vec![0; size]).await;
    }
    test.gateway.state.change_bucket("photos", |bucket| bucket.versioning = Versioning::Suspended).expect("changed");
    test.put("a", &[0; 4]).await;
    assert_eq!(test.sizes("a"), [4, 3, 2]);
    test.put("a", &[0; 5]).await;
    assert_eq!(test.sizes("a"), [5, 3, 2]);
}

#[tokio::test]
async fn rules_that_are_deleted_disabled_or_for_other_keys_remove_nothing() {
    let other = Rule { filter: Filter { prefix: Some("b".into()), ..Filter::default() }, ..keep(1) };
    let tagged = Rule { filter: Filter { tags: vec![("stage".into(), "raw".into())], ..Filter::default() }, ..keep(1) };
    let test = with(Versioning::Enabled, vec![other, tagged]);
    for size in 1..=4 {
        test.put("a", &vec![0; size]).await;
    }
    assert!(test.walk_after(9).await);
    assert_eq!(test.versions("a").len(), 4);
    let oldest = test.versions("a").pop().expect("it is there");
    let change = VersionState { tags: Some("more=1&stage=raw".into()), ..VersionState::default() };
    test.gateway.state.change_version(oldest.id, &change).expect("changed");
    test.set_rules(test.bucket().lifecycle.clone().map(Rules::disabled));
    assert!(test.walk_after(9).await);
    assert_eq!(test.versions("a").len(), 4);
    let enabled = test.bucket().lifecycle.clone().map(|mut rules| {
        rules.0.iter_mut().for_each(|rule| rule.enabled = true);
        rules
    });
    test.set_rules(enabled);
    assert!(test.walk_after(9).await);
    assert_eq!(test.sizes("a"), [4, 3, 2], "the tagged one");
}

#[tokio::test]
async fn an_expired_object_gets_a_marker_that_goes_once_it_hides_nothing() {
    let test = with(
        Versioning::Enabled,
        vec![Rule { noncurrent: Some(Noncurrent { days: Some(3), newer: None }), ..expire(Expiration::Days(1)) }],
    );
    test.put("a", b"moon").await;
    assert!(test.walk_after(0).await);
    assert_eq!(test.versions("a").len(), 1);
    assert!(test.walk_after(2).await);
    let kinds: Vec<Kind> = test.versions("a").iter().map(|row| row.record.kind).collect();
    assert_eq!(kinds, [Kind::DeletionMarker, Kind::File]);
    // The marker was put now, in truth: the version behind it has been noncurrent since.
    assert!(test.walk_after(2).await);
    assert_eq!(test.versions("a").len(), 2);
    assert!(test.walk_after(4).await);
    assert!(test.versions("a").is_empty());
    let counts = test.gateway.jobs.lifecycle.counts.get();
    assert_eq!(counts, [1, 1, 1, 0, 0]);
}

#[tokio::test]
async fn in_an_unversioned_bucket_an_expired_object_is_removed_unless_it_is_locked() {
    let test = with(Versioning::Never, vec![expire(Expiration::DateMs(0))]);
    test.put("a", b"moon").await;
    test.put("b", b"sun").await;
    test.hold(&test.versions("b")[0]);
    assert!(test.walk_after(0).await, "a locked object is no failure");
    assert_eq!((test.versions("a").len(), test.versions("b").len()), (0, 1));
}

#[tokio::test]
async fn a_marker_stays_while_versions_that_are_not_listed_may_come_back() {
    use fulgurite_archive::catalogue::{Unlisted, UnlistedVersion};
    use fulgurite_domain::VersionId;

    let test = with(Versioning::Enabled, vec![expire(Expiration::Markers)]);
    test.delete("a").await;
    test.put("b", b"moon").await;
    test.delete("b").await;
    let lost = UnlistedVersion { id: VersionId([9; 16]), why: Unlisted::NoKey, stored_bytes: 0, known_as: None, segments: Vec::new() };
    test.gateway.archive.catalogue().adopt_unlisted(std::slice::from_ref(&lost)).expect("recorded");
    assert!(test.walk_after(0).await);
    assert_eq!((test.versions("a").len(), test.versions("b").len()), (1, 2));
    test.gateway.archive.catalogue().forget_unlisted(&[lost.id], &[]).expect("forgotten");
    assert!(test.walk_after(0).await);
    assert_eq!((test.versions("a").len(), test.versions("b").len()), (0, 2));
}

#[tokio::test]
async fn uploads_are_aborted_by_age_and_prefix() {
    let rule = Rule {
        enabled: true,
        filter: Filter { prefix: Some("raw/".into()), ..Filter::default() },
        abort_uploads_after_days: Some(2),
        ..Rule::default()
    };
    let test = with(Versioning::Never, vec![rule]);
    for key in ["raw/a", "other"] {
        let input = dto::CreateMultipartUploadInput { bucket: "photos".into(), key: key.into(), ..Default::default() };
        let mut request = s3_request(Method::POST, input);
        let account = test.gateway.state.account("ada").expect("looked up");
        request.extensions.insert(crate::auth::caller::Caller { account, ..Default::default() });
        test.gateway.namespace.begin_multipart(request).expect("begun");
    }
    let keys = || {
        let uploads = test.gateway.state.uploads("photos", "", ("", ""), 9).expect("listed");
        uploads.into_iter().map(|upload| upload.key).collect::<Vec<_>>()
    };
    assert!(test.walk_after(1).await);
    assert_eq!(keys(), ["other", "raw/a"]);
    assert!(test.walk_after(3).await);
    assert_eq!(keys(), ["other"]);
}

#[tokio::test]
async fn a_version_that_became_the_newest_meanwhile_is_kept() {
    let test = with(Versioning::Enabled, vec![keep(1)]);
    for size in 1..=3 {
        test.put_before_rules("a", &vec![0; size]).await;
    }
    // A walk found the oldest to be due, and waits for the lock that a removal holds.
    let name = object_name("photos", "a");
    let guard = soon(test.gateway.key_locks.lock(name.clone())).await;
    let mut applying = std::pin::pin!(test.gateway.apply_rules("photos", name, now_ms()));
    assert!(futures_util::poll!(&mut applying).is_pending());
    let newest = test.versions("a").remove(0);
    soon(test.gateway.remove(guard, vec![newest])).await.expect("removed");
    soon(applying).await.expect("carried out");
    assert_eq!(test.sizes("a"), [2, 1]);
}

#[tokio::test]
async fn rules_are_carried_out_at_the_start_and_when_they_are_put() {
    let test = with(Versioning::Enabled, vec![keep(1)]);
    for size in 1..=3 {
        test.put_before_rules("a", &vec![0; size]).await;
    }
    let (stop_tx, stop) = watch::channel(false);
    let job = tokio::spawn(run(test.gateway.clone(), stop));
    let until = async |versions: usize| {
        while test.versions("a").len() != versions {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(until(2)).await;
    test.set_rules(None);
    for size in 4..=6 {
        test.put("a", &vec![0; size]).await;
    }
    let rule = dto::LifecycleRule {
        filter: Some(dto::LifecycleRuleFilter::default()),
        noncurrent_version_expiration: Some(dto::NoncurrentVersionExpiration { newer_noncurrent_versions: Some(2), noncurrent_days: None }),
        abort_incomplete_multipart_upload: None,
        expiration: None,
        id: None,
        noncurrent_version_transitions: None,
        prefix: None,
        status: dto::ExpirationStatus::from_static("Enabled"),
        transitions: None,
    };
    let input = dto::PutBucketLifecycleConfigurationInput {
        bucket: "photos".into(),
        lifecycle_configuration: Some(dto::BucketLifecycleConfiguration { rules: vec![rule] }),
        ..Default::default()
    };
    soon(test.gateway.put_lifecycle(s3_request(Method::PUT, input))).await.expect("put");
    soon(until(3)).await;
    stop_tx.send(true).expect("it runs");
    soon(job).await.expect("no panic");
    assert!(test.gateway.jobs.lifecycle.walked_s.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn nothing_is_removed_while_the_state_may_be_another() {
    let test = with(Versioning::Enabled, vec![keep(1)]);
    for size in 1..=3 {
        test.put_before_rules("a", &vec![0; size]).await;
    }
    std::fs::remove_file(test.gateway.archive.home().join("service.db")).expect("removed");
    test.gateway.check_disks();
    assert!(test.gateway.state.is_displaced());
    test.walk_after(9).await;
    let upload = test.upload(b"moon").await;
    let conditions = PutConditions::default();
    soon(test.gateway.store(&test.bucket(), "a", upload, Attributes::default(), &conditions)).await.expect("put");
    assert_eq!(test.versions("a").len(), 4);
}
