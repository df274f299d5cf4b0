//! Carries out the lifecycle rules of buckets: for all buckets once a day, after midnight (UTC),
//! and for a bucket whose rules were put.
//!
//! A walk reads the catalogue in order of names, page by page, without any lock. It hands each name
//! with something due to [`Gateway::apply_rules`], which judges it again under the name's lock:
//! meanwhile a client may have removed a version, or put one under a legal hold.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulgurite_archive::catalogue::{ListCursor, VersionRow, Versions};
use fulgurite_domain::ObjectName;
use s3s::S3Result;
use s3s::dto::Tag;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::lifecycle::{DAY_MS, Due, Rules, VersionPlace, due_ms};
use crate::s3::errors::{catalogue_failed, internal_error, state_failed};
use crate::s3::namespace::Namespace;
use crate::s3::object_names::{key_of, object_name};
use crate::s3::version::Version;
use crate::state::{Bucket, Versioning, now_ms};

/// Interval of the check for a new day.
const PERIOD: Duration = Duration::from_secs(60);
/// Pause before retrying buckets whose walk failed.
const RETRY_AFTER: Duration = Duration::from_secs(600);
/// Rows that are read at once.
const PAGE_ROWS: usize = 1_000;
/// Versions of a name that are read first.
const FIRST_ROWS: usize = 16;
/// Names whose versions are removed at the same time, so that they share commits.
const NAMES_AT_ONCE: usize = 64;
/// Versions of a name that are removed at once.
const REMOVED_AT_ONCE: usize = 1_000;
/// The walk of a prefix ends after this many failures: their cause probably affects the rest too.
const FAILURES_MAX: u64 = 100;
/// Noncurrent versions that a put looks at beyond those that it keeps. It usually finds one to
/// remove, and more only after the number was lowered; the walk removes what is left.
const BEHIND_KEPT: usize = 8;

/// Progress, and rules that were put and not carried out yet.
#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    changed: Mutex<BTreeSet<String>>,
    wake: Notify,
    pub(crate) counts: Counts,
    /// When all buckets were last walked without a failure, in seconds since 1970; 0 if never.
    pub(crate) walked_s: AtomicU64,
}

/// Actions of rules since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) expired: AtomicU64,
    /// By walks.
    pub(crate) removed: AtomicU64,
    pub(crate) removed_by_puts: AtomicU64,
    pub(crate) markers: AtomicU64,
    pub(crate) uploads: AtomicU64,
    pub(crate) failures: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// What walks did.
    fn get(&self) -> [u64; 5] {
        [&self.expired, &self.removed, &self.markers, &self.uploads, &self.failures].map(|counter| counter.load(Ordering::Relaxed))
    }
}

impl Lifecycle {
    /// Schedules a walk of a bucket.
    pub(crate) fn rules_changed(&self, bucket: &str) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).insert(bucket.to_owned());
        self.wake.notify_one();
    }

    fn take_changed(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Carries out rules until `stop` is set.
pub(crate) async fn run(gateway: Arc<Gateway>, mut stop: watch::Receiver<bool>) {
    let mut walked_day = None;
    let mut retry: Option<(Instant, BTreeSet<String>)> = None;
    while !*stop.borrow() {
        // After service.db was replaced, the current rules are unknown.
        if !gateway.state.is_displaced() {
            let mut names = gateway.jobs.lifecycle.take_changed();
            let had_failed = retry.is_some();
            if let Some((_, again)) = retry.take_if(|(at, _)| *at <= Instant::now()) {
                names.extend(again);
            }
            let day = now_ms().div_euclid(DAY_MS);
            let is_daily = walked_day != Some(day);
            if is_daily {
                match gateway.state.buckets(None) {
                    Ok(buckets) => {
                        names.extend(buckets.into_iter().filter(|bucket| bucket.lifecycle.is_some()).map(|bucket| bucket.name));
                        walked_day = Some(day);
                    }
                    Err(error) => tracing::error!(%error, "can't look for lifecycle rules"),
                }
            }
            let mut failed = BTreeSet::new();
            for name in names {
                if !walk_bucket(&gateway, &name, now_ms(), &stop).await {
                    failed.insert(name);
                }
            }
            if !failed.is_empty() {
                let earlier = retry.take().map(|(_, names)| names).unwrap_or_default();
                failed.extend(earlier);
                retry = Some((Instant::now() + RETRY_AFTER, failed));
            } else if (is_daily || had_failed) && retry.is_none() && walked_day == Some(day) && !*stop.borrow() {
                gateway.jobs.lifecycle.walked_s.store(now_ms().div_euclid(1_000) as u64, Ordering::Relaxed);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = gateway.jobs.lifecycle.wake.notified() => {}
            _ = stop.changed() => {}
        }
    }
}

/// Carries out the rules of a bucket. Returns false if something failed.
async fn walk_bucket(gateway: &Arc<Gateway>, name: &str, now_ms: i64, stop: &watch::Receiver<bool>) -> bool {
    let bucket = match gateway.namespace.bucket(name) {
        Ok(bucket) => bucket,
        Err(error) => return error.code() == &s3s::S3ErrorCode::NoSuchBucket,
    };
    let Some(rules) = &bucket.lifecycle else { return true };
    let (begun, before) = (Instant::now(), gateway.jobs.lifecycle.counts.get());
    let mut is_whole = gateway.abort_uploads(&bucket.name, rules, now_ms, stop).await;
    for prefix in rules.prefixes() {
        is_whole &= walk_prefix(gateway, &bucket, rules, prefix, now_ms, stop).await;
    }
    let after = gateway.jobs.lifecycle.counts.get();
    let [expired, removed, markers, uploads, failures] = std::array::from_fn(|kind| after[kind] - before[kind]);
    let seconds = begun.elapsed().as_secs_f64();
    if failures > 0 {
        tracing::error!(bucket = name, expired, removed, markers, uploads, failures, "some lifecycle rules could not be carried out");
    } else if expired + removed + markers + uploads > 0 {
        tracing::info!(bucket = name, expired, removed, markers, uploads, seconds, "lifecycle rules were carried out");
    }
    is_whole && failures == 0
}

/// What a walk has seen of the current name.
#[derive(Default)]
struct NameSoFar {
    name: Option<ObjectName>,
    place: VersionPlace,
    versions: u64,
    /// Whether something is due regardless of later rows.
    is_due: bool,
    /// Whether a deletion marker is due if it turns out to be alone.
    is_due_alone: bool,
}

impl NameSoFar {
    /// The name, if something is due.
    fn end(self) -> Option<ObjectName> {
        self.name.filter(|_| self.is_due || (self.is_due_alone && self.versions == 1))
    }
}

/// Carries out the rules for keys with a prefix. Returns false if something failed.
async fn walk_prefix(
    gateway: &Arc<Gateway>,
    bucket: &Arc<Bucket>,
    rules: &Rules,
    prefix: &str,
    now_ms: i64,
    stop: &watch::Receiver<bool>,
) -> bool {
    let mut after = None;
    let mut so_far = NameSoFar::default();
    let mut tasks = JoinSet::new();
    let mut failures = 0;
    loop {
        if *stop.borrow() || failures >= FAILURES_MAX {
            break;
        }
        match gateway.namespace.has_other_rules(&bucket.name, rules) {
            Ok(true) => break,
            Ok(false) if !gateway.state.is_displaced() => {}
            _ => {
                failures += 1;
                break;
            }
        }
        let (worker, of, start) = (gateway.clone(), bucket.clone(), object_name(&bucket.name, prefix));
        let page = tokio::task::spawn_blocking(move || worker.namespace.judge_page(&of, &start.0, after, so_far, now_ms));
        let page = match page.await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                tracing::error!(%error, bucket = bucket.name, "can't look for versions that lifecycle rules apply to");
                Counts::add(&gateway.jobs.lifecycle.counts.failures, 1);
                break;
            }
            Err(error) => {
                gateway.log_panic("a walk by lifecycle rules", error);
                Counts::add(&gateway.jobs.lifecycle.counts.failures, 1);
                break;
            }
        };
        for name in page.due {
            while tasks.len() >= NAMES_AT_ONCE {
                failures += end_task(gateway, tasks.join_next().await);
            }
            let (worker, bucket) = (gateway.clone(), bucket.name.clone());
            tasks.spawn(async move { worker.apply_rules(&bucket, name, now_ms).await });
        }
        let Some(next) = page.next else { break };
        (after, so_far) = (Some(next), page.so_far);
    }
    while !tasks.is_empty() {
        failures += end_task(gateway, tasks.join_next().await);
    }
    failures == 0
}

/// Counts a failure of a task.
fn end_task(gateway: &Gateway, result: Option<Result<S3Result<()>, tokio::task::JoinError>>) -> u64 {
    match result {
        None | Some(Ok(Ok(()))) => return 0,
        // Logged where it occurred, with its reason.
        Some(Ok(Err(_))) => {}
        Some(Err(error)) => gateway.log_panic("a removal by lifecycle rules", error),
    }
    Counts::add(&gateway.jobs.lifecycle.counts.failures, 1);
    1
}

/// The result of one page of a walk.
struct JudgedPage {
    /// Names with something due.
    due: Vec<ObjectName>,
    /// Where the next page begins; `None` after the last.
    next: Option<ListCursor>,
    /// What is known of the name that the page ends in.
    so_far: NameSoFar,
}

/// What is due for a name.
#[derive(Debug, Default)]
struct JudgedName {
    /// Noncurrent versions, as many as are removed at once.
    removed: Vec<VersionRow>,
    /// The newest version, and what is due with it.
    newest: Option<(Due, VersionRow)>,
    versions: u64,
}

impl Namespace {
    /// True if the bucket's rules now differ from `rules`.
    fn has_other_rules(&self, bucket: &str, rules: &Rules) -> S3Result<bool> {
        let bucket = self.state.bucket(bucket).map_err(state_failed)?;
        Ok(bucket.is_none_or(|now| now.lifecycle.as_ref() != Some(rules)))
    }

    /// What rules that count versions remove once another version of this name is put, besides
    /// those that it replaces. Locked versions stay.
    pub(crate) fn outnumbered(&self, bucket: &Bucket, key: &str, replaced: &[VersionRow]) -> S3Result<Vec<VersionRow>> {
        let Some(rules) = bucket.lifecycle.as_ref() else { return Ok(Vec::new()) };
        let Some(kept) = rules.kept_at_put(key).filter(|_| !self.state.is_displaced()) else { return Ok(Vec::new()) };
        let name = object_name(&bucket.name, key);
        let from = ListCursor::before_name(name.clone());
        let rows =
            self.archive.reading().list(&name.0, Versions::All, Some(&from), kept as usize + BEHIND_KEPT).map_err(catalogue_failed)?;
        let (now_ms, mut place) = (now_ms(), None);
        let mut removed = Vec::new();
        for row in rows {
            if row.record.name != name {
                break;
            }
            if replaced.iter().any(|other| other.id == row.id) {
                continue;
            }
            let here = place.unwrap_or_else(|| VersionPlace::after_a_put(now_ms));
            place = Some(here.next(&row));
            if self.due(here, rules, key, &row, now_ms)? == Some(Due::Remove) && self.lock_of(&row)?.hold(now_ms, false).is_none() {
                removed.push(row);
            }
        }
        Ok(removed)
    }

    fn due(&self, place: VersionPlace, rules: &Rules, key: &str, row: &VersionRow, now_ms: i64) -> S3Result<Option<Due>> {
        // Looked up once, however many rules ask.
        let mut known: Option<Vec<Tag>> = None;
        place.due(rules, key, row, now_ms, |wanted| {
            let tags = match &mut known {
                Some(tags) => tags,
                None => known.insert(self.tags_of(&Version::new(row.clone()))?),
            };
            let is_there = |(name, value): &(String, String)| {
                tags.iter().any(|tag| tag.key.as_deref() == Some(name) && tag.value.as_deref().unwrap_or_default() == value)
            };
            Ok(wanted.iter().all(is_there))
        })
    }

    /// Reads a page of a walk. Blocks.
    fn judge_page(
        &self,
        bucket: &Bucket,
        prefix: &[u8],
        after: Option<ListCursor>,
        mut so_far: NameSoFar,
        now_ms: i64,
    ) -> S3Result<JudgedPage> {
        let rows = self.archive.reading().list(prefix, Versions::All, after.as_ref(), PAGE_ROWS).map_err(catalogue_failed)?;
        let next = (rows.len() == PAGE_ROWS).then(|| rows.last().map(ListCursor::after_row)).flatten();
        let rules = bucket.lifecycle.as_ref();
        let mut due = Vec::new();
        for row in &rows {
            if so_far.name.as_ref() != Some(&row.record.name) {
                let earlier = std::mem::replace(&mut so_far, NameSoFar { name: Some(row.record.name.clone()), ..NameSoFar::default() });
                due.extend(earlier.end());
            }
            // S3 can't express a name that isn't UTF-8, so no rule names it.
            if let (Some(rules), Some(key)) = (rules, key_of(&bucket.name, &row.record.name)) {
                match self.due(so_far.place, rules, key, row, now_ms)? {
                    None => {}
                    Some(Due::RemoveIfAlone) => so_far.is_due_alone = true,
                    Some(Due::Expire | Due::Remove) => so_far.is_due = true,
                }
            }
            so_far.place = so_far.place.next(row);
            so_far.versions += 1;
        }
        if next.is_none() {
            due.extend(std::mem::take(&mut so_far).end());
        }
        Ok(JudgedPage { due, next, so_far })
    }

    /// What is due for a name now, except locked versions.
    fn judge_name(&self, rules: &Rules, name: &ObjectName, key: &str, now_ms: i64) -> S3Result<JudgedName> {
        let (mut place, mut judged) = (VersionPlace::default(), JudgedName::default());
        let mut after = ListCursor::before_name(name.clone());
        // Most names have few versions, and rows of other names would be read for nothing.
        let mut limit = FIRST_ROWS;
        loop {
            let rows = self.archive.reading().list(&name.0, Versions::All, Some(&after), limit).map_err(catalogue_failed)?;
            let is_last = rows.len() < limit;
            limit = PAGE_ROWS;
            for row in rows {
                if row.record.name != *name || judged.removed.len() == REMOVED_AT_ONCE {
                    return Ok(judged);
                }
                let here = place;
                place = here.next(&row);
                after = ListCursor::after_row(&row);
                judged.versions += 1;
                match self.due(here, rules, key, &row, now_ms)? {
                    None => {}
                    Some(Due::Remove) if self.lock_of(&row)?.hold(now_ms, false).is_some() => {}
                    Some(Due::Remove) => judged.removed.push(row),
                    Some(due) => judged.newest = Some((due, row)),
                }
            }
            if is_last {
                return Ok(judged);
            }
        }
    }

    /// Whether an object can be expired: whether no version is locked that its deletion removes.
    fn may_expire(&self, bucket: &Bucket, name: &ObjectName, now_ms: i64) -> S3Result<bool> {
        // Those that the deletion removes.
        let removed = match bucket.versioning {
            Versioning::Enabled => Vec::new(),
            Versioning::Suspended => self.archive.reading().null_version(name).map_err(catalogue_failed)?.into_iter().collect(),
            Versioning::Never => self.versions(name)?,
        };
        for row in removed {
            if self.lock_of(&row)?.hold(now_ms, false).is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a deletion marker without other versions hides nothing. Versions whose keys are
    /// missing aren't listed, and may come back.
    fn hides_nothing(&self) -> S3Result<bool> {
        Ok(self.archive.reading().unlisted_count().map_err(catalogue_failed)? == 0)
    }
}

impl Gateway {
    /// Carries out the rules for one name.
    async fn apply_rules(&self, bucket: &str, name: ObjectName, now_ms: i64) -> S3Result<()> {
        let applied = self.apply_rules_to(bucket, &name, now_ms).await;
        if let Err(error) = &applied {
            let key = key_of(bucket, &name).unwrap_or_default();
            tracing::error!(%error, bucket, key, "can't carry out lifecycle rules");
        }
        applied
    }

    async fn apply_rules_to(&self, bucket: &str, name: &ObjectName, now_ms: i64) -> S3Result<()> {
        let Some(key) = key_of(bucket, name) else { return Ok(()) };
        let counts = &self.jobs.lifecycle.counts;
        loop {
            let key_guard = self.key_locks.lock(name.clone()).await;
            let shared = self.bucket_locks.shared(bucket).await;
            let Some(bucket) = self.state.bucket(bucket).map_err(state_failed)? else { return Ok(()) };
            let Some(rules) = bucket.lifecycle.as_ref().filter(|_| !self.state.is_displaced()) else { return Ok(()) };
            // A name may have very many versions.
            let (namespace, of, judged_name) = (self.namespace.clone(), rules.clone(), name.clone());
            let judged_key = key.to_owned();
            let judging = tokio::task::spawn_blocking(move || namespace.judge_name(&of, &judged_name, &judged_key, now_ms));
            let judged = judging.await.map_err(internal_error("judging versions by lifecycle rules"))??;
            if !judged.removed.is_empty() {
                let count = judged.removed.len();
                self.remove((key_guard, shared), judged.removed).await?;
                Counts::add(&counts.removed, count);
                // A deletion marker may now be the only version.
                continue;
            }
            match judged.newest {
                Some((Due::Expire, _)) if self.namespace.may_expire(&bucket, name, now_ms)? => {
                    self.delete_newest(&bucket, name.clone(), (key_guard, shared), false).await?;
                    Counts::add(&counts.expired, 1);
                }
                Some((Due::RemoveIfAlone, row)) if judged.versions == 1 && self.namespace.hides_nothing()? => {
                    self.remove((key_guard, shared), vec![row]).await?;
                    Counts::add(&counts.markers, 1);
                }
                _ => {}
            }
            return Ok(());
        }
    }

    /// Aborts multipart uploads by the rules of a bucket. Returns false if something failed.
    async fn abort_uploads(&self, bucket: &str, rules: &Rules, now_ms: i64, stop: &watch::Receiver<bool>) -> bool {
        let mut is_whole = true;
        for rule in rules.enabled() {
            let Some(days) = rule.abort_uploads_after_days else { continue };
            let mut after = (String::new(), String::new());
            loop {
                let uploads = match self.state.uploads(bucket, rule.filter.prefix(), (&after.0, &after.1), PAGE_ROWS) {
                    Ok(uploads) => uploads,
                    Err(error) => {
                        tracing::error!(%error, bucket, "can't look for multipart uploads that lifecycle rules apply to");
                        Counts::add(&self.jobs.lifecycle.counts.failures, 1);
                        return false;
                    }
                };
                let Some(last) = uploads.last() else { break };
                after = (last.key.clone(), last.id.clone());
                for upload in uploads.iter().filter(|upload| due_ms(upload.created_ms, days) <= now_ms) {
                    // A completion in progress reads the parts.
                    let _upload_guard = self.lock_upload(&upload.id).await;
                    // A change of the rules waits for this upload, and ends the walk.
                    let _shared = self.bucket_locks.shared(bucket).await;
                    match self.namespace.has_other_rules(bucket, rules) {
                        Ok(false) if !*stop.borrow() && !self.state.is_displaced() => {}
                        Ok(_) => return is_whole && !self.state.is_displaced(),
                        Err(_) => return false,
                    }
                    match self.end_upload(&upload.id) {
                        Ok(()) => Counts::add(&self.jobs.lifecycle.counts.uploads, 1),
                        Err(_) => {
                            is_whole = false;
                            Counts::add(&self.jobs.lifecycle.counts.failures, 1);
                        }
                    }
                }
            }
        }
        is_whole
    }
}

#[cfg(test)]
mod tests;
