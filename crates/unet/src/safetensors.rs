//! The container of model files: named tensors of f32 after a header in JSON.
//!
//! ```text
//! [ header bytes: u64 ][ header: JSON ][ data of tensor 0 ][ data of tensor 1 ] ...
//! ```
//!
//! All integers and floats are little-endian. The header maps each tensor's name to its type, shape
//! and offsets in the data, and `__metadata__` to texts. Source: the format's description in
//! <https://github.com/huggingface/safetensors>. The crate of that name isn't used because it would
//! add a second version of a hash map and a library for temporary files to the dependencies.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

use crate::error::ModelError;

/// Far more than needed: a U-Net of four levels has 38 tensors, whose entries take about 4 KiB.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// The parts of a file, checked to cover it without gaps or overlaps.
pub(crate) struct Container<'a> {
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tensors: BTreeMap<String, Tensor<'a>>,
}

/// A tensor of any type, as it is in the file.
pub(crate) struct Tensor<'a> {
    pub(crate) data_type: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) data: &'a [u8],
}

/// A tensor's entry in the header.
#[derive(Deserialize)]
struct TensorEntry {
    dtype: String,
    shape: Vec<u64>,
    /// First byte in the data, and the byte after the last.
    data_offsets: (u64, u64),
}

struct Header {
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, TensorEntry>,
}

impl<'a> Container<'a> {
    pub(crate) fn parse(file: &'a [u8]) -> Result<Self, ModelError> {
        let truncated = |needed| ModelError::Truncated { bytes: file.len(), needed };
        let (length, rest) = file.split_first_chunk::<8>().ok_or(truncated(8))?;
        let header_bytes = u64::from_le_bytes(*length);
        if header_bytes > HEADER_BYTES_MAX {
            return Err(ModelError::HeaderTooLarge { bytes: header_bytes, limit: HEADER_BYTES_MAX });
        }
        let (header, data) = rest.split_at_checked(header_bytes as usize).ok_or(truncated(8 + header_bytes))?;
        let header: Header = serde_json::from_slice(header)?;

        let mut in_order: Vec<_> = header.tensors.into_iter().collect();
        in_order.sort_by_key(|(_, entry)| entry.data_offsets);
        let mut tensors = BTreeMap::new();
        let mut used = 0;
        for (name, TensorEntry { dtype, shape, data_offsets: (start, end) }) in in_order {
            if start != used || end < start || end > data.len() as u64 {
                return Err(ModelError::Offsets { tensor: name, start, end, data_bytes: data.len() });
            }
            used = end;
            tensors.insert(name, Tensor { data_type: dtype, shape, data: &data[start as usize..end as usize] });
        }
        match data.len() as u64 - used {
            0 => Ok(Self { metadata: header.metadata, tensors }),
            unused => Err(ModelError::UnusedBytes { unused }),
        }
    }
}

/// Texts by name.
struct Metadata(BTreeMap<String, String>);

/// Written by hand, for the same reason as [`Header`]'s implementation below.
impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Metadata;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a map of texts")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Metadata, M::Error> {
                let mut texts = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if texts.insert(name.clone(), map.next_value()?).is_some() {
                        return Err(M::Error::custom(format_args!("{name} occurs twice in the metadata")));
                    }
                }
                Ok(Metadata(texts))
            }
        }
        deserializer.deserialize_map(Texts)
    }
}

/// Written by hand, because a derived map would keep the last of two entries with the same name.
impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a map of tensors")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Header, M::Error> {
                let mut metadata = None;
                let mut tensors = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    let is_repeated = if name == "__metadata__" {
                        metadata.replace(map.next_value::<Metadata>()?.0).is_some()
                    } else {
                        tensors.insert(name.clone(), map.next_value()?).is_some()
                    };
                    if is_repeated {
                        return Err(M::Error::custom(format_args!("{name} occurs twice")));
                    }
                }
                Ok(Header { metadata: metadata.unwrap_or_default(), tensors })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}
