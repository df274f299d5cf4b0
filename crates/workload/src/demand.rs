//! Demand: a stream of reads, generated from a [`Spec`] and a seed.
//!
//! ```text
//! source 0: arrivals --> account --> files --> size, place --.
//! source 1: arrivals --> account --> files --> size, place ---+--> shards, in order of time
//! ```
//!
//! Several sources add up, for example a steady one and one with bursts and its own sizes. Each
//! source reads its own files, as many as fill all platters at its mean size. The files of an
//! *account* were written together and are read together. The layout decides where they are.
//!
//! ```text
//! together    platter 17: | a0 | a1 | a2 | b0 | b1 | b2 |      one visit, neighbouring tracks
//! scattered   platter 17: | a1 |    platter 902: | a0 |    platter 3320: | a2 |
//! ```
//!
//! With the same seed, both layouts request the same files at the same instants, and the load is
//! distributed over the platters by the same law; only the neighbours of files differ.

use fulgurite_chance::Stream;
use fulgurite_domain::Micros;

use crate::SpecError;
use crate::arrivals::{Arrivals, Process};
use crate::error::{check_count, check_range};
use crate::popularity::{Picker, Popularity};
use crate::read::{Numbers, PlacedFile, Platters, Read, Sharding, Shards, scaled, unit};
use crate::sizes::{Quantiles, Sizes};

/// The load on all libraries of a deployment.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The platters that contain the files.
    pub platters: Platters,
    /// The largest shard, in bytes, at most a platter; [`crate::SHARD_BYTES`] by default.
    pub shard_bytes: u64,
    /// Requests arrive only before this instant; [`Micros::NEVER`] for no end.
    pub until: Micros,
    /// The sources that add up to the load, 1 to 256.
    pub sources: Vec<Source>,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    /// When accounts arrive. All files of an account are requested at that instant.
    pub arrivals: Arrivals,
    /// Sizes of the files.
    pub sizes: Sizes,
    /// How accounts are distributed over the platters.
    pub popularity: Popularity,
    /// Files per account; 1 if files are unrelated.
    pub account_files: u32,
    /// Where the files of an account are.
    pub layout: AccountLayout,
}

/// Where the files of an account are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountLayout {
    /// One after another on one platter; they share tracks.
    Together,
    /// Each on its own randomly drawn platter.
    Scattered,
}

impl Source {
    /// A source of unrelated files, with all platters equally popular.
    #[must_use]
    pub fn plain(arrivals: Arrivals, sizes: Sizes) -> Self {
        Self { arrivals, sizes, popularity: Popularity::Uniform, account_files: 1, layout: AccountLayout::Together }
    }
}

/// Yields reads in order of time; the shards of a request follow one another. Memory use is one
/// request, plus 8 bytes per platter for each source with a Zipf law.
#[derive(Debug, Clone)]
pub struct Demand {
    sharding: Sharding,
    until: Micros,
    sources: Vec<SourceState>,
    /// Files of the last arrival that are still to be requested.
    account: Account,
    /// Shards of the last request that are still to be read.
    shards: Shards,
    requests: u64,
    groups: u64,
}

#[derive(Debug, Clone)]
struct SourceState {
    process: Process,
    next: Micros,
    sizes: Quantiles,
    size_numbers: Numbers,
    place_numbers: Numbers,
    picker: Picker,
    accounts: Stream,
    accounts_per_platter: u64,
    account_files: u32,
    layout: AccountLayout,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    source: usize,
    at: Micros,
    group: u64,
    files_left: u32,
    /// The next file.
    object: u64,
    /// Where the account starts, and its bytes before the next file.
    platter: u32,
    track: u32,
    skip: u64,
}

/// A file's number contains its source in the first byte, so that different sources have different
/// files.
const SOURCE_SHIFT: u32 = 56;

impl Demand {
    /// Creates the stream.
    ///
    /// # Errors
    /// [`SpecError`] names the number that is out of range.
    pub fn new(spec: &Spec, seed: u64) -> Result<Self, SpecError> {
        if !(1..=256).contains(&spec.sources.len()) {
            return Err(SpecError::Sources { found: spec.sources.len() });
        }
        let sharding = Sharding::new(spec.platters, spec.shard_bytes, Stream::new(seed, "shards").bits())?;
        let mut sources = Vec::with_capacity(spec.sources.len());
        for (index, source) in spec.sources.iter().enumerate() {
            sources.push(SourceState::new(source, spec, &sharding, seed, index as u32)?);
        }
        let account = Account { source: 0, at: Micros::ZERO, group: 0, files_left: 0, object: 0, platter: 0, track: 0, skip: 0 };
        Ok(Self { sharding, until: spec.until, sources, account, shards: Shards::none(), requests: 0, groups: 0 })
    }

    /// The next account: from the source with the earliest arrival, the first such source in a tie.
    #[inline]
    fn next_account(&mut self) -> Option<Account> {
        let mut first = 0;
        for index in 1..self.sources.len() {
            if self.sources[index].next < self.sources[first].next {
                first = index;
            }
        }
        let source = &mut self.sources[first];
        let at = source.next;
        if at >= self.until {
            return None;
        }
        source.next = source.process.next(self.until);
        let platter = source.picker.at(source.accounts.bits());
        let of_platter = source.accounts.below(source.accounts_per_platter);
        let number = u64::from(platter) * source.accounts_per_platter + of_platter;
        let group = self.groups;
        self.groups += 1;
        Some(Account {
            source: first,
            at,
            group,
            files_left: source.account_files,
            object: ((first as u64) << SOURCE_SHIFT) | (number * u64::from(source.account_files)),
            platter,
            // Accounts are spread evenly over the platter, in the order of their numbers.
            track: (u128::from(of_platter) * u128::from(self.sharding.tracks()) / u128::from(source.accounts_per_platter)) as u32,
            skip: 0,
        })
    }

    /// The account's next file.
    #[inline]
    fn next_file(&mut self) -> PlacedFile {
        let account = &mut self.account;
        let source = &self.sources[account.source];
        let object = account.object;
        let bytes = source.sizes.at(unit(source.size_numbers.at(object)));
        let (platter, track, skip) = match source.layout {
            AccountLayout::Together => (account.platter, account.track, account.skip),
            AccountLayout::Scattered => {
                let platter = source.picker.at(source.place_numbers.at(object));
                (platter, scaled(source.place_numbers.at(!object), self.sharding.tracks().into()) as u32, 0)
            }
        };
        account.files_left -= 1;
        account.object += 1;
        // Only the file's first shard is on the account's platter.
        account.skip = account.skip.saturating_add(self.sharding.first_shard(bytes));
        let request = self.requests;
        self.requests += 1;
        PlacedFile { at: account.at, request, group: account.group, object, bytes, platter, track, skip }
    }
}

impl Iterator for Demand {
    type Item = Read;

    #[inline]
    fn next(&mut self) -> Option<Read> {
        loop {
            if let Some(read) = self.sharding.next(&mut self.shards) {
                return Some(read);
            }
            if self.account.files_left == 0 {
                self.account = self.next_account()?;
            }
            let file = self.next_file();
            self.shards = self.sharding.shards(file);
        }
    }
}

impl SourceState {
    fn new(source: &Source, spec: &Spec, sharding: &Sharding, seed: u64, index: u32) -> Result<Self, SpecError> {
        check_count("account_files", source.account_files.into())?;
        let sizes = Quantiles::new(source.sizes)?;
        let (largest, capacity) = (sizes.largest(), sharding.largest_file());
        if largest > capacity {
            return Err(SpecError::File { largest, capacity });
        }
        // Files of the mean size that fit on a platter; at least 1, because a platter also has a
        // shard of a file that is larger than itself.
        let fit = ((spec.platters.platter_bytes() as f64 / source.sizes.mean_bytes()) as u64).max(1);
        let accounts_per_platter = fit / u64::from(source.account_files);
        if accounts_per_platter == 0 {
            return Err(SpecError::Account { files: source.account_files, fit });
        }
        let files = u128::from(fit) * u128::from(spec.platters.count);
        check_range("files of the mean size on all platters", files as f64, files < 1 << SOURCE_SHIFT, "less than 2^56")?;
        let mut process = Process::new(source.arrivals, seed, index)?;
        Ok(Self {
            next: process.next(spec.until),
            process,
            sizes,
            size_numbers: Numbers(Stream::numbered(seed, "sizes", index).bits()),
            place_numbers: Numbers(Stream::numbered(seed, "places", index).bits()),
            picker: Picker::new(source.popularity, spec.platters.count, seed)?,
            accounts: Stream::numbered(seed, "accounts", index),
            accounts_per_platter,
            account_files: source.account_files,
            layout: source.layout,
        })
    }
}
