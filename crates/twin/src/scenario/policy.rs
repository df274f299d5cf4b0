//! Who decides in a run: a policy by its name, with its settings.

use fulgurite_library::{Fulgurite, Ideas, Layout, NoShuttles, Partitioned, Policy, ShortestPaths};

/// The name of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// The baseline without shuttles.
    NoShuttles,
    /// The baseline without partitions.
    ShortestPaths,
    /// The paper's.
    Partitioned,
    /// Ours.
    Fulgurite,
}

impl PolicyName {
    /// All of them, as they are written in a scenario.
    pub const ALL: [(&'static str, Self); 4] = [
        ("no-shuttles", Self::NoShuttles),
        ("shortest-paths", Self::ShortestPaths),
        ("partitioned", Self::Partitioned),
        ("fulgurite", Self::Fulgurite),
    ];

    /// As it is written in a scenario.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// A policy with its settings; those of the others are of no effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyChoice {
    /// Which.
    pub name: PolicyName,
    /// `partitioned`: by how many waiting bytes the fullest rectangle must exceed the emptiest for idle shuttles to help there; none if
    /// they never do.
    pub steals_above: Option<u64>,
    /// `fulgurite`: what it makes use of.
    pub ideas: Ideas,
}

impl Default for PolicyChoice {
    /// Ours. The threshold of the paper's policy is 1 GB, one of the largest shards: less is nothing to travel for.
    fn default() -> Self {
        Self { name: PolicyName::Fulgurite, steals_above: Some(1_000_000_000), ideas: Ideas::default() }
    }
}

impl PolicyChoice {
    /// The policy for a panel of these measures, where a track has so many bytes.
    #[must_use]
    pub fn build(&self, layout: &Layout, track_bytes: u64) -> Box<dyn Policy> {
        match self.name {
            PolicyName::NoShuttles => Box::new(NoShuttles),
            PolicyName::ShortestPaths => Box::new(ShortestPaths),
            PolicyName::Partitioned => {
                Box::new(Partitioned::new(layout, self.steals_above.map(|bytes| bytes.div_ceil(track_bytes.max(1)))))
            }
            PolicyName::Fulgurite => Box::new(Fulgurite::new(layout, self.ideas)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_names_they_are_listed_under() {
        for (text, name) in PolicyName::ALL {
            assert_eq!(name.text(), text);
        }
    }
}
