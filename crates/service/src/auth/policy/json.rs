//! Policies as clients send them, in JSON. Duplicate and unknown members are rejected.
//!
//! serde puts the names of these types into error messages, so renaming one changes a message.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(super) struct GivenPolicy {
    #[serde(default)]
    pub(super) version: Option<String>,
    #[serde(default)]
    #[allow(dead_code, reason = "it names the policy, and is returned as it was sent")]
    id: Option<String>,
    pub(super) statement: OneOrMany<GivenStatement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub(super) struct GivenStatement {
    #[serde(default)]
    #[allow(dead_code, reason = "it names the statement")]
    sid: Option<String>,
    pub(super) effect: Effect,
    pub(super) principal: Option<GivenPrincipal>,
    pub(super) not_principal: Option<GivenPrincipal>,
    pub(super) action: Option<OneOrMany<String>>,
    pub(super) not_action: Option<OneOrMany<String>>,
    pub(super) resource: Option<OneOrMany<String>>,
    pub(super) not_resource: Option<OneOrMany<String>>,
    #[serde(default)]
    pub(super) condition: Pairs<Pairs<OneOrMany<Text>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Effect {
    Allow,
    Deny,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum GivenPrincipal {
    All(String),
    Of(Pairs<OneOrMany<String>>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(super) fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// A value of a condition, given as a string, number or boolean.
#[derive(Debug)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => Ok(Self(text)),
            value @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => Ok(Self(value.to_string())),
            _ => Err(Error::custom("expected a string, number or boolean")),
        }
    }
}

/// The members of an object, without duplicates: a map would keep only one of two.
#[derive(Debug)]
pub(super) struct Pairs<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let mut pairs: Vec<(String, T)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if pairs.iter().any(|(known, _)| *known == name) {
                        return Err(Error::custom(format_args!("duplicate member {name}")));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}
