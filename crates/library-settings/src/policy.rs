//! Selects a policy by name, with its settings.

use fulgurite_library::{Balanced, Layout, NoShuttles, Pace, Partitioned, Policy, ShortestPaths, Techniques};

/// The name of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// The baseline without shuttles.
    NoShuttles,
    /// The baseline without partitions.
    ShortestPaths,
    /// The policy of the paper.
    Partitioned,
    /// Balances the waiting work over shuttles and drives.
    Balanced,
}

impl PolicyName {
    /// All policies with their names in files.
    pub const ALL: [(&'static str, Self); 4] = [
        ("no-shuttles", Self::NoShuttles),
        ("shortest-paths", Self::ShortestPaths),
        ("partitioned", Self::Partitioned),
        ("balanced", Self::Balanced),
    ];

    /// The name in files.
    #[must_use]
    pub fn text(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// A policy with its settings; settings of the other policies have no effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicyChoice {
    /// The policy.
    pub name: PolicyName,
    /// `partitioned`: how many more bytes must wait in the fullest rectangle than in the emptiest
    /// before idle shuttles help there; `None` if they never do.
    pub steals_above: Option<u64>,
    /// `balanced`: the settings of its techniques.
    pub techniques: Techniques,
}

impl Default for PolicyChoice {
    /// The balanced policy. The threshold of the paper's policy is 1 GB, the size of the largest
    /// shards; less is not worth the trip.
    fn default() -> Self {
        Self { name: PolicyName::Balanced, steals_above: Some(1_000_000_000), techniques: Techniques::default() }
    }
}

impl PolicyChoice {
    /// Builds the policy for a panel with this layout, pace and track size.
    #[must_use]
    pub fn build(&self, layout: &Layout, pace: &Pace, track_bytes: u64) -> Box<dyn Policy> {
        match self.name {
            PolicyName::NoShuttles => Box::new(NoShuttles),
            PolicyName::ShortestPaths => Box::new(ShortestPaths),
            PolicyName::Partitioned => {
                Box::new(Partitioned::new(layout, self.steals_above.map(|bytes| bytes.div_ceil(track_bytes.max(1)))))
            }
            PolicyName::Balanced => Box::new(Balanced::new(layout, pace, self.techniques)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_the_name_it_is_listed_under() {
        for (text, name) in PolicyName::ALL {
            assert_eq!(name.text(), text);
        }
    }
}
