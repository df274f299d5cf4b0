//! Avro: schemas, container files, and selected fields of encoded values.
//!
//! Written after the specification of Apache Avro 1.12. It decodes no whole values, because an
//! alert's packet is stored as it was delivered, and only its key and its cutouts are needed.

mod container;
mod schema;
mod select;

pub use container::{Container, ContainerError};
pub use schema::{Schema, SchemaError};
pub use select::{DecodeError, Field, Kind, SelectError, Selection};

/// The number that `data` begins with, and its length in bytes.
fn long(data: &[u8]) -> Result<(i64, usize), DecodeError> {
    let mut value = 0_u64;
    for (index, &byte) in data.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            // The tenth byte has room for one bit.
            if index == 9 && byte > 1 {
                break;
            }
            return Ok(((value >> 1) as i64 ^ -((value & 1) as i64), index + 1));
        }
    }
    Err(if data.len() < 10 { DecodeError::Short } else { DecodeError::Invalid("a number is too long") })
}
