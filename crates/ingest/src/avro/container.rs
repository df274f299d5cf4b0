//! Object container files: a header with the schema, then blocks of values.

use std::borrow::Cow;

use super::DecodeError;

/// What a container file begins with.
const MAGIC: &[u8] = b"Obj\x01";
/// Maximum size of a block after decompression.
const BLOCK_MAX: usize = 256 << 20;

/// A container file, in memory.
#[derive(Debug)]
pub struct Container<'a> {
    schema: &'a [u8],
    codec: Codec,
    sync: &'a [u8],
    blocks: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Null,
    Deflate,
}

/// Why a container file can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// It is damaged.
    #[error("the Avro file is damaged: {0}")]
    Damaged(&'static str),
    /// Its blocks are compressed in another way.
    #[error("the codec `{0}` is not supported, only `null` and `deflate`")]
    Codec(String),
}

impl From<DecodeError> for ContainerError {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(match error {
            DecodeError::Short => "it ends early",
            DecodeError::Invalid(why) => why,
        })
    }
}

impl<'a> Container<'a> {
    /// Whether bytes begin like a container file.
    #[must_use]
    pub fn is_one(data: &[u8]) -> bool {
        data.starts_with(MAGIC)
    }

    /// Reads the header.
    ///
    /// # Errors
    /// [`ContainerError`] if it is damaged, or its codec isn't supported.
    pub fn open(data: &'a [u8]) -> Result<Self, ContainerError> {
        let mut rest = data.strip_prefix(MAGIC).ok_or(ContainerError::Damaged("it doesn't begin with `Obj` and 1"))?;
        let mut schema = None;
        let mut codec = Codec::Null;
        loop {
            let mut count = take_long(&mut rest)?;
            if count == 0 {
                break;
            }
            if count < 0 {
                take_long(&mut rest)?;
                count = count.saturating_neg();
            }
            for _ in 0..count {
                let name = take_bytes(&mut rest)?;
                let value = take_bytes(&mut rest)?;
                match name {
                    b"avro.schema" => schema = Some(value),
                    b"avro.codec" => {
                        codec = match value {
                            b"null" => Codec::Null,
                            b"deflate" => Codec::Deflate,
                            other => return Err(ContainerError::Codec(String::from_utf8_lossy(other).into_owned())),
                        }
                    }
                    _ => {}
                }
            }
        }
        let sync = take(&mut rest, 16)?;
        Ok(Self { schema: schema.ok_or(ContainerError::Damaged("it has no schema"))?, codec, sync, blocks: rest })
    }

    /// The schema's JSON.
    #[must_use]
    pub fn schema(&self) -> &'a [u8] {
        self.schema
    }

    /// Whether its blocks are compressed.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.codec != Codec::Null
    }

    /// The blocks: how many values each has, and their bytes.
    pub fn blocks(&self) -> impl Iterator<Item = Result<(u64, Cow<'a, [u8]>), ContainerError>> {
        let (codec, sync) = (self.codec, self.sync);
        let mut rest = self.blocks;
        let mut has_failed = false;
        std::iter::from_fn(move || {
            if rest.is_empty() || has_failed {
                return None;
            }
            let block = next_block(&mut rest, codec, sync);
            has_failed = block.is_err();
            Some(block)
        })
    }
}

fn next_block<'a>(rest: &mut &'a [u8], codec: Codec, sync: &[u8]) -> Result<(u64, Cow<'a, [u8]>), ContainerError> {
    let count = u64::try_from(take_long(rest)?).map_err(|_| ContainerError::Damaged("a block's count is negative"))?;
    let data = take_bytes(rest)?;
    if take(rest, 16)? != sync {
        return Err(ContainerError::Damaged("a block's marker is wrong"));
    }
    match codec {
        Codec::Null => Ok((count, Cow::Borrowed(data))),
        Codec::Deflate => match miniz_oxide::inflate::decompress_to_vec_with_limit(data, BLOCK_MAX) {
            Ok(data) => Ok((count, Cow::Owned(data))),
            Err(_) => Err(ContainerError::Damaged("a block can't be decompressed")),
        },
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], DecodeError> {
    let (taken, left) = rest.split_at_checked(count).ok_or(DecodeError::Short)?;
    *rest = left;
    Ok(taken)
}

fn take_long(rest: &mut &[u8]) -> Result<i64, DecodeError> {
    let (value, length) = super::long(rest)?;
    *rest = &rest[length..];
    Ok(value)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let length = usize::try_from(take_long(rest)?).map_err(|_| DecodeError::Invalid("a length is negative"))?;
    take(rest, length)
}
