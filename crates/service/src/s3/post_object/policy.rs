//! The policy of a form: its expiration and the allowed values of its fields. The author of the
//! form has signed it; the sender fills in the rest.

use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3Result, s3_error};
use serde::Deserialize;
use serde_json::Value;

use super::reader::Fields;
use crate::s3::version::ms_of;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    expiration: String,
    conditions: Vec<Value>,
}

/// A parsed policy.
#[derive(Debug)]
pub(super) struct FormPolicy {
    expires_ms: i64,
    conditions: Vec<Condition>,
}

/// Field names are in lower case.
#[derive(Debug)]
enum Condition {
    Equals { field: String, value: String },
    StartsWith { field: String, prefix: String },
    ContentLengthRange { min: u64, max: u64 },
}

impl FormPolicy {
    /// Parses a policy in Base64.
    ///
    /// # Errors
    /// `InvalidPolicyDocument` if the policy is malformed.
    pub(super) fn parse(text: &str) -> S3Result<Self> {
        let json = base64_simd::STANDARD.decode_to_vec(text).map_err(|_| invalid("it is not Base64"))?;
        let document: Document = serde_json::from_slice(&json).map_err(|error| invalid(&error.to_string()))?;
        // S3 accepts only this form of ISO 8601.
        let is_utc = document.expiration.as_bytes().get(10) == Some(&b'T') && document.expiration.ends_with('Z');
        let expires = Timestamp::parse(TimestampFormat::DateTime, &document.expiration).ok().filter(|_| is_utc);
        let expires = expires.ok_or_else(|| invalid(&format!("'expiration' is {:?}, which is not a UTC time", document.expiration)))?;
        let conditions = document.conditions.iter().map(Condition::parse).collect::<S3Result<_>>()?;
        Ok(Self { expires_ms: ms_of(&expires), conditions })
    }

    /// Checks whether the policy allows a form with these fields, sent to this bucket, now.
    ///
    /// # Errors
    /// `AccessDenied`, with the violated condition.
    pub(super) fn check(&self, fields: &Fields, bucket: &str, now_ms: i64) -> S3Result<()> {
        if now_ms >= self.expires_ms {
            return Err(denied("Policy expired."));
        }
        let value = |field: &str| if field == "bucket" { Some(bucket) } else { fields.get(field) };
        for condition in &self.conditions {
            let (holds, description) = match condition {
                Condition::Equals { field, value: wanted } => (value(field).unwrap_or_default() == wanted, ("eq", field, wanted)),
                Condition::StartsWith { field, prefix } => {
                    (starts_with(field, value(field).unwrap_or_default(), prefix), ("starts-with", field, prefix))
                }
                Condition::ContentLengthRange { .. } => continue,
            };
            if !holds {
                let (operator, field, wanted) = description;
                return Err(denied(&format!("Policy Condition failed: [\"{operator}\", \"${field}\", \"{wanted}\"]")));
            }
        }
        // The bucket comes from the URL, and a condition must cover it.
        let mut submitted = fields.0.keys().map(String::as_str).chain(["bucket"]);
        match submitted.find(|field| !is_exempt(field) && !self.has_condition_on(field)) {
            Some(field) => Err(denied(&format!("Extra input fields: {field}"))),
            None if fields.get("bucket").is_some_and(|named| named != bucket) => Err(denied("The form is for another bucket.")),
            None => Ok(()),
        }
    }

    /// Minimum and maximum size of the file in bytes.
    pub(super) fn content_length_range(&self) -> (u64, u64) {
        self.conditions.iter().fold((0, u64::MAX), |(low, high), condition| match condition {
            Condition::ContentLengthRange { min, max } => (low.max(*min), high.min(*max)),
            _ => (low, high),
        })
    }

    fn has_condition_on(&self, name: &str) -> bool {
        self.conditions.iter().any(|condition| match condition {
            Condition::Equals { field, .. } | Condition::StartsWith { field, .. } => field == name,
            Condition::ContentLengthRange { .. } => false,
        })
    }
}

impl Condition {
    fn parse(value: &Value) -> S3Result<Self> {
        let wrong = || invalid(&format!("{value} is not a condition"));
        let name = |name: &str| name.strip_prefix('$').unwrap_or(name).to_lowercase();
        match value {
            Value::Object(map) => {
                let mut pairs = map.iter();
                match (pairs.next(), pairs.next()) {
                    (Some((field, Value::String(value))), None) => Ok(Self::Equals { field: name(field), value: value.clone() }),
                    _ => Err(wrong()),
                }
            }
            Value::Array(items) => {
                let [Value::String(operator), second, third] = items.as_slice() else { return Err(wrong()) };
                match (operator.to_ascii_lowercase().as_str(), second, third) {
                    ("eq", Value::String(field), Value::String(value)) => Ok(Self::Equals { field: name(field), value: value.clone() }),
                    ("starts-with", Value::String(field), Value::String(prefix)) => {
                        Ok(Self::StartsWith { field: name(field), prefix: prefix.clone() })
                    }
                    ("content-length-range", min, max) => match (number(min), number(max)) {
                        (Some(min), Some(max)) if min <= max => Ok(Self::ContentLengthRange { min, max }),
                        _ => Err(wrong()),
                    },
                    _ => Err(wrong()),
                }
            }
            _ => Err(wrong()),
        }
    }
}

/// A number, possibly as a string.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Fields that a policy need not mention: those of the signature, and those that are ignored.
fn is_exempt(field: &str) -> bool {
    matches!(field, "x-amz-signature" | "signature" | "awsaccesskeyid" | "policy" | "submit") || field.starts_with("x-ignore-")
}

/// For Content-Type, every entry of a comma-separated list must match.
fn starts_with(field: &str, value: &str, prefix: &str) -> bool {
    if field == "content-type" { value.split(',').all(|one| one.trim().starts_with(prefix)) } else { value.starts_with(prefix) }
}

fn invalid(what: &str) -> S3Error {
    s3_error!(InvalidPolicyDocument, "Invalid Policy: {what}.")
}

fn denied(what: &str) -> S3Error {
    s3_error!(AccessDenied, "Invalid according to Policy: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(conditions: &str, fields: &[(&str, &str)]) -> Result<(), String> {
        let document = format!(r#"{{"expiration": "2026-01-01T00:00:00Z", "conditions": {conditions}}}"#);
        let policy =
            FormPolicy::parse(&base64_simd::STANDARD.encode_to_string(document)).map_err(|error| error.code().as_str().to_owned())?;
        let fields = Fields(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
        policy.check(&fields, "b", 1_767_225_599_999).map_err(|error| error.message().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_policy_must_cover_every_field_and_the_bucket() {
        let fields = [("key", "user/a"), ("content-type", "image/png, image/jpeg"), ("x-ignore-me", "x")];
        let all = r#"[{"BUCKET": "b"}, ["starts-with", "$Key", "user/"], ["Starts-With", "$Content-Type", "image/"]]"#;
        assert_eq!(check(all, &fields), Ok(()));
        for (conditions, message) in [
            (r#"[["starts-with", "$key", "user/"], ["starts-with", "$content-type", ""]]"#, "Extra input fields: bucket"),
            (r#"[{"bucket": "b"}, ["eq", "$key", "user/a"]]"#, "Extra input fields: content-type"),
            (r#"[{"bucket": "other"}]"#, "Policy Condition failed: [\"eq\", \"$bucket\", \"other\"]"),
            (r#"[{"x-amz-meta-a": "needed"}]"#, "Policy Condition failed: [\"eq\", \"$x-amz-meta-a\", \"needed\"]"),
            (
                r#"[["starts-with", "$content-type", "image/p"]]"#,
                "Policy Condition failed: [\"starts-with\", \"$content-type\", \"image/p\"]",
            ),
        ] {
            assert_eq!(check(conditions, &fields), Err(format!("Invalid according to Policy: {message}")), "{conditions}");
        }
    }

    #[test]
    fn malformed_policies_are_refused() {
        for conditions in [
            "[{}]",
            r#"[{"a": "b", "c": "d"}]"#,
            r#"[["like", "$key", "a"]]"#,
            r#"[["content-length-range", 0]]"#,
            r#"[["content-length-range", -1, 0]]"#,
            r#"[["content-length-range", 2, 1]]"#,
            r#"["key"]"#,
            r#"[{"key": 1}]"#,
        ] {
            assert_eq!(check(conditions, &[]), Err("InvalidPolicyDocument".to_owned()), "{conditions}");
        }
        for document in [
            r#"{"conditions": []}"#,
            r#"{"expiration": "2026-01-01T00:00:00Z"}"#,
            r#"{"expiration": "2026-01-01 00:00:00+00:00", "conditions": []}"#,
            "{",
        ] {
            assert!(FormPolicy::parse(&base64_simd::STANDARD.encode_to_string(document)).is_err(), "{document}");
        }
    }

    #[test]
    fn a_policy_expires_and_limits_the_length() {
        let document = r#"{"expiration": "2026-01-01T00:00:00.000Z", "conditions": [{"bucket": "b"}, ["content-length-range", 1, "10"]]}"#;
        let policy = FormPolicy::parse(&base64_simd::STANDARD.encode_to_string(document)).expect("a policy");
        assert!(policy.check(&Fields::default(), "b", 1_767_225_599_999).is_ok());
        assert!(policy.check(&Fields::default(), "b", 1_767_225_600_000).is_err());
        assert_eq!(policy.content_length_range(), (1, 10));
    }
}
