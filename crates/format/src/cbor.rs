//! The subset of CBOR that the format uses, in core deterministic encoding (RFC 8949, section
//! 4.2.1).
//!
//! Integers, byte and text strings, arrays and maps, all of definite length. The decoder requires
//! shortest heads and sorted, unique map keys, so every accepted value has exactly one encoding.
//! The values of unknown map keys are skipped: of them, only the heads are checked.

/// Describes what is wrong with the bytes.
pub(crate) type Malformed = &'static str;

const UINT: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

/// Bytes of an item's head: for an integer of this value, or a string, array or map of this length.
pub(crate) fn head_bytes(value: u64) -> u64 {
    match value {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        0x1_0000..0x1_0000_0000 => 5,
        _ => 9,
    }
}

/// Appends items to a buffer.
pub(crate) struct Encoder<'a>(pub(crate) &'a mut Vec<u8>);

impl Encoder<'_> {
    fn head(&mut self, major: u8, value: u64) {
        let major = major << 5;
        let big_endian = value.to_be_bytes();
        match head_bytes(value) {
            1 => self.0.push(major | value as u8),
            2 => self.0.extend([major | 24, value as u8]),
            3 => {
                self.0.push(major | 25);
                self.0.extend(&big_endian[6..]);
            }
            5 => {
                self.0.push(major | 26);
                self.0.extend(&big_endian[4..]);
            }
            _ => {
                self.0.push(major | 27);
                self.0.extend(&big_endian);
            }
        }
    }

    pub(crate) fn uint(&mut self, value: u64) {
        self.head(UINT, value);
    }

    pub(crate) fn int(&mut self, value: i64) {
        // A negative number n is encoded as -1 - n, which is the complement of n in two's
        // complement.
        if value < 0 { self.head(NEGATIVE, !value as u64) } else { self.uint(value as u64) }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.head(BYTES, bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.head(TEXT, text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    pub(crate) fn array(&mut self, items: u64) {
        self.head(ARRAY, items);
    }

    pub(crate) fn map(&mut self, entries: u64) {
        self.head(MAP, entries);
    }
}

/// Reads items from the front of a buffer.
#[derive(Clone)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err("bytes after the last item") }
    }

    fn take(&mut self, bytes: u64) -> Result<&'a [u8], Malformed> {
        let bytes = usize::try_from(bytes).map_err(|_| "a truncated item")?;
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or("a truncated item")?;
        self.rest = rest;
        Ok(taken)
    }

    /// The major type of the next item and the value in its head.
    fn head(&mut self) -> Result<(u8, u64), Malformed> {
        let first = self.take(1)?[0];
        let (major, short) = (first >> 5, first & 31);
        let value = match short {
            0..24 => return Ok((major, u64::from(short))),
            24..28 => self.take(1 << (short - 24))?.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)),
            _ => return Err("an item of indefinite or reserved length"),
        };
        // A float keeps its width, whatever that is; everything else has one shortest head.
        if major != SIMPLE && head_bytes(value) != 1 + (1 << (short - 24)) {
            return Err("a number that is not in its shortest form");
        }
        Ok((major, value))
    }

    fn expect(&mut self, major: u8, otherwise: Malformed) -> Result<u64, Malformed> {
        let (found, value) = self.head()?;
        if found == major { Ok(value) } else { Err(otherwise) }
    }

    pub(crate) fn uint(&mut self) -> Result<u64, Malformed> {
        self.expect(UINT, "a value that is not an unsigned integer")
    }

    /// An unsigned integer that fits the type `T`.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.uint()?).map_err(|_| "a number that is out of range")
    }

    pub(crate) fn int(&mut self) -> Result<i64, Malformed> {
        let (major, value) = self.head()?;
        let value = i64::try_from(value).map_err(|_| "a number that is out of range")?;
        match major {
            UINT => Ok(value),
            NEGATIVE => Ok(!value),
            _ => Err("a value that is not an integer"),
        }
    }

    /// The length of a byte string, whose bytes follow.
    pub(crate) fn bytes_head(&mut self) -> Result<u64, Malformed> {
        self.expect(BYTES, "a value that is not a byte string")
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.bytes_head()?;
        self.take(length)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes()?.try_into().map_err(|_| "a byte string of the wrong length")
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.expect(TEXT, "a value that is not a text string")?;
        str::from_utf8(self.take(length)?).map_err(|_| "a text string that is not UTF-8")
    }

    /// The number of items of an array; the items follow.
    pub(crate) fn array(&mut self) -> Result<u64, Malformed> {
        self.expect(ARRAY, "a value that is not an array")
    }

    pub(crate) fn array_of(&mut self, items: u64) -> Result<(), Malformed> {
        if self.array()? == items { Ok(()) } else { Err("an array of the wrong length") }
    }

    /// Reads a map. `value` receives each text key and reads its value, or returns `false` without
    /// reading anything if it doesn't know the key.
    pub(crate) fn map(&mut self, mut value: impl FnMut(&'a str, &mut Self) -> Result<bool, Malformed>) -> Result<(), Malformed> {
        self.pairs(|mut key, decoder| {
            let known = match key.text() {
                Ok(text) => value(text, decoder)?,
                Err(_) => false,
            };
            if known { Ok(()) } else { decoder.skip() }
        })
    }

    /// Reads a map with arbitrary text keys. `value` receives each key and reads its value.
    pub(crate) fn map_of_any(&mut self, mut value: impl FnMut(&'a str, &mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        self.pairs(|mut key, decoder| value(key.text()?, decoder))
    }

    /// Reads a map, whose keys must be sorted. `pair` receives a decoder of each key, and reads the
    /// value from the other decoder.
    fn pairs(&mut self, mut pair: impl FnMut(Self, &mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        let entries = self.expect(MAP, "a value that is not a map")?;
        let mut previous: &[u8] = &[];
        for _ in 0..entries {
            let before = self.rest;
            let key = self.clone();
            self.skip()?;
            let encoded = &before[..before.len() - self.rest.len()];
            if encoded <= previous {
                return Err("unsorted or duplicate map keys");
            }
            previous = encoded;
            pair(key, self)?;
        }
        Ok(())
    }

    /// Skips one item and everything nested in it. Every item has at least one byte, so this ends
    /// when the bytes do.
    fn skip(&mut self) -> Result<(), Malformed> {
        let mut items: u64 = 1;
        while items > 0 {
            let (major, value) = self.head()?;
            items -= 1;
            let within = match major {
                BYTES | TEXT => self.take(value).map(|_| 0)?,
                ARRAY => value,
                MAP => value.saturating_mul(2),
                TAG => 1,
                _ => 0,
            };
            items = items.saturating_add(within);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Encoder(&mut bytes));
        bytes
    }

    #[test]
    fn a_head_that_is_not_the_shortest_is_rejected() {
        for bytes in [&[0x18, 23][..], &[0x19, 0, 255], &[0x1a, 0, 0, 255, 255], &[0x1b, 0, 0, 0, 0, 255, 255, 255, 255]] {
            assert!(Decoder::new(bytes).uint().is_err(), "{bytes:x?}");
        }
        assert!(Decoder::new(&[0x5f, 0x41, 1, 0xff]).bytes().is_err(), "indefinite length");
    }

    #[test]
    fn unsorted_or_duplicate_map_keys_are_rejected_and_unknown_ones_skipped() {
        let keys = |bytes: &[u8]| {
            let mut seen = Vec::new();
            let mut decoder = Decoder::new(bytes);
            decoder.map(|key, value| {
                if key == "z" {
                    return Ok(false);
                }
                seen.push((key.to_owned(), value.uint()?));
                Ok(true)
            })?;
            decoder.end().map(|()| seen)
        };
        assert_eq!(keys(b"\xa2\x61a\x01\x61b\x02"), Ok(vec![("a".to_owned(), 1), ("b".to_owned(), 2)]));
        assert!(keys(b"\xa2\x61b\x01\x61a\x02").is_err());
        assert!(keys(b"\xa2\x61a\x01\x61a\x02").is_err());
        // An array of a tagged text, a half-precision float and a nested map, under "z".
        assert_eq!(keys(b"\xa2\x61a\x01\x61z\x83\xc1\x61x\xf9\x3c\x00\xa1\x01\x02"), Ok(vec![("a".to_owned(), 1)]));
        assert!(keys(b"\xa1\x61z\x9b\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }

    proptest! {
        #[test]
        fn our_encoding_matches_another_encoder_and_reads_back(
            uint: u64, shift in 0u32..64, int: i64, bytes: Vec<u8>, text: String, items: u32,
        ) {
            let uint = uint >> shift;
            let int = int >> shift;
            let ours = encoded(|e| {
                e.uint(uint);
                e.int(int);
                e.bytes(&bytes);
                e.text(&text);
                e.array(items.into());
            });
            let mut theirs = minicbor::Encoder::new(Vec::new());
            theirs.u64(uint).unwrap().i64(int).unwrap().bytes(&bytes).unwrap().str(&text).unwrap().array(items.into()).unwrap();
            prop_assert_eq!(&ours, &theirs.into_writer());
            let mut decoder = Decoder::new(&ours);
            prop_assert_eq!(decoder.uint(), Ok(uint));
            prop_assert_eq!(decoder.int(), Ok(int));
            prop_assert_eq!(decoder.bytes(), Ok(&bytes[..]));
            prop_assert_eq!(decoder.text(), Ok(&text[..]));
            prop_assert_eq!(decoder.array(), Ok(items.into()));
            prop_assert_eq!(decoder.end(), Ok(()));
            prop_assert_eq!(head_bytes(uint), encoded(|e| e.uint(uint)).len() as u64);
        }
    }
}
