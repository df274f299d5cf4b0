//! Object lock: retention and legal hold of versions. The same rules apply to every removal: over
//! S3 or by the command line, explicit or by replacing the version.

use std::fmt;

use fulgurite_domain::{Kind, ObjectRecord};

use crate::s3::version::attribute;
use crate::state::{Retention, RetentionMode, VersionState, date};

/// The protection of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lock {
    /// Retention mode and end; the end may be in the past.
    pub retention: Option<Retention>,
    /// Whether the version is under legal hold.
    pub legal_hold: bool,
}

/// Why a version can't be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Until the hold is lifted.
    Legal,
    /// Until the retention ends.
    Retention(Retention),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Legal => write!(f, "under legal hold"),
            Self::Retention(Retention { mode, until_ms }) => {
                let mode = match mode {
                    RetentionMode::Governance => "governance",
                    RetentionMode::Compliance => "compliance",
                };
                write!(f, "under retention in {mode} mode until {}", date(*until_ms))
            }
        }
    }
}

impl Lock {
    /// The lock of a version: from its mutable state, else from the attributes it was put with.
    /// Deletion markers are never locked.
    #[must_use]
    pub fn of(record: &ObjectRecord, state: &VersionState) -> Self {
        if record.kind == Kind::DeletionMarker {
            return Self::default();
        }
        let attributes = &record.attributes;
        let put_with = || {
            let (mode, until) = (attributes.get(attribute::RETENTION_MODE), attributes.get(attribute::RETENTION_UNTIL));
            if (mode, until) == (None, None) {
                return None;
            }
            // Unreadable values protect the version: a newer program may have written them.
            let mode = attributes.text(attribute::RETENTION_MODE).map_or(RetentionMode::Compliance, RetentionMode::parse_strictly);
            let until_ms = attributes.text(attribute::RETENTION_UNTIL).and_then(|until| until.parse().ok()).unwrap_or(i64::MAX);
            Some(Retention { mode, until_ms })
        };
        Self {
            retention: state.retention.unwrap_or_else(put_with),
            legal_hold: state.legal_hold.unwrap_or_else(|| attributes.get(attribute::LEGAL_HOLD).is_some()),
        }
    }

    /// Why the version can't be removed at `now_ms` (milliseconds since 1970); `None` if it can.
    /// Callers with the right to bypass governance override retention in governance mode. Nothing
    /// overrides compliance mode or a legal hold.
    #[must_use]
    pub fn hold(self, now_ms: i64, bypasses_governance: bool) -> Option<Hold> {
        if self.legal_hold {
            return Some(Hold::Legal);
        }
        let retention = self.retention.filter(|retention| retention.until_ms > now_ms)?;
        let is_bypassed = bypasses_governance && retention.mode == RetentionMode::Governance;
        (!is_bypassed).then_some(Hold::Retention(retention))
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::{Attributes, Digest, ObjectName};

    use super::*;

    fn record(kind: Kind, attributes: &[(&str, &str)]) -> ObjectRecord {
        let attributes = Attributes(attributes.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect());
        let (name, sha256) = (ObjectName(b"bucket/key".to_vec()), Digest([0; 32]));
        ObjectRecord { name, version: 1, kind, size: 0, sha256, modified: None, mode: None, created_ms: 0, attributes }
    }

    const GOVERNED: &[(&str, &str)] = &[(attribute::RETENTION_MODE, "GOVERNANCE"), (attribute::RETENTION_UNTIL, "2000")];
    const COMPLIANT: &[(&str, &str)] = &[(attribute::RETENTION_MODE, "COMPLIANCE"), (attribute::RETENTION_UNTIL, "2000")];

    #[test]
    fn only_governance_mode_can_be_bypassed() {
        let nothing = VersionState::default();
        let governed = Lock::of(&record(Kind::File, GOVERNED), &nothing);
        let compliant = Lock::of(&record(Kind::File, COMPLIANT), &nothing);
        let held = Lock::of(&record(Kind::File, &[(attribute::LEGAL_HOLD, "ON")]), &nothing);
        assert!(matches!(governed.hold(1_999, false), Some(Hold::Retention(_))));
        assert_eq!((governed.hold(1_999, true), governed.hold(2_000, false)), (None, None));
        assert!(matches!(compliant.hold(1_999, true), Some(Hold::Retention(_))));
        assert_eq!(compliant.hold(2_000, false), None);
        assert_eq!(held.hold(i64::MAX, true), Some(Hold::Legal));
        assert_eq!(Lock::of(&record(Kind::DeletionMarker, COMPLIANT), &nothing).hold(0, false), None);
        let told = compliant.hold(0, false).map(|hold| hold.to_string());
        assert_eq!(told.as_deref(), Some("under retention in compliance mode until 1970-01-01 00:00:02 UTC"));
    }

    #[test]
    fn an_unreadable_lock_protects() {
        let hold = |attributes: &[(&str, &str)]| Lock::of(&record(Kind::File, attributes), &VersionState::default()).hold(1_999, true);
        let until = (attribute::RETENTION_UNTIL, "2000");
        for unreadable in [
            &[(attribute::RETENTION_MODE, "FIRM"), until][..],
            &[until],
            &[(attribute::RETENTION_MODE, "GOVERNED"), (attribute::RETENTION_UNTIL, "soon")],
        ] {
            assert!(matches!(hold(unreadable), Some(Hold::Retention(_))), "{unreadable:?}");
        }
        assert_eq!(hold(&[]), None);
    }

    #[test]
    fn mutable_state_overrides_the_attributes_of_a_version() {
        let longer = Retention { mode: RetentionMode::Compliance, until_ms: 9_000 };
        let state = VersionState { retention: Some(Some(longer)), legal_hold: Some(true), ..VersionState::default() };
        assert_eq!(Lock::of(&record(Kind::File, GOVERNED), &state), Lock { retention: Some(longer), legal_hold: true });
        let freed = VersionState { retention: Some(None), legal_hold: Some(false), ..VersionState::default() };
        let put_with = [GOVERNED, &[(attribute::LEGAL_HOLD, "ON")]].concat();
        assert_eq!(Lock::of(&record(Kind::File, &put_with), &freed), Lock::default());
        let tagged = VersionState { tags: Some("a=b".into()), ..VersionState::default() };
        assert!(Lock::of(&record(Kind::File, &put_with), &tagged).legal_hold, "tags say nothing of locks");
    }
}
