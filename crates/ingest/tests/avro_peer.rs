//! Fields that are selected from encoded values, against apache-avro, which encodes and decodes
//! whole values.

use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Codec, Writer};
use fulgurite_chance::Xorshift;
use fulgurite_ingest::avro::{Container, DecodeError, Field, Kind, Schema, Selection};
use serde_json::{Value as Json, json};

/// Makes schemas, values of them, and the paths of fields that keys and cutouts may use.
struct Maker {
    chance: Xorshift,
    names: u32,
}

/// A value's fields by path.
type Expected = Vec<(String, Kind, Value)>;

impl Maker {
    fn below(&mut self, count: usize) -> usize {
        self.chance.below(count)
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("n{}", self.names)
    }

    /// A schema that can contain anything else, up to a depth.
    fn schema(&mut self, depth: usize) -> Json {
        let leaves = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
        match self.below(if depth == 0 { 10 } else { 14 }) {
            kind @ 0..8 => json!(leaves[kind]),
            8 => json!({"type": "fixed", "name": self.name(), "size": self.below(5)}),
            9 => json!({"type": "enum", "name": self.name(), "symbols": ["A", "B", "C"]}),
            10 => json!({"type": "array", "items": self.schema(depth - 1)}),
            11 => json!({"type": "map", "values": self.schema(depth - 1)}),
            12 => json!(["null", self.non_null(depth - 1)]),
            _ => self.record(depth - 1),
        }
    }

    fn non_null(&mut self, depth: usize) -> Json {
        loop {
            let schema = self.schema(depth);
            if schema != json!("null") && !schema.is_array() {
                return schema;
            }
        }
    }

    fn record(&mut self, depth: usize) -> Json {
        let fields: Vec<Json> = (0..self.below(6)).map(|_| json!({"name": self.name(), "type": self.schema(depth)})).collect();
        json!({"type": "record", "name": self.name(), "fields": fields})
    }

    /// A value, and what is to be selected of it. `is_reachable` is false inside of arrays and
    /// maps.
    fn value(&mut self, schema: &Json, path: &str, is_reachable: bool, expected: &mut Expected) -> Value {
        let mut keep = |kind: Kind, value: &Value| {
            if is_reachable && !path.is_empty() {
                expected.push((path.to_owned(), kind, value.clone()));
            }
        };
        let kind = schema.as_str().or_else(|| schema.get("type").and_then(Json::as_str)).unwrap_or("union");
        let bytes = |maker: &mut Self, count: usize| (0..count).map(|_| maker.below(256) as u8).collect::<Vec<u8>>();
        match kind {
            "null" => Value::Null,
            "boolean" => Value::Boolean(self.below(2) == 1),
            "int" | "long" => {
                let number = match self.below(3) {
                    0 => self.below(200) as i64 - 100,
                    1 => [i64::from(i32::MIN), i64::from(i32::MAX)][self.below(2)],
                    _ if kind == "long" => [i64::MIN, i64::MAX, 2_000_000_000_000_000_123][self.below(3)],
                    _ => -1,
                };
                let value = if kind == "int" { Value::Int(number as i32) } else { Value::Long(number) };
                keep(Kind::Key, &value);
                value
            }
            "float" => Value::Float(self.below(1000) as f32 / 8.0),
            "double" => Value::Double(self.below(1000) as f64 / 8.0),
            "bytes" => {
                let count = self.below(300);
                let value = Value::Bytes(bytes(self, count));
                keep(Kind::Content, &value);
                value
            }
            "string" => {
                let value = Value::String("grüße".repeat(self.below(20)));
                keep(Kind::Key, &value);
                value
            }
            "fixed" => {
                let size = schema["size"].as_u64().expect("made above") as usize;
                let value = Value::Fixed(size, bytes(self, size));
                keep(Kind::Content, &value);
                value
            }
            "enum" => {
                let symbol = self.below(3);
                let value = Value::Enum(symbol as u32, ["A", "B", "C"][symbol].to_owned());
                keep(Kind::Key, &value);
                value
            }
            "array" => Value::Array((0..self.below(4)).map(|_| self.value(&schema["items"], path, false, expected)).collect()),
            "map" => Value::Map(
                (0..self.below(4)).map(|index| (index.to_string(), self.value(&schema["values"], path, false, expected))).collect(),
            ),
            "record" => {
                let mut values = Vec::new();
                for field in schema["fields"].as_array().expect("made above") {
                    let name = field["name"].as_str().expect("made above");
                    let inner = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                    values.push((name.to_owned(), self.value(&field["type"], &inner, is_reachable, expected)));
                }
                Value::Record(values)
            }
            _ => {
                // What is inside counts as null then.
                if self.below(3) == 0 {
                    let mut inside = Vec::new();
                    self.value(&schema[1], path, is_reachable, &mut inside);
                    expected.extend(inside.into_iter().map(|(path, kind, _)| (path, kind, Value::Null)));
                    return Value::Union(0, Box::new(Value::Null));
                }
                Value::Union(1, Box::new(self.value(&schema[1], path, is_reachable, expected)))
            }
        }
    }
}

fn is_same(field: &Field<'_>, value: &Value) -> bool {
    match (field, value) {
        (Field::Null, Value::Null) => true,
        (Field::Integer(found), Value::Int(number)) => *found == i64::from(*number),
        (Field::Integer(found), Value::Long(number)) => found == number,
        (Field::Text(found), Value::String(text) | Value::Enum(_, text)) => found == text,
        (Field::Bytes(found), Value::Bytes(bytes) | Value::Fixed(_, bytes)) => found == bytes,
        _ => false,
    }
}

#[test]
fn selected_fields_are_those_of_the_peer() {
    let mut maker = Maker { chance: Xorshift::new(28), names: 0 };
    let mut compared = 0;
    for _ in 0..3000 {
        let json = maker.record(3);
        let peer = apache_avro::Schema::parse(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let mut expected = Vec::new();
        let value = maker.value(&json, "", true, &mut expected);
        let writer = GenericDatumWriter::builder(&peer).build().expect("the schema is complete");
        let data = writer.write_value_to_vec(value).unwrap_or_else(|error| panic!("{json}: {error}"));

        let schema = Schema::parse(&json.to_string()).unwrap_or_else(|error| panic!("{json}: {error}"));
        let paths = expected.iter().map(|(path, kind, _)| (path.as_str(), *kind));
        let selection = Selection::new(&schema, paths).unwrap_or_else(|error| panic!("{json}: {error}"));
        let (fields, length) = selection.of(&schema, &data).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(length, data.len(), "{json}");
        for ((path, _, value), field) in expected.iter().zip(&fields) {
            assert!(is_same(field, value), "{json}: {path} is {field:?}, expected {value:?}");
            compared += 1;
        }

        // What is cut off or damaged gives an error or other fields, and no more.
        for end in 0..data.len() {
            assert_eq!(selection.of(&schema, &data[..end]).map(|(_, length)| length), Err(DecodeError::Short), "{json}: {end}");
        }
        for _ in 0..20.min(data.len()) {
            let mut damaged = data.clone();
            let at = maker.below(damaged.len());
            damaged[at] = maker.below(256) as u8;
            if let Ok((_, length)) = selection.of(&schema, &damaged) {
                assert!(length <= damaged.len());
            }
        }
    }
    assert!(compared > 4000, "{compared} fields were compared");
}

#[test]
fn containers_of_the_peer_are_read() {
    let json = json!({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "bytes"}]});
    let peer = apache_avro::Schema::parse(&json).expect("valid");
    for codec in [Codec::Null, Codec::Deflate(apache_avro::DeflateSettings::default())] {
        let mut writer = Writer::with_codec(&peer, Vec::new(), codec).expect("valid");
        for number in 0..2000 {
            let record = Value::Record(vec![("a".to_owned(), Value::Long(number)), ("b".to_owned(), Value::Bytes(vec![7; 40]))]);
            writer.append_value(record).expect("it fits the schema");
        }
        let file = writer.into_inner().expect("a vector takes all");
        let container = Container::open(&file).expect("intact");
        let schema = Schema::parse(std::str::from_utf8(container.schema()).expect("text")).expect("valid");
        let selection = Selection::new(&schema, [("a", Kind::Key), ("b", Kind::Content)]).expect("both are there");
        let mut next = 0;
        for block in container.blocks() {
            let (count, block) = block.expect("intact");
            let mut rest = &block[..];
            for _ in 0..count {
                let (fields, length) = selection.of(&schema, rest).expect("intact");
                assert_eq!(fields, [Field::Integer(next), Field::Bytes(&[7; 40])]);
                rest = &rest[length..];
                next += 1;
            }
            assert!(rest.is_empty());
        }
        assert_eq!(next, 2000);
        // Cut off anywhere, it isn't taken for a whole file, except between blocks.
        let mut whole = 0;
        for end in 0..file.len() {
            whole += u32::from(Container::open(&file[..end]).is_ok_and(|cut| cut.blocks().all(|block| block.is_ok())));
        }
        assert!(whole < 20, "{whole} of {} ends look whole", file.len());
    }
}

#[test]
fn a_claim_of_many_empty_items_ends_soon() {
    let schema = Schema::parse(r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}"#);
    let schema = schema.expect("valid");
    let selection = Selection::new(&schema, []).expect("nothing is selected");
    let claim = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
    assert_eq!(selection.of(&schema, &claim), Err(DecodeError::Invalid("it has too many empty items")));
}

#[test]
fn values_that_are_null_and_deep_are_valid() {
    let schema = Schema::parse(
        r#"{"type": "array", "items": {"type": "record", "name": "R", "fields": [
            {"name": "a", "type": ["null", "int"]}, {"name": "b", "type": {"type": "fixed", "name": "F", "size": 0}}]}}"#,
    )
    .expect("valid");
    let selection = Selection::new(&schema, []).expect("nothing");
    // 200,000 items, each of one byte.
    let mut data = vec![0x80, 0xb5, 0x18];
    data.extend([0; 200_001]);
    assert_eq!(selection.of(&schema, &data).map(|(_, length)| length), Ok(data.len()));

    let schema = r#"{"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}"#;
    let schema = Schema::parse(schema).expect("valid");
    let deep = |depth: usize| [vec![2; depth], vec![0]].concat();
    assert_eq!(selection.of(&schema, &deep(150)).map(|(_, length)| length), Ok(151));
    assert_eq!(selection.of(&schema, &deep(5_000)), Err(DecodeError::Invalid("it is nested too deeply")));
}

#[test]
fn fields_that_can_not_be_selected_are_named() {
    let schema = Schema::parse(
        r#"{"type": "record", "name": "R", "fields": [
            {"name": "x", "type": "double"},
            {"name": "two", "type": ["null", {"type": "record", "name": "T", "fields": [
                {"name": "a", "type": "bytes"}, {"name": "b", "type": "bytes"}]}]},
            {"name": "one", "type": ["null", {"type": "record", "name": "O", "fields": [
                {"name": "f", "type": "string"}, {"name": "d", "type": ["null", "bytes"]}]}]}]}"#,
    );
    let schema = schema.expect("valid");
    for (path, kind, why) in [
        ("absent", Kind::Key, "the schema has no field `absent`"),
        ("x.y", Kind::Key, "the schema has no field `x.y`"),
        ("x", Kind::Key, "the field `x` is a real number, expected an integer or a string"),
        ("one", Kind::Key, "the field `one` is a record, expected an integer or a string"),
        ("one.d", Kind::Key, "the field `one.d` is bytes, expected an integer or a string"),
        ("one.f", Kind::Content, "the field `one.f` is a string, expected bytes"),
        ("two", Kind::Content, "the field `two` is a record with several fields of bytes, expected bytes"),
    ] {
        assert_eq!(Selection::new(&schema, [(path, kind)]).unwrap_err().to_string(), why);
    }
    assert!(Selection::new(&schema, [("one", Kind::Content), ("one.d", Kind::Content), ("one.f", Kind::Key)]).is_ok());
}
