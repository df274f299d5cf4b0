//! A bucket's lifecycle rules.

use serde::{Deserialize, Serialize};

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// The rules of a bucket, in the order of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Rules(pub(crate) Vec<Rule>);

/// A rule as it is stored, also in the state backup: adding a field changes that format
/// (docs/state-backup.md).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Its name, unique in the bucket.
    pub(crate) id: String,
    /// Whether it is carried out.
    pub(crate) enabled: bool,
    /// The versions it applies to.
    pub(crate) filter: Filter,
    /// What it does with the newest version of a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expiration: Option<Expiration>,
    /// Which other versions it removes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) noncurrent: Option<Noncurrent>,
    /// The age of multipart uploads that it aborts, in days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) abort_uploads_after_days: Option<u32>,
}

/// What a rule applies to: versions for which all of this holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// What the key starts with; `None` if the rule has no prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prefix: Option<String>,
    /// Whether the prefix is an element of the rule itself, the old form, and not of its filter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) old_form: bool,
    /// Tags that the object has: names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<(String, String)>,
    /// Its size in bytes is greater than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) larger_than: Option<u64>,
    /// Its size in bytes is less than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) smaller_than: Option<u64>,
}

/// When the newest version of a name expires: a versioned bucket gets a deletion marker, others
/// lose the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expiration {
    /// At this age. Removes deletion markers of that age too, if they hide nothing.
    Days(u32),
    /// From this time on, in milliseconds since 1970.
    DateMs(i64),
    /// Never: the rule only removes deletion markers that hide nothing.
    Markers,
}

/// Which noncurrent versions are removed: those for which all of this holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noncurrent {
    /// They have been noncurrent for this many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) days: Option<u32>,
    /// At least this many noncurrent versions of the name are newer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) newer: Option<u32>,
}

impl Rules {
    /// The enabled rules.
    pub(crate) fn enabled(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter(|rule| rule.enabled)
    }

    /// Among the enabled rules for this key without an age, the highest number of noncurrent
    /// versions to keep; `None` without such a rule. A put can carry out those rules by itself.
    pub(crate) fn kept_at_put(&self, key: &str) -> Option<u32> {
        let of_numbers =
            |rule: &Rule| rule.noncurrent.filter(|noncurrent| noncurrent.days.is_none()).and_then(|noncurrent| noncurrent.newer);
        self.enabled().filter(|rule| rule.filter.has_prefix_of(key)).filter_map(of_numbers).max()
    }

    /// The shortest prefixes that cover all keys to which a rule may apply.
    pub(crate) fn prefixes(&self) -> Vec<&str> {
        let acts = |rule: &&Rule| rule.expiration.is_some() || rule.noncurrent.is_some();
        let mut prefixes: Vec<&str> = self.enabled().filter(acts).map(|rule| rule.filter.prefix()).collect();
        prefixes.sort_unstable();
        // A prefix comes right before those that start with it.
        prefixes.dedup_by(|longer, shorter| longer.starts_with(*shorter));
        prefixes
    }

    /// A copy with all rules disabled.
    pub(crate) fn disabled(mut self) -> Self {
        self.0.iter_mut().for_each(|rule| rule.enabled = false);
        self
    }
}

impl Filter {
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or_default()
    }

    pub(crate) fn has_prefix_of(&self, key: &str) -> bool {
        key.starts_with(self.prefix())
    }

    pub(crate) fn has_size(&self) -> bool {
        self.larger_than.is_some() || self.smaller_than.is_some()
    }

    /// Whether an object of this size is within the limits.
    pub(crate) fn has_size_of(&self, bytes: u64) -> bool {
        self.larger_than.is_none_or(|limit| bytes > limit) && self.smaller_than.is_none_or(|limit| bytes < limit)
    }
}

/// When an event at `happened_ms` is `days` old by S3's rule: the age, rounded up to midnight UTC,
/// in milliseconds since 1970.
pub(crate) fn due_ms(happened_ms: i64, days: u32) -> i64 {
    let reached = happened_ms.max(0).saturating_add(i64::from(days) * DAY_MS);
    match reached % DAY_MS {
        0 => reached,
        into_the_day => reached.saturating_add(DAY_MS - into_the_day),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: &str, noncurrent: Option<Noncurrent>) -> Rule {
        Rule { enabled: true, filter: Filter { prefix: Some(prefix.to_owned()), ..Filter::default() }, noncurrent, ..Rule::default() }
    }

    #[test]
    fn an_age_is_reached_at_midnight() {
        for (happened_ms, days, due) in [
            (0, 1, DAY_MS),
            (1, 1, 2 * DAY_MS),
            (DAY_MS - 1, 1, 2 * DAY_MS),
            (DAY_MS, 1, 2 * DAY_MS),
            // The example of AWS: 15 January 2014, 10:30, and three days give the 19th.
            (1_389_781_800_000, 3, 1_390_089_600_000),
            (-5, 2, 2 * DAY_MS),
        ] {
            assert_eq!(due_ms(happened_ms, days), due, "{happened_ms} ms and {days} days");
        }
        assert!(due_ms(i64::MAX - 1, u32::MAX) > i64::MAX - DAY_MS, "nothing this late is ever due");
    }

    #[test]
    fn a_shorter_prefix_covers_longer_ones() {
        let all = Some(Noncurrent { days: Some(1), newer: None });
        let prefixes = |prefixes: &[&str]| {
            let rules = Rules(prefixes.iter().map(|prefix| rule(prefix, all)).collect());
            rules.prefixes().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(prefixes(&["b/", "a", "b", "a/x", "c"]), ["a", "b", "c"]);
        assert_eq!(prefixes(&["b", ""]), [""]);
        assert!(prefixes(&[]).is_empty());
        let mut off = Rules(vec![rule("a", all)]);
        off.0[0].enabled = false;
        assert!(off.prefixes().is_empty() && Rules(vec![rule("a", None)]).prefixes().is_empty());
    }

    #[test]
    fn a_put_carries_out_rules_of_numbers_alone() {
        let of = |noncurrent| Some(noncurrent);
        let rules = Rules(vec![
            rule("a", of(Noncurrent { days: None, newer: Some(2) })),
            rule("a/b", of(Noncurrent { days: None, newer: Some(5) })),
            rule("c", of(Noncurrent { days: Some(1), newer: Some(9) })),
        ]);
        assert_eq!((rules.kept_at_put("a"), rules.kept_at_put("a/b/c")), (Some(2), Some(5)));
        assert_eq!((rules.kept_at_put("c"), rules.kept_at_put("d")), (None, None));
        assert_eq!(rules.disabled().kept_at_put("a"), None);
    }
}
