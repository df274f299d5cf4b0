//! JSON read slice by slice, with every member of every object, so that repeated keys are noticed.
//!
//! A slice refers to the text; nothing is copied until it is wanted. The syntax of the whole text
//! is checked first, without recursion, so deep nesting costs a byte a level.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A slice of JSON text: one value.
pub(crate) type Slice<'a> = &'a RawValue;

/// A member of an object: its key and its value.
pub(crate) type Member<'a> = (Cow<'a, str>, Slice<'a>);

/// Forms of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    List,
    Text,
    Other,
}

/// The whole text as one value.
///
/// # Errors
/// If it isn't JSON.
pub(crate) fn parse(text: &str) -> Result<Slice<'_>, serde_json::Error> {
    serde_json::from_str(text)
}

pub(crate) fn form(slice: Slice<'_>) -> Form {
    match slice.get().as_bytes().first() {
        Some(b'{') => Form::Object,
        Some(b'[') => Form::List,
        Some(b'"') => Form::Text,
        _ => Form::Other,
    }
}

/// The members of an object in the order of the text, repeated keys included. `None` if it isn't an
/// object.
///
/// # Errors
/// If a key has escapes that stand for no character.
pub(crate) fn members(slice: Slice<'_>) -> Result<Option<Vec<Member<'_>>>, serde_json::Error> {
    if form(slice) != Form::Object {
        return Ok(None);
    }
    serde_json::from_str::<Members<'_>>(slice.get()).map(|members| Some(members.0))
}

/// The items of a list. `None` if it isn't a list.
///
/// # Errors
/// If the text is no JSON, which [`parse`] has excluded.
pub(crate) fn items(slice: Slice<'_>) -> Result<Option<Vec<Slice<'_>>>, serde_json::Error> {
    if form(slice) != Form::List {
        return Ok(None);
    }
    serde_json::from_str::<Items<'_>>(slice.get()).map(|items| Some(items.0))
}

/// A text. `None` if the value isn't one.
///
/// # Errors
/// If it has escapes that stand for no character.
pub(crate) fn text(slice: Slice<'_>) -> Result<Option<Cow<'_, str>>, serde_json::Error> {
    if form(slice) != Form::Text {
        return Ok(None);
    }
    serde_json::from_str::<Text<'_>>(slice.get()).map(|text| Some(text.0))
}

struct Members<'a>(Vec<Member<'a>>);
struct Items<'a>(Vec<Slice<'a>>);
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    members.push((key.0, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl<'de> Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Items<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Collect)
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_keys_stay_visible() {
        let slice = parse(r#" {"a": 1, "\u0061": [ {"b": 2} , null ] } "#).unwrap();
        let members = members(slice).unwrap().unwrap();
        assert_eq!(
            members.iter().map(|(key, value)| (&**key, value.get())).collect::<Vec<_>>(),
            [("a", "1"), ("a", r#"[ {"b": 2} , null ]"#)]
        );
        assert_eq!(items(members[1].1).unwrap().unwrap().len(), 2);
        assert!(text(members[0].1).unwrap().is_none());
    }

    #[test]
    fn deep_nesting_neither_overflows_the_stack_nor_fails() {
        let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let outer = items(parse(&deep).unwrap()).unwrap().unwrap();
        assert_eq!(outer.len(), 1);
        assert!(parse(&deep[..1_500_000]).is_err());
    }

    #[test]
    fn malformed_text_is_an_error() {
        for text in ["", "{", "{}x", "{'a':1}", "{\"a\" 1}", "[1,]", "\u{feff}{}", "nul", "\"a\nb\""] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(text(parse(r#""\ud800""#).unwrap()).is_err());
    }
}
