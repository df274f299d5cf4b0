//! Selected fields of an encoded value, without building the rest of it.
//!
//! A survey's packet has thousands of numbers, of which a key needs two: the others are skipped
//! where they lie.

use super::schema::{Schema, Type};

/// A field of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<'a> {
    /// Null, or a field inside of a record that is null.
    Null,
    /// A boolean.
    Boolean(bool),
    /// An int or a long.
    Integer(i64),
    /// A float or a double.
    Real(f64),
    /// A string, or the symbol of an enum.
    Text(&'a str),
    /// Bytes or a fixed.
    Bytes(&'a [u8]),
}

/// Why a value can't be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("the packet ends early")]
    Short,
    /// A number, length or index isn't valid.
    #[error("the packet doesn't match its schema: {0}")]
    Invalid(&'static str),
}

/// Why fields can't be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The schema has no such field.
    #[error("the schema has no field `{0}`")]
    Missing(String),
    /// It is of another kind.
    #[error("the field `{path}` is {found}, expected {expected}")]
    Kind {
        /// The field.
        path: String,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The same field is both a value and a record with selected fields.
    #[error("the field `{0}` is selected twice")]
    Twice(String),
}

/// What is selected of values of one schema.
#[derive(Debug, Clone)]
pub struct Selection {
    step: Step,
    count: usize,
}

/// What to do with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Skip,
    /// Keep it as these fields.
    Keep(Vec<usize>),
    /// For each field of a record, or each branch of a union.
    Inside(Vec<Step>),
}

/// What a selected field may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer or text: part of a key.
    Key,
    /// Bytes, or a record that has bytes in exactly one field.
    Content,
}

impl Kind {
    fn expected(self) -> &'static str {
        match self {
            Self::Key => "an integer or a string",
            Self::Content => "bytes",
        }
    }
}

impl Selection {
    /// Selects fields by paths such as `candidate.jd`, in this order.
    ///
    /// # Errors
    /// [`SelectError`] if the schema lacks a field, or it is of another kind.
    pub fn new<'p>(schema: &Schema, paths: impl IntoIterator<Item = (&'p str, Kind)>) -> Result<Self, SelectError> {
        let mut step = Step::Skip;
        let mut count = 0;
        for (path, kind) in paths {
            let names: Vec<&str> = path.split('.').collect();
            select(schema, schema.root(), &mut step, &names, (path, kind), count)?;
            count += 1;
        }
        Ok(Self { step, count })
    }

    /// Decodes the selected fields of the value that `data` begins with. Returns them, and the
    /// value's length.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes aren't a value of the schema.
    pub fn of<'a>(&self, schema: &'a Schema, data: &'a [u8]) -> Result<(Vec<Field<'a>>, usize), DecodeError> {
        let mut decoder = Decoder {
            schema,
            data,
            at: 0,
            fields: vec![Field::Null; self.count],
            // Items without bytes could be claimed by the quintillion.
            empty_left: data.len().saturating_mul(4).saturating_add(100_000),
        };
        decoder.value(schema.root(), &self.step, 0)?;
        Ok((decoder.fields, decoder.at))
    }
}

fn select(
    schema: &Schema,
    number: usize,
    step: &mut Step,
    names: &[&str],
    (path, kind): (&str, Kind),
    field: usize,
) -> Result<(), SelectError> {
    let wrong = |found, expected| Err(SelectError::Kind { path: path.to_owned(), found, expected });
    let inside = |step: &mut Step, count: usize| -> Result<(), SelectError> {
        match step {
            Step::Skip => *step = Step::Inside(vec![Step::Skip; count]),
            Step::Keep(_) => return Err(SelectError::Twice(path.to_owned())),
            Step::Inside(_) => {}
        }
        Ok(())
    };
    match schema.get(number) {
        Type::Union(branches) => {
            let others: Vec<usize> = (0..branches.len()).filter(|&branch| *schema.get(branches[branch]) != Type::Null).collect();
            if others.is_empty() {
                return wrong("always null", kind.expected());
            }
            inside(step, branches.len())?;
            let Step::Inside(steps) = step else { unreachable!("made above") };
            for branch in others {
                select(schema, branches[branch], &mut steps[branch], names, (path, kind), field)?;
            }
            Ok(())
        }
        Type::Record(fields) => {
            let wanted = match names.split_first() {
                Some((&name, rest)) => fields.iter().position(|(found, _)| found == name).map(|index| (index, rest)),
                None if kind == Kind::Content => {
                    let mut contents = (0..fields.len()).filter(|&index| is_content(schema, fields[index].1));
                    match (contents.next(), contents.next()) {
                        (Some(index), None) => Some((index, &[][..])),
                        (Some(_), Some(_)) => return wrong("a record with several fields of bytes", "bytes"),
                        (None, _) => return wrong("a record without bytes", "bytes"),
                    }
                }
                None => return wrong("a record", kind.expected()),
            };
            let Some((index, rest)) = wanted else { return Err(SelectError::Missing(path.to_owned())) };
            inside(step, fields.len())?;
            let Step::Inside(steps) = step else { unreachable!("made above") };
            select(schema, fields[index].1, &mut steps[index], rest, (path, kind), field)
        }
        _ if !names.is_empty() => Err(SelectError::Missing(path.to_owned())),
        found => {
            let fits = match kind {
                Kind::Content => matches!(found, Type::Bytes | Type::Fixed(_)),
                Kind::Key => matches!(found, Type::Int | Type::Long | Type::String | Type::Enum(_)),
            };
            if !fits {
                return wrong(found.name(), kind.expected());
            }
            match step {
                Step::Skip => *step = Step::Keep(vec![field]),
                Step::Keep(fields) => fields.push(field),
                Step::Inside(_) => return Err(SelectError::Twice(path.to_owned())),
            }
            Ok(())
        }
    }
}

/// Whether a type is bytes, or bytes or null.
fn is_content(schema: &Schema, number: usize) -> bool {
    match schema.get(number) {
        Type::Bytes | Type::Fixed(_) => true,
        Type::Union(branches) => {
            let mut others = branches.iter().filter(|&&branch| *schema.get(branch) != Type::Null).peekable();
            others.peek().is_some() && others.all(|&branch| matches!(schema.get(branch), Type::Bytes | Type::Fixed(_)))
        }
        _ => false,
    }
}

/// Maximum depth of a value, without unions: schemas may contain themselves.
const DEPTH_MAX: usize = 200;

struct Decoder<'a> {
    schema: &'a Schema,
    data: &'a [u8],
    at: usize,
    fields: Vec<Field<'a>>,
    /// How many more values without bytes may come.
    empty_left: usize,
}

impl<'a> Decoder<'a> {
    fn value(&mut self, number: usize, step: &Step, depth: usize) -> Result<(), DecodeError> {
        if depth > DEPTH_MAX {
            return Err(DecodeError::Invalid("it is nested too deeply"));
        }
        let schema = self.schema;
        let field = match schema.get(number) {
            Type::Null => return self.empty(),
            Type::Record(fields) => {
                if fields.is_empty() {
                    self.empty()?;
                }
                for (index, (_, inner)) in fields.iter().enumerate() {
                    self.value(*inner, step.of(index), depth + 1)?;
                }
                return Ok(());
            }
            Type::Union(branches) => {
                let branch = usize::try_from(self.long()?).ok().filter(|&branch| branch < branches.len());
                let branch = branch.ok_or(DecodeError::Invalid("a union has no such branch"))?;
                // The number of its branch takes a byte.
                if *schema.get(branches[branch]) == Type::Null {
                    return Ok(());
                }
                return self.value(branches[branch], step.of(branch), depth);
            }
            Type::Array(items) => return self.blocks(|decoder| decoder.value(*items, &Step::Skip, depth + 1)),
            Type::Map(values) => {
                return self.blocks(|decoder| {
                    decoder.bytes()?;
                    decoder.value(*values, &Step::Skip, depth + 1)
                });
            }
            Type::Boolean => match self.take(1)? {
                [0] => Field::Boolean(false),
                [1] => Field::Boolean(true),
                _ => return Err(DecodeError::Invalid("a boolean is neither 0 nor 1")),
            },
            Type::Int | Type::Long => Field::Integer(self.long()?),
            Type::Float => Field::Real(f32::from_le_bytes(self.array()?).into()),
            Type::Double => Field::Real(f64::from_le_bytes(self.array()?)),
            Type::Bytes => Field::Bytes(self.bytes()?),
            Type::Fixed(0) => {
                self.empty()?;
                Field::Bytes(&[])
            }
            Type::Fixed(size) => Field::Bytes(self.take(*size)?),
            Type::String => {
                let bytes = self.bytes()?;
                match step {
                    // Text that isn't needed isn't checked.
                    Step::Skip => return Ok(()),
                    _ => Field::Text(std::str::from_utf8(bytes).map_err(|_| DecodeError::Invalid("a string isn't UTF-8"))?),
                }
            }
            Type::Enum(symbols) => {
                let symbol = usize::try_from(self.long()?).ok().and_then(|index| symbols.get(index));
                let symbol = symbol.ok_or(DecodeError::Invalid("an enum has no such symbol"))?;
                Field::Text(symbol)
            }
        };
        if let Step::Keep(fields) = step {
            for &index in fields {
                self.fields[index] = field;
            }
        }
        Ok(())
    }

    /// Counts a value without bytes.
    fn empty(&mut self) -> Result<(), DecodeError> {
        self.empty_left = self.empty_left.checked_sub(1).ok_or(DecodeError::Invalid("it has too many empty items"))?;
        Ok(())
    }

    /// The blocks of an array or a map.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), DecodeError>) -> Result<(), DecodeError> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            // A negative count is followed by the block's size.
            if count < 0 {
                let size = usize::try_from(self.long()?).map_err(|_| DecodeError::Invalid("a block's size is negative"))?;
                self.take(size)?;
                continue;
            }
            for _ in 0..count {
                item(self)?;
            }
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.data.len()).ok_or(DecodeError::Short)?;
        let taken = &self.data[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("as long as asked"))
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.long()?).map_err(|_| DecodeError::Invalid("a length is negative"))?;
        self.take(length)
    }

    fn long(&mut self) -> Result<i64, DecodeError> {
        let (value, length) = super::long(&self.data[self.at..])?;
        self.at += length;
        Ok(value)
    }
}

impl Type {
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "always null",
            Self::Boolean => "a boolean",
            Self::Int | Self::Long => "an integer",
            Self::Float | Self::Double => "a real number",
            Self::Bytes | Self::Fixed(_) => "bytes",
            Self::String | Self::Enum(_) => "a string",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
            Self::Union(_) => "a union",
            Self::Record(_) => "a record",
        }
    }
}

impl Step {
    fn of(&self, index: usize) -> &Self {
        match self {
            Self::Inside(steps) => &steps[index],
            _ => &Self::Skip,
        }
    }
}
