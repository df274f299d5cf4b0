//! Schemas, parsed from their JSON.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// A schema: its types, each with the numbers of the types inside of it. Named types may contain
/// themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    types: Vec<Type>,
    root: usize,
}

/// A type; others are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(Vec<String>),
    Array(usize),
    Map(usize),
    Union(Vec<usize>),
    Record(Vec<(String, usize)>),
}

/// Why a schema can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It isn't JSON.
    #[error("the schema isn't JSON: {0}")]
    Json(String),
    /// It isn't an Avro schema.
    #[error("the schema is invalid: {0}")]
    Invalid(String),
}

fn invalid<T>(why: impl Into<String>) -> Result<T, SchemaError> {
    Err(SchemaError::Invalid(why.into()))
}

/// Maximum depth of a schema's text.
const DEPTH_MAX: usize = 64;

impl Schema {
    /// Parses a schema.
    ///
    /// # Errors
    /// [`SchemaError`] if the text isn't a complete Avro schema.
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        let json: Value = serde_json::from_str(json).map_err(|error| SchemaError::Json(error.to_string()))?;
        let mut parser = Parser { types: Vec::new(), names: HashMap::new() };
        let root = parser.parse(&json, "", 0)?;
        Ok(Self { types: parser.types, root })
    }

    pub(super) fn root(&self) -> usize {
        self.root
    }

    pub(super) fn get(&self, number: usize) -> &Type {
        &self.types[number]
    }

    /// The names of the fields, if this is a record.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        let fields = match self.get(self.root) {
            Type::Record(fields) => fields.as_slice(),
            _ => &[],
        };
        fields.iter().map(|(name, _)| name.as_str())
    }

    /// Whether a field has bytes, at whatever depth.
    #[must_use]
    pub fn has_bytes(&self, field: &str) -> bool {
        let Type::Record(fields) = self.get(self.root) else { return false };
        let mut left: Vec<usize> = fields.iter().filter(|(name, _)| name == field).map(|(_, number)| *number).collect();
        let mut seen = HashSet::new();
        while let Some(number) = left.pop() {
            if !seen.insert(number) {
                continue;
            }
            match self.get(number) {
                Type::Bytes | Type::Fixed(_) => return true,
                Type::Array(inner) | Type::Map(inner) => left.push(*inner),
                Type::Union(branches) => left.extend(branches),
                Type::Record(fields) => left.extend(fields.iter().map(|(_, inner)| inner)),
                _ => {}
            }
        }
        false
    }
}

struct Parser {
    types: Vec<Type>,
    /// Full names of named types.
    names: HashMap<String, usize>,
}

impl Parser {
    fn add(&mut self, found: Type) -> usize {
        self.types.push(found);
        self.types.len() - 1
    }

    fn parse(&mut self, json: &Value, namespace: &str, depth: usize) -> Result<usize, SchemaError> {
        if depth > DEPTH_MAX {
            return invalid("it is nested too deeply");
        }
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.parse(branch, namespace, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                if branches.iter().any(|&branch| matches!(self.types[branch], Type::Union(_))) {
                    return invalid("a union directly contains a union");
                }
                Ok(self.add(Type::Union(branches)))
            }
            Value::Object(object) => {
                let text = |name: &str| object.get(name).and_then(Value::as_str);
                match object.get("type") {
                    Some(Value::String(kind)) => match kind.as_str() {
                        "array" | "map" => {
                            let member = if kind == "array" { "items" } else { "values" };
                            let Some(inner) = object.get(member) else { return invalid(format!("a type `{kind}` has no `{member}`")) };
                            let inner = self.parse(inner, namespace, depth + 1)?;
                            Ok(self.add(if kind == "array" { Type::Array(inner) } else { Type::Map(inner) }))
                        }
                        "record" | "error" | "enum" | "fixed" => {
                            let Some(name) = text("name") else { return invalid(format!("a type `{kind}` has no name")) };
                            let full = full_name(name, text("namespace").unwrap_or(namespace));
                            // A record may contain itself, so its name comes first.
                            let number = self.add(Type::Null);
                            if self.names.insert(full.clone(), number).is_some() {
                                return invalid(format!("the type `{full}` is defined twice"));
                            }
                            let inner = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
                            self.types[number] = self.definition(kind, &full, object, &inner, depth)?;
                            Ok(number)
                        }
                        name => self.named(name, namespace),
                    },
                    Some(inner) => self.parse(inner, namespace, depth + 1),
                    None => invalid("an object has no `type`"),
                }
            }
            _ => invalid(format!("{json} is no type")),
        }
    }

    fn definition(
        &mut self,
        kind: &str,
        name: &str,
        object: &serde_json::Map<String, Value>,
        namespace: &str,
        depth: usize,
    ) -> Result<Type, SchemaError> {
        match kind {
            "fixed" => match object.get("size").and_then(Value::as_u64) {
                Some(size) if size <= 1 << 31 => Ok(Type::Fixed(size as usize)),
                _ => invalid(format!("the fixed `{name}` has no size below 2 GiB")),
            },
            "enum" => {
                let symbols = object.get("symbols").and_then(Value::as_array);
                let symbols = symbols.and_then(|all| all.iter().map(|symbol| symbol.as_str().map(str::to_owned)).collect());
                symbols.map_or_else(|| invalid(format!("the enum `{name}` has no symbols")), |symbols| Ok(Type::Enum(symbols)))
            }
            _ => {
                let Some(fields) = object.get("fields").and_then(Value::as_array) else {
                    return invalid(format!("the record `{name}` has no fields"));
                };
                let mut found: Vec<(String, usize)> = Vec::with_capacity(fields.len());
                for field in fields {
                    let Some(field_name) = field.get("name").and_then(Value::as_str) else {
                        return invalid(format!("a field of the record `{name}` has no name"));
                    };
                    let Some(kind) = field.get("type") else { return invalid(format!("the field `{field_name}` has no type")) };
                    found.push((field_name.to_owned(), self.parse(kind, namespace, depth + 1)?));
                }
                Ok(Type::Record(found))
            }
        }
    }

    fn named(&mut self, name: &str, namespace: &str) -> Result<usize, SchemaError> {
        let primitive = match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "int" => Type::Int,
            "long" => Type::Long,
            "float" => Type::Float,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            "string" => Type::String,
            _ => {
                // A name without namespace may also be one of the empty namespace.
                let known = self.names.get(&full_name(name, namespace)).or_else(|| self.names.get(name));
                return known.copied().map_or_else(|| invalid(format!("there is no type `{name}`")), Ok);
            }
        };
        Ok(self.add(primitive))
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_contain_itself() {
        let schema = Schema::parse(
            r#"{"type": "record", "name": "Node", "namespace": "a.b", "fields": [
                {"name": "next", "type": ["null", "Node"]}, {"name": "value", "type": {"type": "long", "logicalType": "date"}}]}"#,
        )
        .expect("valid");
        assert_eq!(schema.fields().collect::<Vec<_>>(), ["next", "value"]);
        let Type::Record(fields) = schema.get(schema.root()) else { panic!("a record") };
        let Type::Union(branches) = schema.get(fields[0].1) else { panic!("a union") };
        assert_eq!(branches[1], schema.root());
    }

    #[test]
    fn names_are_found_in_their_namespace() {
        let record = |inner: &str| {
            format!(
                r#"{{"type": "record", "name": "x.Outer", "fields": [
                {{"name": "a", "type": {{"type": "fixed", "name": "F", "size": 4}}}}, {{"name": "b", "type": "{inner}"}}]}}"#
            )
        };
        assert!(Schema::parse(&record("F")).is_ok());
        assert!(Schema::parse(&record("x.F")).is_ok());
        assert_eq!(Schema::parse(&record("y.F")), invalid("there is no type `y.F`"));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for text in [
            "",
            "{}",
            "7",
            r#""unheard""#,
            r#"{"type": "array"}"#,
            r#"{"type": "record", "name": "R"}"#,
            r#"{"type": "record", "fields": []}"#,
            r#"{"type": "record", "name": "R", "fields": [{"name": "a"}]}"#,
            r#"{"type": "fixed", "name": "F", "size": -1}"#,
            r#"{"type": "enum", "name": "E"}"#,
            r#"["null", ["int"]]"#,
            r#"["null", {"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}]"#,
        ] {
            assert!(Schema::parse(text).is_err(), "{text}");
        }
        let deep = format!("{}\"int\"{}", r#"{"type": "array", "items": "#.repeat(100), "}".repeat(100));
        assert_eq!(Schema::parse(&deep), invalid("it is nested too deeply"));
    }
}
