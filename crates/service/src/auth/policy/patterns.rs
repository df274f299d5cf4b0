//! Wildcard patterns, and networks of addresses.

use std::collections::HashMap;
use std::net::IpAddr;

/// Matches text with a pattern, in which `*` stands for any text and `?` for any character.
///
/// The piece before the first star must be a prefix and the piece after the last star a suffix.
/// Each piece between two stars is searched for after the first occurrence of the one before; if
/// the pattern matches at all, it matches there. So the cost is linear in the length of the text; a
/// long piece with question marks multiplies it by a 64th of the piece's length.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return strip_prefix(pattern, text) == Some("") };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut text) = strip_prefix(head, text).and_then(|text| strip_suffix(tail, text)) else { return false };
    middle.split('*').all(|piece| match skip_past(piece, text) {
        Some(rest) => {
            text = rest;
            true
        }
        None => false,
    })
}

/// The rest of a text that starts with the piece.
fn strip_prefix<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    let mut rest = text.chars();
    let is_there = piece.chars().all(|wanted| rest.next().is_some_and(|found| wanted == '?' || wanted == found));
    is_there.then_some(rest.as_str())
}

/// The part of a text before the piece that it ends with.
fn strip_suffix<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    let mut rest = text.chars();
    let is_there = piece.chars().rev().all(|wanted| rest.next_back().is_some_and(|found| wanted == '?' || wanted == found));
    is_there.then_some(rest.as_str())
}

/// The rest of a text after the first occurrence of the piece.
fn skip_past<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    if !piece.contains('?') {
        return text.find(piece).map(|at| &text[at + piece.len()..]);
    }
    // Shift-And: a bit for each prefix of the piece says whether the text so far ends with it; each
    // word holds 64 of them.
    let length = piece.chars().count();
    let (words, last) = (length.div_ceil(64), length - 1);
    let mut any = vec![0u64; words];
    piece.chars().enumerate().filter(|(_, wanted)| *wanted == '?').for_each(|(at, _)| any[at / 64] |= 1 << (at % 64));
    let mut places: HashMap<char, Vec<u64>> = HashMap::new();
    for (at, wanted) in piece.chars().enumerate() {
        places.entry(wanted).or_insert_with(|| any.clone())[at / 64] |= 1 << (at % 64);
    }
    let mut ends = vec![0u64; words];
    for (at, found) in text.char_indices() {
        let mut carry = 1;
        for (ends, fits) in ends.iter_mut().zip(places.get(&found).unwrap_or(&any)) {
            let longer = (*ends << 1 | carry) & fits;
            carry = *ends >> 63;
            *ends = longer;
        }
        if ends[last / 64] >> (last % 64) & 1 == 1 {
            return Some(&text[at + found.len_utf8()..]);
        }
    }
    None
}

/// A network: the addresses that share their first bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u32,
}

/// Number of bits that all IPv4-mapped IPv6 addresses share.
const MAPPED_BITS: u32 = 96;

impl Network {
    /// Parses an address, or a network with its number of bits. An IPv4-mapped IPv6 network is the
    /// IPv4 network, since addresses are compared in that form. With less than the 96 bits that are
    /// not of IPv4, it remains a network of IPv6.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most: u32 = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        match address {
            IpAddr::V6(mapped) if mapped.to_ipv4_mapped().is_some() && bits >= MAPPED_BITS => {
                Some(Self { address: address.to_canonical(), bits: bits - MAPPED_BITS })
            }
            address => Some(Self { address, bits }),
        }
    }

    pub(crate) fn contains(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => (u32::from(own) ^ u32::from(peer)).checked_shr(32 - self.bits).unwrap_or(0) == 0,
            (IpAddr::V6(own), IpAddr::V6(peer)) => (u128::from(own) ^ u128::from(peer)).checked_shr(128 - self.bits).unwrap_or(0) == 0,
            _ => false,
        }
    }

    /// Whether the network is so large that AWS counts a policy for it as public.
    pub(super) fn is_broad(&self) -> bool {
        self.bits < if self.address.is_ipv4() { 8 } else { 32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbb", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("", "", true),
            ("", "a", false),
            ("a", "ab", false),
            ("ab*ba", "aba", false),
            ("ab*ba", "abba", true),
            ("**", "a", true),
            ("*ab*ab*", "abab", true),
            ("*ab*ab*", "aba", false),
            ("*?*?*", "a", false),
            ("*?b*c", "babc", true),
            ("*?b*c", "bc", false),
            ("?", "ü", true),
            ("??", "ü", false),
            ("*?é*", "日é", true),
            ("?*?", "日", false),
            ("?*?", "日本", true),
            ("日*?*語", "日本語", true),
            ("日*?*語", "日語", false),
        ] {
            assert_eq!(like(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_piece_that_almost_matches_everywhere_takes_linear_time() {
        let (text, piece) = ("a".repeat(1_000_000), "a".repeat(500_000));
        for pattern in [format!("*{piece}b"), format!("*{piece}b*"), format!("b{piece}*"), format!("*{piece}*{piece}b*")] {
            assert!(!like(&pattern, &text));
        }
        assert!(like(&format!("*{piece}*{piece}*"), &text));
        let (text, piece) = ("aü".repeat(10_000), "a?".repeat(5_000));
        assert!(!like(&format!("*{piece}b*"), &text) && !like(&format!("*{piece}?*{piece}*"), &text));
        for (pattern, fits) in
            [("*{}*", true), ("*ü{}*ü", true), ("*{}*{}*", true), ("*{}a*{}*", false), ("*?{}*", true), ("*{}aa*", false)]
        {
            assert_eq!(like(&pattern.replace("{}", &piece), &text), fits, "{pattern}");
        }
    }

    #[test]
    fn pieces_of_all_lengths_are_found_at_their_first_occurrence() {
        for length in 2..200 {
            let piece: String = ('a'..='z').cycle().take(length - 1).chain(['?']).collect();
            let text = format!("-{}+{}=", &piece[..length - 1], &piece[..length - 1]);
            assert_eq!(skip_past(&piece, &text), Some(&text[length + 1..]), "{length}");
            assert_eq!(skip_past(&format!("z{piece}z"), &text), None, "{length}");
        }
    }

    #[test]
    fn networks_contain_the_addresses_with_their_first_bits() {
        let contains = |network: &str, peer: &str| Network::parse(network).expect("a network").contains(peer.parse().expect("an address"));
        assert!(contains("10.1.0.0/16", "10.1.255.1") && contains("10.1.0.0/16", "::ffff:10.1.0.1") && contains("0.0.0.0/0", "10.2.0.1"));
        assert!(!contains("10.1.0.0/16", "10.2.0.1") && !contains("10.1.0.1", "10.1.0.2") && !contains("::/0", "10.2.0.1"));
        assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
        assert!(contains("::ffff:10.1.0.0/112", "10.1.255.1") && contains("::ffff:10.1.0.0/112", "::ffff:10.1.0.1"));
        assert!(contains("::ffff:10.1.0.1", "10.1.0.1") && contains("::ffff:0:0/96", "10.1.0.1"));
        assert!(!contains("::ffff:10.1.0.0/112", "10.2.0.1") && !contains("::ffff:0:0/96", "2001:db8::1"));
        assert!(["10.1.0.0/33", "::/129", "10.1", "10.1.0.0/", ""].iter().all(|wrong| Network::parse(wrong).is_none()));
    }
}
