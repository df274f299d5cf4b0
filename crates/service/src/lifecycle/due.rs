//! Which versions of a name the rules apply to now.

use fulgurite_archive::catalogue::VersionRow;
use fulgurite_domain::Kind;

use super::rules::{Expiration, Rule, Rules, due_ms};

/// What the rules do with a version now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// The newest version: the object is deleted, as by a request without a version.
    Expire,
    /// A noncurrent version: it is removed permanently.
    Remove,
    /// A deletion marker: it is removed if the name has no other version.
    RemoveIfAlone,
}

/// A version's position among the versions of its name, newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct VersionPlace {
    /// When the next newer version was put, in milliseconds since 1970; `None` for the newest.
    noncurrent_since_ms: Option<i64>,
    /// Number of newer noncurrent versions with content.
    newer: u64,
}

impl VersionPlace {
    /// The place of the current newest version after a put at `now_ms`.
    pub(crate) fn after_a_put(now_ms: i64) -> Self {
        Self { noncurrent_since_ms: Some(now_ms), newer: 0 }
    }

    /// The place of the next older version.
    pub(crate) fn next(self, row: &VersionRow) -> Self {
        let is_noncurrent = self.noncurrent_since_ms.is_some();
        // Deletion markers aren't counted, so that a rule that counts versions always keeps that
        // many with content.
        let newer = self.newer + u64::from(is_noncurrent && row.record.kind != Kind::DeletionMarker);
        Self { noncurrent_since_ms: Some(created_ms(row)), newer }
    }

    /// What the rules do with the version at this place. `has_tags` returns whether the version has
    /// all of the given tags.
    ///
    /// # Errors
    /// Those of `has_tags`.
    pub(crate) fn due<E>(
        self,
        rules: &Rules,
        key: &str,
        row: &VersionRow,
        now_ms: i64,
        mut has_tags: impl FnMut(&[(String, String)]) -> Result<bool, E>,
    ) -> Result<Option<Due>, E> {
        for rule in rules.enabled().filter(|rule| rule.filter.has_prefix_of(key)) {
            let Some(due) = self.due_by(rule, row, now_ms) else { continue };
            let is_marker = row.record.kind == Kind::DeletionMarker;
            // A marker has neither size nor tags.
            if is_marker && (rule.filter.has_size() || !rule.filter.tags.is_empty()) || !rule.filter.has_size_of(row.record.size) {
                continue;
            }
            if rule.filter.tags.is_empty() || has_tags(&rule.filter.tags)? {
                return Ok(Some(due));
            }
        }
        Ok(None)
    }

    fn due_by(self, rule: &Rule, row: &VersionRow, now_ms: i64) -> Option<Due> {
        let is_old = |since_ms: i64, days: u32| due_ms(since_ms, days) <= now_ms;
        let Some(since_ms) = self.noncurrent_since_ms else {
            let is_marker = row.record.kind == Kind::DeletionMarker;
            let is_due = match rule.expiration? {
                Expiration::Days(days) => is_old(created_ms(row), days),
                Expiration::DateMs(date_ms) => date_ms <= now_ms && !is_marker,
                Expiration::Markers => is_marker,
            };
            return is_due.then_some(if is_marker { Due::RemoveIfAlone } else { Due::Expire });
        };
        let noncurrent = rule.noncurrent?;
        // If the clock was set back, a version's put time may be later than its successor's.
        let since_ms = since_ms.max(created_ms(row));
        let is_due = noncurrent.days.is_none_or(|days| is_old(since_ms, days))
            && noncurrent.newer.is_none_or(|newer| self.newer >= u64::from(newer));
        is_due.then_some(Due::Remove)
    }
}

fn created_ms(row: &VersionRow) -> i64 {
    i64::try_from(row.record.created_ms).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use fulgurite_archive::catalogue::VersionRowId;
    use fulgurite_domain::{Attributes, Digest, ObjectName, ObjectRecord, VersionId};

    use super::*;
    use crate::lifecycle::{DAY_MS, Filter, Noncurrent};

    fn row(kind: Kind, created_ms: i64, size: u64) -> VersionRow {
        let (name, sha256) = (ObjectName(b"bucket/key".to_vec()), Digest([0; 32]));
        let attributes = Attributes::default();
        let record =
            ObjectRecord { name, version: 1, kind, size, sha256, modified: None, mode: None, created_ms: created_ms as u64, attributes };
        VersionRow { row_id: VersionRowId(1), id: VersionId([1; 16]), record, sealed: true, stored_bytes: size, archived: false }
    }

    fn rule(expiration: Option<Expiration>, noncurrent: Option<Noncurrent>) -> Rules {
        Rules(vec![Rule { enabled: true, expiration, noncurrent, ..Rule::default() }])
    }

    /// What is done with each of these versions, newest first, none of which has tags.
    fn judged(rules: &Rules, rows: &[VersionRow], now_ms: i64) -> Vec<Option<Due>> {
        let mut place = VersionPlace::default();
        let each = |row: &VersionRow| {
            let due = place.due(rules, "key", row, now_ms, |_| Ok::<_, Infallible>(false)).expect("infallible");
            place = place.next(row);
            due
        };
        rows.iter().map(each).collect()
    }

    const DAYS: fn(i64) -> i64 = |days| days * DAY_MS;

    #[test]
    fn a_noncurrent_version_ages_from_the_put_of_the_next_one() {
        let rows = [row(Kind::File, DAYS(30), 1), row(Kind::File, DAYS(20), 1), row(Kind::File, DAYS(1), 1)];
        let rules = rule(None, Some(Noncurrent { days: Some(10), newer: None }));
        assert_eq!(judged(&rules, &rows, DAYS(30)), [None, None, Some(Due::Remove)]);
        assert_eq!(judged(&rules, &rows, DAYS(40) - 1), [None, None, Some(Due::Remove)]);
        assert_eq!(judged(&rules, &rows, DAYS(40)), [None, Some(Due::Remove), Some(Due::Remove)]);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_version_older() {
        let rows = [row(Kind::File, 0, 1), row(Kind::File, DAYS(50), 1)];
        let rules = rule(None, Some(Noncurrent { days: Some(10), newer: None }));
        assert_eq!(judged(&rules, &rows, DAYS(59)), [None, None]);
        assert_eq!(judged(&rules, &rows, DAYS(60)), [None, Some(Due::Remove)]);
    }

    #[test]
    fn a_rule_keeps_that_many_versions_with_content() {
        let kinds = [Kind::File, Kind::File, Kind::DeletionMarker, Kind::File, Kind::DeletionMarker, Kind::File];
        let rows = kinds.map(|kind| row(kind, 0, 1));
        let removed = |newer, days| {
            let rules = rule(None, Some(Noncurrent { days, newer: Some(newer) }));
            judged(&rules, &rows, DAYS(9)).iter().map(Option::is_some).collect::<Vec<_>>()
        };
        assert_eq!(removed(1, None), [false, false, true, true, true, true]);
        assert_eq!(removed(2, None), [false, false, false, false, true, true]);
        assert_eq!(removed(3, None), [false; 6], "the last is one of three");
        assert_eq!(removed(2, Some(9)), [false, false, false, false, true, true]);
        assert_eq!(removed(2, Some(10)), [false; 6]);
    }

    #[test]
    fn a_put_makes_the_newest_version_noncurrent() {
        let rules = rule(None, Some(Noncurrent { days: None, newer: Some(1) }));
        let rows = [row(Kind::File, 0, 1), row(Kind::File, 0, 1)];
        let first = VersionPlace::after_a_put(DAYS(1));
        let due = |place: VersionPlace, row| place.due(&rules, "key", row, DAYS(1), |_| Ok::<_, Infallible>(true)).expect("infallible");
        assert_eq!((due(first, &rows[0]), due(first.next(&rows[0]), &rows[1])), (None, Some(Due::Remove)));
    }

    #[test]
    fn the_newest_version_expires_by_age_or_date() {
        let (file, marker) = (row(Kind::File, DAYS(5) + 1, 1), row(Kind::DeletionMarker, DAYS(5) + 1, 0));
        let one = |expiration, row: &VersionRow, now_ms| judged(&rule(Some(expiration), None), std::slice::from_ref(row), now_ms)[0];
        assert_eq!(one(Expiration::Days(1), &file, DAYS(7) - 1), None);
        assert_eq!(one(Expiration::Days(1), &file, DAYS(7)), Some(Due::Expire));
        assert_eq!(one(Expiration::Days(1), &marker, DAYS(7) - 1), None);
        assert_eq!(one(Expiration::Days(1), &marker, DAYS(7)), Some(Due::RemoveIfAlone));
        assert_eq!(one(Expiration::DateMs(DAYS(7)), &file, DAYS(7) - 1), None);
        assert_eq!(one(Expiration::DateMs(DAYS(7)), &file, DAYS(7)), Some(Due::Expire));
        assert_eq!(one(Expiration::DateMs(DAYS(7)), &marker, DAYS(7)), None);
        assert_eq!(one(Expiration::Markers, &file, DAYS(99)), None);
        assert_eq!(one(Expiration::Markers, &marker, DAYS(5)), Some(Due::RemoveIfAlone));
    }

    #[test]
    fn all_conditions_of_a_filter_must_match() {
        let all = Some(Noncurrent { days: None, newer: Some(0) });
        let rows = [row(Kind::File, 0, 5), row(Kind::File, 0, 5), row(Kind::DeletionMarker, 0, 0)];
        let removed = |filter: Filter, tagged: bool| {
            let rules = Rules(vec![Rule { enabled: true, filter, noncurrent: all, ..Rule::default() }]);
            let place = VersionPlace::default().next(&rows[0]);
            let due = |row| place.due(&rules, "a/key", row, 0, |_| Ok::<_, Infallible>(tagged)).expect("infallible").is_some();
            (due(&rows[1]), due(&rows[2]))
        };
        let none = Filter::default();
        assert_eq!(removed(none.clone(), false), (true, true));
        assert_eq!(removed(Filter { prefix: Some("a/".into()), ..none.clone() }, false), (true, true));
        assert_eq!(removed(Filter { prefix: Some("b/".into()), ..none.clone() }, false), (false, false));
        assert_eq!(removed(Filter { larger_than: Some(5), ..none.clone() }, false), (false, false));
        assert_eq!(removed(Filter { larger_than: Some(4), smaller_than: Some(6), ..none.clone() }, false), (true, false));
        assert_eq!(removed(Filter { smaller_than: Some(5), ..none.clone() }, false), (false, false));
        let tagged = Filter { tags: vec![("keep".into(), "no".into())], ..none };
        assert_eq!(removed(tagged.clone(), false), (false, false));
        assert_eq!(removed(tagged, true), (true, false));
    }

    #[test]
    fn a_disabled_rule_does_nothing() {
        let rules = rule(Some(Expiration::Days(1)), Some(Noncurrent { days: Some(1), newer: None })).disabled();
        assert_eq!(judged(&rules, &[row(Kind::File, 0, 1), row(Kind::File, 0, 1)], DAYS(99)), [None, None]);
    }
}
