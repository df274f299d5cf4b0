//! The evidence of an object's copies as JSON: for `GET /bucket/key?fixity` and for the command
//! line. [docs/s3.md](../../../docs/s3.md) describes the members.

use fulgurite_archive::catalogue::{Health, PlatterRow};
use fulgurite_archive::{CopyState, ObjectFixity, SetFixity, ShardCopy, StagedCopy};
use fulgurite_domain::Medium;
use serde_json::{Value, json};
use time::OffsetDateTime;

/// A time in the format of RFC 3339, in UTC, to the second. `None` after the year 9999, which the
/// format can't express.
#[must_use]
pub fn rfc_3339(unix_s: u64) -> Option<String> {
    let at = OffsetDateTime::from_unix_timestamp(i64::try_from(unix_s).ok()?).ok()?;
    Some(format!("{}T{:02}:{:02}:{:02}Z", at.date(), at.hour(), at.minute(), at.second()))
}

fn time(unix_s: Option<u64>) -> Value {
    unix_s.and_then(rfc_3339).into()
}

/// The members that describe the content and the copies of a version. The caller adds those that
/// name it.
#[must_use]
pub fn to_json(fixity: &ObjectFixity) -> Value {
    let row = &fixity.version;
    let copies: Vec<Value> = fixity.staged.iter().map(staged_json).chain(fixity.shards.iter().map(shard_json)).collect();
    json!({
        "bytes": row.record.size,
        "stored_bytes": row.stored_bytes,
        "encrypted": row.sealed,
        "digests": { "sha256": row.record.sha256.to_string() },
        "oldest_verified": time(fixity.oldest_verified()),
        "platters_to_spare": fixity.platters_to_spare(),
        "platters_short": fixity.platters_short(),
        "copies": copies,
        "sets": fixity.sets.iter().map(set_json).collect::<Vec<_>>(),
    })
}

fn staged_json(copy: &StagedCopy) -> Value {
    json!({
        "kind": "staged",
        "segments": copy.segments.iter().map(|segment| format!("{segment:016x}")).collect::<Vec<_>>(),
        "state": copy.state.word(),
        "verified": time(copy.health.verified),
        "damaged": time(copy.health.damaged),
    })
}

fn shard_json(copy: &ShardCopy) -> Value {
    let health = &copy.health;
    json!({
        "kind": "platter",
        "platter": copy.platter.to_string(),
        "set": copy.set.to_string(),
        "position": copy.position,
        "store": copy.store,
        "offset": copy.object_offset,
        "stored_bytes": copy.bytes,
        "state": copy.state.word(),
        "verified": time(health.verified()),
        "last_check": health.checked.map(|_| last_check_json(health)),
        "unreadable": time(health.unreadable),
        "repaired": health.repaired.map(|repair| json!({
            "at": time(Some(repair.at)),
            "found": repair.found.word(),
            "lost_sectors": repair.lost_sectors,
            "from_set": copy.set.to_string(),
        })),
    })
}

/// A platter by itself, with its state.
pub(crate) fn platter_json(row: &PlatterRow, state: CopyState) -> Value {
    json!({
        "platter": row.place.platter.to_string(),
        "set": row.set.to_string(),
        "position": row.position,
        "store": row.place.store,
        "state": state.word(),
        "verified": time(row.health.verified()),
        "last_check": row.health.checked.map(|_| last_check_json(&row.health)),
    })
}

fn last_check_json(health: &Health) -> Value {
    let found = if health.missing {
        "missing"
    } else if health.is_damaged() {
        "damaged"
    } else {
        "good"
    };
    json!({
        "at": time(health.checked),
        "found": found,
        "lost_sectors": health.lost_sectors,
        "lost_tracks": health.lost_tracks,
        "bad_headers": health.bad_headers,
    })
}

fn set_json(set: &SetFixity) -> Value {
    json!({
        "set": set.id.to_string(),
        "information": set.shape.information,
        "redundancy": set.shape.redundancy,
        "medium": match set.medium {
            Medium::Disk => "disk",
            Medium::Glass => "glass",
        },
        "usable": set.usable,
        "platters_to_spare": set.platters_to_spare(),
        "platters_short": set.platters_short(),
        "oldest_verified": time(set.oldest_verified),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339() {
        assert_eq!(rfc_3339(0).as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!(rfc_3339(951_782_399).as_deref(), Some("2000-02-28T23:59:59Z"));
        assert_eq!(rfc_3339(253_402_300_799).as_deref(), Some("9999-12-31T23:59:59Z"));
        assert_eq!(rfc_3339(253_402_300_800), None);
        assert_eq!(rfc_3339(u64::MAX), None);
    }
}
