//! Bucket policies: the part of AWS's language that says which account may do what with which keys. What isn't understood is refused when it is
//! put, and never passed over: a condition that is ignored would let in whom it keeps out.

use std::collections::BTreeMap;

use serde::Deserialize;

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

/// Whether somebody may do something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// Name of the account; none for whoever signs nothing.
    pub(crate) account: Option<&'a str>,
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
        for statement in self.statement.all() {
            for resource in statement.resource.all() {
                let of = resource.strip_prefix(ARN).map(|name| name.split('/').next().unwrap_or_default());
                if of != Some(bucket) {
                    return Err(format!("Policy has invalid resource: {resource} is not in this bucket."));
                }
            }
            if let Some(action) = statement.action.all().iter().find(|action| !action.starts_with("s3:") && *action != "*") {
                return Err(format!("Policy has invalid action: {action}."));
            }
            match &statement.principal {
                Principal::All(all) if all == "*" => {}
                Principal::Of(of) if of.len() == 1 && of.contains_key("AWS") => {}
                _ => return Err("Invalid principal in policy: \"*\" or {\"AWS\": …} with names of accounts is expected.".to_owned()),
            }
        }
        Ok(())
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
                // An account by its name, or as the last part of an ARN: arn:aws:iam::name:root.
                let named = name.strip_prefix("arn:aws:iam::").map_or(name.as_str(), |rest| rest.split(':').next().unwrap_or_default());
                name == "*" || question.account == Some(named)
            }),
        };
        is_principal
            && self.action.all().iter().any(|action| like(&action.to_ascii_lowercase(), &question.action.to_ascii_lowercase()))
            && self.resource.all().iter().any(|pattern| like(pattern, &resource))
    }
}

/// Whether text is like a pattern, where `*` is any text and `?` any character.
fn like(pattern: &str, text: &str) -> bool {
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

    fn ask(policy: &str, account: Option<&str>, action: &str, key: Option<&str>) -> Answer {
        let policy = Policy::parse(policy).expect("a policy");
        policy.check("b").expect("a policy of this bucket");
        policy.answer(&Question { account, action, bucket: "b", key })
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
        assert!(Policy::parse(&statement(r#", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#)).is_err());
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
