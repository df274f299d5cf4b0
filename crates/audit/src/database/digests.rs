//! How digests are stored: for each, a byte for the algorithm and the value.

use fulgurite_digest::{Algorithm, Digest};

/// Algorithms by their stored numbers, which are in users' databases.
const NUMBERS: [Algorithm; 11] = [
    Algorithm::Md5,
    Algorithm::Sha1,
    Algorithm::Sha256,
    Algorithm::Sha384,
    Algorithm::Sha512,
    Algorithm::Sha512Of256,
    Algorithm::Blake2b160,
    Algorithm::Blake2b256,
    Algorithm::Blake2b384,
    Algorithm::Blake2b512,
    Algorithm::Sha224,
];

/// Encodes digests, sorted by algorithm.
pub(super) fn encode(digests: &[Digest]) -> Vec<u8> {
    let mut sorted: Vec<&Digest> = digests.iter().collect();
    sorted.sort();
    let mut bytes = Vec::new();
    for digest in sorted {
        let number = NUMBERS.iter().position(|algorithm| *algorithm == digest.algorithm());
        bytes.push(number.expect("NUMBERS has every algorithm; a test encodes all") as u8);
        bytes.extend_from_slice(digest.value());
    }
    bytes
}

/// Decodes digests; `None` if the bytes are damaged.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Digest>> {
    let mut digests = Vec::new();
    while let Some((number, rest)) = bytes.split_first() {
        let algorithm = *NUMBERS.get(usize::from(*number))?;
        let (value, after) = rest.split_at_checked(algorithm.bytes())?;
        digests.push(Digest::new(algorithm, value)?);
        bytes = after;
    }
    Some(digests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_digest::Digester;

    #[test]
    fn digests_of_all_algorithms_come_back_sorted() {
        let mut digester = Digester::new(&Algorithm::ALL);
        digester.update(b"content");
        let digests = digester.finish();
        let reversed: Vec<Digest> = digests.iter().rev().cloned().collect();
        let bytes = encode(&reversed);
        assert_eq!(decode(&bytes), Some(digests));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(&[99, 0]), None);
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn stored_numbers_of_algorithms_never_change() {
        assert_eq!(
            NUMBERS.map(Algorithm::name).join(" "),
            "md5 sha1 sha256 sha384 sha512 sha512/256 blake2b-160 blake2b-256 blake2b-384 blake2b-512 sha224"
        );
    }
}
