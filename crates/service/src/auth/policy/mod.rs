//! Bucket policies: the part of AWS's policy language that decides which account may do what with
//! which keys. A policy with unknown elements is rejected when it is put: an ignored condition
//! would let in the callers it should keep out.
//!
//! ```text
//! JSON -> GivenPolicy (as parsed) -> Policy (validated) -> Decision on a PolicyRequest with its RequestContext
//! ```

mod actions;
mod conditions;
mod context;
mod json;
mod patterns;

pub(crate) use context::{Origin, RequestContext};

use crate::state::Account;
use actions::{is_action, knows_existing_tags};
use conditions::Condition;
use json::{Effect, GivenPolicy, GivenPrincipal, GivenStatement, OneOrMany};
#[cfg(feature = "fuzzing")]
pub(crate) use patterns::Network;
pub(crate) use patterns::like;

/// Maximum length of a policy, the same as AWS.
const BYTES_MAX: usize = 20 << 10;
const ARN: &str = "arn:aws:s3:::";
/// The language version that has policy variables.
const VERSION: &str = "2012-10-17";

#[derive(Debug)]
pub(crate) struct Policy(Vec<Statement>);

#[derive(Debug)]
struct Statement {
    allows: bool,
    principals: Principals,
    actions: Scope,
    resources: Scope,
    conditions: Vec<Condition>,
}

/// The callers that a statement applies to.
#[derive(Debug)]
enum Principals {
    Everybody,
    These(Vec<String>),
    AllBut(Vec<String>),
}

/// Patterns of which at least one must match, or none if `inverted`.
#[derive(Debug)]
struct Scope {
    patterns: Vec<String>,
    inverted: bool,
}

/// Asks whether a caller may do something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PolicyRequest<'a> {
    /// The account; `None` for anonymous callers.
    pub(crate) account: Option<&'a Account>,
    pub(crate) action: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) context: RequestContext<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    Denied,
    /// No statement applies; ownership decides.
    NotApplicable,
}

impl Policy {
    /// Parses a policy. The error is a sentence for the client.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("Policies must not be longer than {BYTES_MAX} bytes."));
        }
        let given: GivenPolicy = serde_json::from_str(text).map_err(|error| format!("The policy is malformed: {error}."))?;
        if given.version.as_deref().is_some_and(|version| !matches!(version, VERSION | "2008-10-17")) {
            return Err("The policy must contain a valid version string.".to_owned());
        }
        let statements = given.statement.all().iter().map(Statement::read).collect::<Result<Vec<_>, _>>()?;
        if statements.is_empty() {
            return Err("The policy has no statement.".to_owned());
        }
        // In older versions, variables are plain text.
        if given.version.as_deref() == Some(VERSION) && given.statement.all().iter().any(has_variable) {
            return Err("Policy variables are not supported.".to_owned());
        }
        Ok(Self(statements))
    }

    /// Validates a new policy for this bucket. The error is a sentence for the client.
    pub(crate) fn check(&self, bucket: &str) -> Result<(), String> {
        // `parse` doesn't apply these rules, since it reads stored policies too: one that is older
        // than a rule would be unreadable, and so deny everything.
        for statement in &self.0 {
            let names = match &statement.principals {
                Principals::Everybody => &[][..],
                Principals::These(names) | Principals::AllBut(names) if names.is_empty() => {
                    return Err("Invalid principal in policy: the list is empty.".to_owned());
                }
                Principals::These(names) | Principals::AllBut(names) => names,
            };
            if names.iter().any(|name| name.trim().is_empty()) {
                return Err("Invalid principal in policy: a name is empty.".to_owned());
            }
            for (what, scope) in [("action", &statement.actions), ("resource", &statement.resources)] {
                if scope.patterns.is_empty() {
                    return Err(format!("Policy has invalid {what}: the list is empty."));
                }
            }
        }
        for resource in self.0.iter().flat_map(|statement| &statement.resources.patterns) {
            let of = resource.strip_prefix(ARN).map(|name| name.split('/').next().unwrap_or_default());
            if !of.is_some_and(|pattern| like(pattern, bucket)) {
                return Err(format!("Policy has invalid resource: {resource} is not in this bucket."));
            }
        }
        Ok(())
    }

    /// Whether each statement names only resources of this bucket, without a pattern for its name.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn names_only(&self, bucket: &str) -> bool {
        let is_of_bucket = |resource: &String| resource.strip_prefix(ARN).and_then(|name| name.split('/').next()) == Some(bucket);
        self.0.iter().all(|statement| !statement.resources.inverted && statement.resources.patterns.iter().all(is_of_bucket))
    }

    /// Whether the policy grants something to everyone.
    pub(crate) fn is_public(&self) -> bool {
        let lets_in = |statement: &Statement| {
            statement.allows
                && matches!(statement.principals, Principals::Everybody)
                && !statement.conditions.iter().any(Condition::is_narrow)
        };
        self.0.iter().any(lets_in)
    }

    /// Whether the decision on an action may depend on the tags that the object has.
    pub(crate) fn asks_tags(&self, action: &str) -> bool {
        knows_existing_tags(action) && self.0.iter().any(|statement| statement.conditions.iter().any(Condition::asks_tags))
    }

    pub(crate) fn asks_new_tags(&self) -> bool {
        self.0.iter().any(|statement| statement.conditions.iter().any(Condition::asks_new_tags))
    }

    pub(crate) fn decide(&self, request: &PolicyRequest<'_>) -> Decision {
        let action = request.action.to_ascii_lowercase();
        let resource = match request.key {
            Some(key) => format!("{ARN}{}/{key}", request.bucket),
            None => format!("{ARN}{}", request.bucket),
        };
        let matching = self.0.iter().filter(|statement| statement.matches(request, &action, &resource));
        matching.fold(Decision::NotApplicable, |decision, statement| match (decision, statement.allows) {
            (Decision::Denied, _) | (_, false) => Decision::Denied,
            (_, true) => Decision::Allowed,
        })
    }
}

impl Statement {
    fn read(given: &GivenStatement) -> Result<Self, String> {
        let allows = given.effect == Effect::Allow;
        let principals = match (&given.principal, &given.not_principal) {
            (Some(principal), None) => Principals::read(principal),
            // NotPrincipal with Allow would grant access to every caller not listed. AWS rejects
            // it too.
            (None, Some(principal)) if !allows => match Principals::read(principal) {
                Some(Principals::These(names)) => Some(Principals::AllBut(names)),
                _ => None,
            },
            _ => None,
        };
        let actions = Scope::read("Action", given.action.as_ref(), given.not_action.as_ref())?;
        if let Some(action) = actions.patterns.iter().find(|action| !is_action(action)) {
            return Err(format!("Policy has invalid action: {action}."));
        }
        let mut conditions = Vec::new();
        for (operator, keys) in &given.condition.0 {
            if keys.0.is_empty() {
                return Err(format!("Policy has an invalid condition: {operator} has no keys."));
            }
            for (key, values) in &keys.0 {
                let values: Vec<&str> = values.all().iter().map(|value| value.0.as_str()).collect();
                conditions.push(Condition::parse(operator, key, &values).ok_or_else(|| {
                    format!("Policy has an invalid condition: {operator} is not supported for {key}, or the value is invalid.")
                })?);
            }
        }
        Ok(Self {
            allows,
            principals: principals.ok_or_else(|| {
                "Invalid principal in policy: use \"*\", {\"AWS\": …} with account names, or {\"CanonicalUser\": …}, and NotPrincipal only with Deny.".to_owned()
            })?,
            actions: Scope { patterns: actions.patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect(), ..actions },
            resources: Scope::read("Resource", given.resource.as_ref(), given.not_resource.as_ref())?,
            conditions,
        })
    }

    fn matches(&self, request: &PolicyRequest<'_>, action: &str, resource: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| is_named(name, request.account));
        let is_principal = match &self.principals {
            Principals::Everybody => true,
            Principals::These(names) => named(names),
            Principals::AllBut(names) => !named(names),
        };
        is_principal
            && self.actions.holds(action)
            && self.resources.holds(resource)
            && self.conditions.iter().all(|condition| condition.holds(&request.context, self.allows))
    }
}

impl Principals {
    fn read(given: &GivenPrincipal) -> Option<Self> {
        match given {
            GivenPrincipal::All(all) => (all == "*").then_some(Self::Everybody),
            GivenPrincipal::Of(of) if of.0.is_empty() || of.0.iter().any(|(kind, _)| !matches!(kind.as_str(), "AWS" | "CanonicalUser")) => {
                None
            }
            GivenPrincipal::Of(of) => {
                let names: Vec<String> = of.0.iter().flat_map(|(_, names)| names.all()).cloned().collect();
                Some(if names.iter().any(|name| name == "*") { Self::Everybody } else { Self::These(names) })
            }
        }
    }
}

/// Whether a principal names the account: by its name, by an ARN with the name
/// (arn:aws:iam::name:root), or by its ID.
fn is_named(principal: &str, account: Option<&Account>) -> bool {
    let name = principal.strip_prefix("arn:aws:iam::").map_or(principal, |rest| rest.split(':').next().unwrap_or_default());
    account.is_some_and(|account| account.name == name || account.id == name)
}

impl Scope {
    fn read(what: &str, one_of: Option<&OneOrMany<String>>, none_of: Option<&OneOrMany<String>>) -> Result<Self, String> {
        match (one_of, none_of) {
            (Some(patterns), None) => Ok(Self { patterns: patterns.all().to_vec(), inverted: false }),
            (None, Some(patterns)) => Ok(Self { patterns: patterns.all().to_vec(), inverted: true }),
            _ => Err(format!("Each statement must have either {what} or Not{what}.")),
        }
    }

    fn holds(&self, text: &str) -> bool {
        self.patterns.iter().any(|pattern| like(pattern, text)) != self.inverted
    }
}

fn has_variable(statement: &GivenStatement) -> bool {
    let scopes = [&statement.resource, &statement.not_resource];
    let resources = scopes.into_iter().flatten().flat_map(OneOrMany::all).map(String::as_str);
    let values = statement.condition.0.iter().flat_map(|(_, keys)| &keys.0).flat_map(|(_, values)| values.all());
    resources.chain(values.map(|value| value.0.as_str())).any(|text| text.contains("${"))
}

#[cfg(test)]
mod tests;
