//! Operations, the sizes of objects, and which object is next.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::content::{Content, mix};

/// What a client does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Puts a new object.
    Ingest,
    /// Gets an object, and checks its content.
    Access,
    /// Replaces an object by one of the same size.
    Update,
    /// Deletes an object.
    Delete,
}

impl Operation {
    /// All operations, in the order of [`Operation::index`].
    pub const ALL: [Self; 4] = [Self::Ingest, Self::Access, Self::Update, Self::Delete];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Access => "access",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// Its place in [`Operation::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Operations, each with its share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix(Vec<(Operation, u32)>);

/// The text isn't a mix of operations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected `ingest`, `access`, `update`, `delete`, `mixed`, or shares such as `access=70,ingest=30`; found `{0}`")]
pub struct NotAMix(String);

impl FromStr for Mix {
    type Err = NotAMix;

    fn from_str(text: &str) -> Result<Self, NotAMix> {
        let operation = |name: &str| Operation::ALL.into_iter().find(|operation| operation.name() == name);
        let share = |part: &str| {
            let (name, share) = part.split_once('=').unwrap_or((part, "1"));
            Some((operation(name.trim())?, share.trim().parse().ok().filter(|share| (1..=1_000_000).contains(share))?))
        };
        let text = if text == "mixed" { "access=70,ingest=20,update=10" } else { text };
        let shares: Option<Vec<(Operation, u32)>> = text.split(',').map(share).collect();
        let is_once = |shares: &Vec<(Operation, u32)>| {
            (1..shares.len()).all(|index| !shares[..index].iter().any(|(operation, _)| *operation == shares[index].0))
        };
        shares.filter(is_once).map(Self).ok_or_else(|| NotAMix(text.to_owned()))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(operation, _)] = self.0[..] {
            return f.write_str(operation.name());
        }
        let parts: Vec<String> = self.0.iter().map(|(operation, share)| format!("{}={share}", operation.name())).collect();
        f.write_str(&parts.join(","))
    }
}

impl Mix {
    /// Whether it has this operation.
    #[must_use]
    pub fn has(&self, wanted: Operation) -> bool {
        self.0.iter().any(|(operation, _)| *operation == wanted)
    }

    /// Whether it needs objects that exist before it begins.
    #[must_use]
    pub fn needs_objects(&self) -> bool {
        self.0.iter().any(|(operation, _)| *operation != Operation::Ingest)
    }

    fn draw(&self, random: &mut Random) -> Operation {
        let all = self.0.iter().map(|(_, share)| u64::from(*share)).sum();
        let mut place = random.below(all);
        for (operation, share) in &self.0 {
            match place.checked_sub((*share).into()) {
                None => return *operation,
                Some(rest) => place = rest,
            }
        }
        self.0[0].0
    }
}

/// Sizes of objects in bytes, each with its share of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(Vec<(u64, u32)>);

impl Sizes {
    /// Sizes with their shares. `None` if there are none, or a share is 0.
    #[must_use]
    pub fn new(sizes: Vec<(u64, u32)>) -> Option<Self> {
        (!sizes.is_empty() && sizes.iter().all(|(_, share)| *share > 0)).then_some(Self(sizes))
    }

    /// The size of an object.
    fn of(&self, number: u64) -> u64 {
        let all: u64 = self.0.iter().map(|(_, share)| u64::from(*share)).sum();
        let mut place = mix(number ^ 0x5a5a_5a5a_5a5a_5a5a) % all;
        for (bytes, share) in &self.0 {
            match place.checked_sub((*share).into()) {
                None => return *bytes,
                Some(rest) => place = rest,
            }
        }
        self.0[0].0
    }

    /// The largest size.
    #[must_use]
    pub fn largest(&self) -> u64 {
        self.0.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0)
    }
}

/// The objects of a target: their keys, and which exist.
#[derive(Debug)]
pub struct Objects {
    prefix: String,
    sizes: Sizes,
    storage_class: Option<String>,
    /// Objects with numbers below it exist before the load begins, except those that it deletes.
    prepared: u64,
    next: AtomicU64,
    deleted: AtomicU64,
    revision: AtomicU64,
    /// Reads and updates skip this many objects after the last deleted one, so that they don't race
    /// with deletes in flight.
    margin: u64,
}

/// An operation with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) operation: Operation,
    /// The content of the object, or of the first one of a bulk put.
    pub(crate) content: Content,
    /// Objects of a bulk put, with consecutive numbers; otherwise 1.
    pub(crate) objects: u64,
}

impl Objects {
    /// The objects with keys that begin with `prefix`, of which the first `prepared` exist.
    /// `clients` use them at once.
    #[must_use]
    pub fn new(prefix: String, sizes: Sizes, prepared: u64, clients: usize) -> Self {
        let [next, deleted, revision] = [prepared, 0, 1].map(AtomicU64::new);
        Self { prefix, sizes, storage_class: None, prepared, next, deleted, revision, margin: 2 * clients as u64 }
    }

    /// The same objects, put with a storage class.
    #[must_use]
    pub fn in_class(self, storage_class: Option<String>) -> Self {
        Self { storage_class, ..self }
    }

    /// The storage class that they are put with, if not the server's default.
    pub(crate) fn storage_class(&self) -> Option<&str> {
        self.storage_class.as_deref()
    }

    /// The key of an object.
    pub(crate) fn key(&self, number: u64) -> String {
        format!("{}{number:012}", self.prefix)
    }

    /// The first version of an object.
    pub(crate) fn first(&self, number: u64) -> Content {
        Content { number, revision: 0, bytes: self.sizes.of(number) }
    }

    /// The next operation of a client, which puts `bulk` new objects at once. `None` if no object
    /// is left for it.
    pub(crate) fn next(&self, mix: &Mix, bulk: u64, random: &mut Random) -> Option<Task> {
        let operation = mix.draw(random);
        let content = match operation {
            Operation::Ingest => self.first(self.next.fetch_add(bulk, Ordering::Relaxed)),
            Operation::Access | Operation::Update => {
                let margin = if mix.has(Operation::Delete) { self.margin } else { 0 };
                let gone = self.deleted.load(Ordering::Relaxed) + margin;
                let left = self.prepared.checked_sub(gone).filter(|left| *left > 0)?;
                let content = self.first(gone + random.below(left));
                let is_update = operation == Operation::Update;
                Content { revision: if is_update { self.revision.fetch_add(1, Ordering::Relaxed) } else { 0 }, ..content }
            }
            Operation::Delete => {
                let number = self.deleted.fetch_add(1, Ordering::Relaxed);
                (number < self.prepared).then(|| self.first(number))?
            }
        };
        let objects = if operation == Operation::Ingest { bulk } else { 1 };
        Some(Task { operation, content, objects })
    }
}

/// A small generator of random numbers.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `count`, which is more than 0.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(count)) >> 64) as u64
    }

    /// An exponentially distributed number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        let unit = ((self.bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        -unit.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_and_drawn_by_their_shares() {
        let mix: Mix = "access=70, ingest=20,update=10".parse().expect("a mix");
        assert_eq!(mix.to_string(), "access=70,ingest=20,update=10");
        assert_eq!("mixed".parse::<Mix>().as_ref(), Ok(&mix));
        assert_eq!("ingest".parse::<Mix>().expect("one").to_string(), "ingest");
        let mut random = Random::new(1);
        let mut drawn = [0; 4];
        (0..100_000).for_each(|_| drawn[mix.draw(&mut random).index()] += 1);
        for (found, expected) in drawn.into_iter().zip([20_000_i32, 70_000, 10_000, 0]) {
            assert!((found - expected).abs() < 700, "{drawn:?}");
        }
        for wrong in ["", "get", "access=0", "access=x", "access,access", "access=70;ingest=30", "ingest=-1"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_object_keeps_its_size_and_sizes_have_their_shares() {
        let sizes = Sizes::new(vec![(10, 3), (500, 1)]).expect("sizes");
        let objects = Objects::new("a/".to_owned(), sizes.clone(), 100_000, 4);
        let large = (0..100_000).filter(|number| objects.first(*number).bytes == 500).count();
        assert!((24_000..26_000).contains(&large), "{large}");
        let mix: Mix = "update".parse().expect("a mix");
        let mut random = Random::new(2);
        for _ in 0..1_000 {
            let task = objects.next(&mix, 1, &mut random).expect("an object");
            assert_eq!(task.content.bytes, objects.first(task.content.number).bytes);
            assert!(task.content.revision > 0);
        }
        assert_eq!((objects.key(7).as_str(), sizes.largest()), ("a/000000000007", 500));
        assert_eq!((Sizes::new(vec![]), Sizes::new(vec![(1, 0)])), (None, None));
    }

    #[test]
    fn every_object_is_put_once_and_deleted_once_and_none_is_read_after_that() {
        let sizes = Sizes::new(vec![(0, 1)]).expect("a size");
        let objects = Objects::new(String::new(), sizes, 100, 1);
        let [ingest, delete, both] = ["ingest", "delete", "access,delete"].map(|mix| mix.parse::<Mix>().expect("a mix"));
        let mut random = Random::new(3);
        let mut numbers = |mix, count| -> Vec<u64> {
            (0..count).map_while(|_| objects.next(mix, 1, &mut random)).map(|task| task.content.number).collect()
        };
        assert_eq!(numbers(&ingest, 3), [100, 101, 102]);
        assert_eq!(numbers(&delete, 60), (0..60).collect::<Vec<_>>());
        let mut gone = 60;
        for _ in 0..20 {
            for number in numbers(&both, 1) {
                assert!(number == gone || number >= gone + 2);
                gone += u64::from(number == gone);
            }
        }
        assert_eq!(numbers(&delete, 100).last(), Some(&99));
        assert_eq!(numbers(&"access".parse().expect("a mix"), 1), [0_u64; 0]);
    }
}
