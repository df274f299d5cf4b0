//! Bucket policies: the part of AWS's language that says which account may do what with which keys. What isn't understood is refused when it is
//! put, and never passed over: a condition that is ignored would let in whom it keeps out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;

use crate::state::Account;

/// The longest policy, as with AWS.
const BYTES_MAX: usize = 20 << 10;

/// A policy that was understood.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(crate) struct Policy {
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    #[allow(dead_code, reason = "it names the policy, and is given back as it came")]
    id: Option<String>,
    statement: OneOrMany<Statement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Statement {
    #[serde(default)]
    #[allow(dead_code, reason = "it names the statement")]
    sid: Option<String>,
    effect: Effect,
    principal: Principal,
    action: OneOrMany<String>,
    resource: OneOrMany<String>,
    #[serde(default)]
    condition: BTreeMap<String, BTreeMap<String, OneOrMany<Text>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Effect {
    Allow,
    Deny,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Principal {
    All(String),
    Of(BTreeMap<String, OneOrMany<String>>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// What else conditions ask about.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestFacts<'a> {
    pub(crate) query: Option<&'a str>,
    pub(crate) peer: Option<IpAddr>,
}

/// Whether somebody may do something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) request: RequestFacts<'a>,
    /// The account; none for whoever signs nothing.
    pub(crate) account: Option<&'a Account>,
    pub(crate) action: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) key: Option<&'a str>,
}

/// What a policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allowed,
    Denied,
    /// Nothing: others decide.
    Silent,
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("Policies must not be longer than {BYTES_MAX} bytes."));
        }
        let policy: Self = serde_json::from_str(text).map_err(|error| format!("The policy is not understood: {error}."))?;
        if policy.version.as_deref().is_some_and(|version| !matches!(version, "2012-10-17" | "2008-10-17")) {
            return Err("The policy must contain a valid version string.".to_owned());
        }
        Ok(policy)
    }

    /// Whether the policy is one for this bucket.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub(crate) fn check(&self, bucket: &str) -> Result<(), String> {
        if self.statement.all().is_empty() {
            return Err("The policy has no statement.".to_owned());
        }
        for statement in self.statement.all() {
            for resource in statement.resource.all() {
                let of = resource.strip_prefix(ARN).map(|name| name.split('/').next().unwrap_or_default());
                if of != Some(bucket) {
                    return Err(format!("Policy has invalid resource: {resource} is not in this bucket."));
                }
            }
            if let Some(action) = statement.action.all().iter().find(|action| !is_action(action)) {
                return Err(format!("Policy has invalid action: {action}."));
            }
            match &statement.principal {
                Principal::All(all) if all == "*" => {}
                Principal::Of(of) if !of.is_empty() && of.keys().all(|kind| matches!(kind.as_str(), "AWS" | "CanonicalUser")) => {}
                _ => {
                    return Err(
                        "Invalid principal in policy: \"*\", {\"AWS\": …} with names of accounts, or {\"CanonicalUser\": …} is expected."
                            .to_owned(),
                    );
                }
            }
            for (operator, keys) in &statement.condition {
                for (key, values) in keys {
                    if !values.all().iter().all(|value| understood(operator, key, &value.0)) {
                        return Err(format!(
                            "Policy has an invalid condition: {operator} of {key} is not supported, or not with this value."
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether it lets everybody in somewhere.
    pub(crate) fn is_public(&self) -> bool {
        self.statement.all().iter().any(|statement| {
            let everybody = match &statement.principal {
                Principal::All(_) => true,
                Principal::Of(of) => of.values().flat_map(OneOrMany::all).any(|name| name == "*"),
            };
            everybody && statement.effect == Effect::Allow && statement.condition.is_empty()
        })
    }

    pub(crate) fn answer(&self, question: &Question<'_>) -> Answer {
        let matching = self.statement.all().iter().filter(|statement| statement.matches(question));
        matching.fold(Answer::Silent, |answer, statement| match (answer, statement.effect) {
            (Answer::Denied, _) | (_, Effect::Deny) => Answer::Denied,
            (_, Effect::Allow) => Answer::Allowed,
        })
    }
}

const ARN: &str = "arn:aws:s3:::";

impl Statement {
    fn matches(&self, question: &Question<'_>) -> bool {
        let resource = match question.key {
            Some(key) => format!("{ARN}{}/{key}", question.bucket),
            None => format!("{ARN}{}", question.bucket),
        };
        let is_principal = match &self.principal {
            Principal::All(_) => true,
            Principal::Of(of) => of.values().flat_map(OneOrMany::all).any(|name| {
                // An account by its name, as the middle of an ARN (arn:aws:iam::name:root), or by its identifier.
                let named = name.strip_prefix("arn:aws:iam::").map_or(name.as_str(), |rest| rest.split(':').next().unwrap_or_default());
                name == "*" || question.account.is_some_and(|account| account.name == named || account.id == named)
            }),
        };
        is_principal
            && self.action.all().iter().any(|action| like(&action.to_ascii_lowercase(), &question.action.to_ascii_lowercase()))
            && self.resource.all().iter().any(|pattern| like(pattern, &resource))
            && self
                .condition
                .iter()
                .all(|(operator, keys)| keys.iter().all(|(key, values)| holds(operator, key, values.all(), &question.request)))
    }
}

/// Actions that are asked for here. `access` says which operation asks for which.
const ACTIONS: &str = "AbortMultipartUpload BypassGovernanceRetention DeleteBucket DeleteBucketPolicy DeleteObject DeleteObjectTagging \
    DeleteObjectVersion DeleteObjectVersionTagging GetBucketAcl GetBucketLocation GetBucketObjectLockConfiguration \
    GetBucketOwnershipControls GetBucketPolicy GetBucketPolicyStatus GetBucketTagging GetBucketVersioning GetObject GetObjectAcl \
    GetObjectAttributes GetObjectLegalHold GetObjectRetention GetObjectTagging GetObjectVersion GetObjectVersionAcl \
    GetObjectVersionAttributes GetObjectVersionTagging ListBucket ListBucketMultipartUploads ListBucketVersions \
    ListMultipartUploadParts PutBucketAcl PutBucketObjectLockConfiguration PutBucketPolicy PutBucketTagging PutBucketVersioning \
    PutObject PutObjectAcl PutObjectLegalHold PutObjectRetention PutObjectTagging PutObjectVersionAcl PutObjectVersionTagging \
    RestoreObject";

/// Actions of AWS whose operations are not offered here. To allow or deny them changes nothing, and policies that name them are common.
const IDLE_ACTIONS: &str = "DeleteBucketOwnershipControls DeleteBucketWebsite GetAccelerateConfiguration GetAnalyticsConfiguration GetBucketCORS \
    GetBucketLogging GetBucketNotification GetBucketPublicAccessBlock GetBucketRequestPayment GetBucketWebsite \
    GetEncryptionConfiguration GetIntelligentTieringConfiguration GetInventoryConfiguration GetLifecycleConfiguration \
    GetMetricsConfiguration GetObjectTorrent GetObjectVersionForReplication GetObjectVersionTorrent GetReplicationConfiguration \
    InitiateReplication ObjectOwnerOverrideToBucketOwner PutAccelerateConfiguration PutAnalyticsConfiguration PutBucketCORS \
    PutBucketLogging PutBucketNotification PutBucketOwnershipControls PutBucketPublicAccessBlock PutBucketRequestPayment \
    PutBucketWebsite PutEncryptionConfiguration PutIntelligentTieringConfiguration PutInventoryConfiguration \
    PutLifecycleConfiguration PutMetricsConfiguration PutReplicationConfiguration ReplicateDelete ReplicateObject ReplicateTags";

/// Whether an action, or a pattern of actions, is one of S3. As with AWS, letters may be large or small.
fn is_action(pattern: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    if pattern == "*" {
        return true;
    }
    let Some(pattern) = pattern.strip_prefix("s3:") else { return false };
    ACTIONS.split(' ').chain(IDLE_ACTIONS.split(' ')).any(|action| like(pattern, &action.to_ascii_lowercase()))
}

/// A value of a condition, which may stand there as text, number or yes and no.
#[derive(Debug)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            value @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => Ok(Self(value.to_string())),
            _ => Err(serde::de::Error::custom("text is expected")),
        }
    }
}

/// Whether a condition is one that [`holds`] knows.
fn understood(operator: &str, key: &str, value: &str) -> bool {
    match (operator, key) {
        ("StringEquals" | "StringNotEquals" | "StringLike" | "StringNotLike", "s3:prefix" | "s3:delimiter" | "s3:max-keys") => true,
        ("IpAddress" | "NotIpAddress", "aws:SourceIp") => network(value).is_some(),
        _ => false,
    }
}

/// Whether a condition holds. What a request doesn't say is equal to nothing.
fn holds(operator: &str, key: &str, values: &[Text], request: &RequestFacts<'_>) -> bool {
    if let "IpAddress" | "NotIpAddress" = operator {
        let is_in = request.peer.is_some_and(|peer| values.iter().filter_map(|value| network(&value.0)).any(|network| network.holds(peer)));
        return is_in == (operator == "IpAddress");
    }
    let said = key.strip_prefix("s3:").and_then(|name| parameter(request.query?, name));
    let is_one = said
        .is_some_and(|said| values.iter().any(|value| if operator.ends_with("Like") { like(&value.0, &said) } else { value.0 == said }));
    is_one != operator.contains("Not")
}

/// A parameter of a query.
fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))?;
    crate::tags::decode(value)
}

/// Addresses with the same first bits.
pub(crate) struct Network {
    address: IpAddr,
    bits: u32,
}

pub(crate) fn network(text: &str) -> Option<Network> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
    Some(Network { address, bits })
}

impl Network {
    pub(crate) fn holds(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => (u32::from(own) ^ u32::from(peer)).checked_shr(32 - self.bits).unwrap_or(0) == 0,
            (IpAddr::V6(own), IpAddr::V6(peer)) => (u128::from(own) ^ u128::from(peer)).checked_shr(128 - self.bits).unwrap_or(0) == 0,
            _ => false,
        }
    }
}

/// Whether text is like a pattern, where `*` is any text and `?` any character.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star doesn't fit: one character further.
    let mut retry = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            (p, t) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask_from(policy: &str, query: &str, peer: &str) -> Answer {
        let policy = Policy::parse(policy).expect("a policy");
        policy.check("b").expect("a policy of this bucket");
        let request = RequestFacts { query: Some(query), peer: Some(peer.parse().expect("an address")) };
        policy.answer(&Question { account: None, action: "s3:ListBucket", bucket: "b", key: None, request })
    }

    #[test]
    fn conditions_ask_for_parameters_and_networks() {
        let of = |condition: &str| {
            format!(
                r#"{{"Statement": {{"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b", "Condition": {condition}}}}}"#
            )
        };
        let prefix = of(r#"{"StringLike": {"s3:prefix": ["a/*", "b"]}}"#);
        assert_eq!(ask_from(&prefix, "list-type=2&prefix=a%2Fx", "10.0.0.1"), Answer::Allowed);
        assert_eq!(ask_from(&prefix, "prefix=c", "10.0.0.1"), Answer::Silent);
        assert_eq!(ask_from(&prefix, "", "10.0.0.1"), Answer::Silent);
        let network = of(r#"{"IpAddress": {"aws:SourceIp": "10.1.0.0/16"}}"#);
        assert_eq!(ask_from(&network, "", "10.1.255.1"), Answer::Allowed);
        assert_eq!(ask_from(&network, "", "10.2.0.1"), Answer::Silent);
        assert_eq!(ask_from(&network, "", "::ffff:10.1.0.1"), Answer::Allowed);
        let all = of(r#"{"NotIpAddress": {"aws:SourceIp": "0.0.0.0/0"}}"#);
        assert_eq!(ask_from(&all, "", "10.2.0.1"), Answer::Silent);
        let wrong = Policy::parse(&of(r#"{"IpAddress": {"aws:SourceIp": "10.1.0.0/33"}}"#)).expect("a policy");
        assert!(wrong.check("b").is_err());
        let unknown = Policy::parse(&of(r#"{"Bool": {"aws:MultiFactorAuthPresent": true}}"#)).expect("a policy");
        assert!(unknown.check("b").is_err());
    }

    fn ask(policy: &str, account: Option<&str>, action: &str, key: Option<&str>) -> Answer {
        let policy = Policy::parse(policy).expect("a policy");
        policy.check("b").expect("a policy of this bucket");
        let account = account.map(|name| Account { name: name.to_owned(), id: "0".repeat(64), admin: false });
        policy.answer(&Question { account: account.as_ref(), action, bucket: "b", key, request: RequestFacts::default() })
    }

    #[test]
    fn a_denial_outweighs_whatever_allows() {
        let policy = r#"{"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/public/*"},
            {"Effect": "Deny", "Principal": {"AWS": ["eve"]}, "Action": "s3:*", "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"]}]}"#;
        assert_eq!(ask(policy, None, "s3:GetObject", Some("public/a/b")), Answer::Allowed);
        assert_eq!(ask(policy, None, "s3:GetObject", Some("private")), Answer::Silent);
        assert_eq!(ask(policy, None, "s3:PutObject", Some("public/a")), Answer::Silent);
        assert_eq!(ask(policy, Some("eve"), "s3:GetObject", Some("public/a")), Answer::Denied);
        assert_eq!(ask(policy, Some("eve"), "s3:ListBucket", None), Answer::Denied);
        assert_eq!(ask(policy, Some("ada"), "s3:ListBucket", None), Answer::Silent);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let statement = |extra: &str| {
            format!(
                r#"{{"Statement": {{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"{extra}}}}}"#
            )
        };
        assert!(Policy::parse(&statement("")).is_ok());
        assert!(Policy::parse(&statement(r#", "NotAction": "s3:PutObject""#)).is_err());
        assert!(Policy::parse("[]").is_err());
        let other = Policy::parse(&statement("").replace(":b/", ":c/")).expect("a policy");
        assert!(other.check("b").is_err());
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
        ] {
            assert_eq!(like(pattern, text), fits, "{pattern} {text}");
        }
    }
}
