//! What a detector watches at a node.

use std::fmt;

use crate::copy::Method;

/// Checks of one node whose times can be compared with each other: a detector watches each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Series {
    /// The checks of copies by one method.
    Checks(Method),
    /// The benchmarks of one kind.
    Benchmarks(Probe),
}

/// How a benchmark reads its file. Names and meaning as in the matrix of the California Digital
/// Library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// By a presigned URL, as a user's download.
    Access,
    /// As an audit reads it.
    Audit,
}

impl Series {
    /// All series, in the order of their stored numbers.
    pub const ALL: [Self; 5] = [
        Self::Checks(Method::Stream),
        Self::Checks(Method::Provider),
        Self::Checks(Method::Header),
        Self::Benchmarks(Probe::Access),
        Self::Benchmarks(Probe::Audit),
    ];

    /// Its name in reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Checks(method) => method.name(),
            Self::Benchmarks(probe) => probe.name(),
        }
    }

    /// The number that stands for it in databases. The low ones are those of methods.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Checks(method) => method.number(),
            Self::Benchmarks(probe) => 16 + probe.number(),
        }
    }

    /// The series of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|series| series.number() == number)
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Probe {
    /// All of them, in the order of their stored numbers.
    pub const ALL: [Self; 2] = [Self::Access, Self::Audit];

    /// Its name in settings and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Audit => "audit",
        }
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The one of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_numbers_and_names_of_their_own() {
        for series in Series::ALL {
            assert_eq!(Series::from_number(series.number()), Some(series));
        }
        assert_eq!(Series::from_number(3), None);
        assert_eq!(Series::ALL.map(Series::name), ["stream", "provider", "header", "access", "audit"]);
        assert_eq!(Method::ALL.len() + Probe::ALL.len(), Series::ALL.len());
    }
}
