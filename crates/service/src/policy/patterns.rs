//! Patterns of text, and networks.

use std::net::IpAddr;

/// Whether text is like a pattern, where `*` is any text and `?` any character.
pub(crate) fn like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star doesn't fit: one character further.
    let mut retry = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            (p, t) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// An address, or a network as `address/bits`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        Some(Self { address, bits })
    }

    pub(crate) fn holds(&self, peer: IpAddr) -> bool {
        match (self.address, peer.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => (u32::from(own) ^ u32::from(peer)).checked_shr(32 - self.bits).unwrap_or(0) == 0,
            (IpAddr::V6(own), IpAddr::V6(peer)) => (u128::from(own) ^ u128::from(peer)).checked_shr(128 - self.bits).unwrap_or(0) == 0,
            _ => false,
        }
    }

    /// Whether it has so many addresses that a policy is as good as public, as AWS counts them.
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
        ] {
            assert_eq!(like(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn networks_hold_the_addresses_with_their_first_bits() {
        let holds = |network: &str, peer: &str| Network::parse(network).expect("a network").holds(peer.parse().expect("an address"));
        assert!(holds("10.1.0.0/16", "10.1.255.1") && holds("10.1.0.0/16", "::ffff:10.1.0.1") && holds("0.0.0.0/0", "10.2.0.1"));
        assert!(!holds("10.1.0.0/16", "10.2.0.1") && !holds("10.1.0.1", "10.1.0.2") && !holds("::/0", "10.2.0.1"));
        assert!(holds("2001:db8::/32", "2001:db8:1::1") && !holds("2001:db8::/32", "2001:db9::1"));
        assert!(["10.1.0.0/33", "::/129", "10.1", "10.1.0.0/", ""].iter().all(|wrong| Network::parse(wrong).is_none()));
    }
}
