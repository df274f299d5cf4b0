//! Scenario files of migrations: each setting is declared once, and thereby read, checked,
//! documented and printed.

use std::path::Path;

use fulgurite_domain::Micros;
use fulgurite_settings::setting_type::{bytes, choice, count, duration, flag, list, number, rate, seconds, share, text};
use fulgurite_settings::{Document, Override, Reader, Section, SettingErrors, read_file};

use crate::hourly_limits::limits;
use crate::layout::{Layout, Rules, Spool, Station};

/// Lots of a simulation at most: a few minutes of computing.
const LOTS_MAX: u64 = 10_000_000;
/// Files of a simulation at most, each of which draws its size.
const FILES_MAX: u64 = 1_000_000_000;
/// Parts of the files at most.
const PARTS_MAX: usize = 1_000;
/// How much the sum of the parts' shares may differ from 1, as they are rounded.
const SHARES_OFF: f64 = 0.001;

/// A migration to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name: the file's, without folder and ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// What is migrated.
    pub files: Files,
    /// An input stream.
    pub input: Speed,
    /// An output stream.
    pub output: Speed,
    /// A scan stream.
    pub scan: Speed,
    /// The stations, which are alike but for the work they get.
    pub stations: StationPlan,
    /// Streams of each stage at the station whose rates were measured, if they were.
    pub measured: Option<[u16; 3]>,
    /// Rules of the pipeline.
    pub rules: Rules,
    /// Time of the day at which the migration begins, UTC.
    pub begins: Micros,
    /// Seed of chance.
    pub seed: u32,
    /// Costs, for a search.
    pub costs: Costs,
    /// How far a search goes.
    pub reach: Reach,
    /// All settings, as they were read, as TOML.
    pub text: String,
}

/// What is migrated.
#[derive(Debug, Clone, PartialEq)]
pub struct Files {
    /// Bytes in all.
    pub bytes: u64,
    /// Mean size of all files in bytes.
    pub size: u64,
    /// Parts that are migrated one after another, if the sizes of their files differ: at least one.
    pub parts: Vec<Part>,
    /// True if sizes are distributed exponentially; otherwise all are the same.
    pub varies: bool,
    /// Number of families. Files take turns.
    pub families: u32,
    /// Files of a lot, at most.
    pub lot_files: u32,
    /// Bytes of a lot with several files, at most.
    pub lot_bytes: u64,
    /// Bytes of a volume of the source; 0 if it has no volumes.
    pub volume_bytes: u64,
    /// Time from one volume to the next: unload, load, position.
    pub change_s: f64,
}

impl Files {
    /// Bytes of each part that has any, and the mean size of its files. Shares are rounded where
    /// they are written, so they count relative to their sum.
    pub(super) fn bytes_of_parts(&self) -> Vec<(u64, u64)> {
        let sum: f64 = self.parts.iter().map(|part| part.share).sum();
        let (mut share, mut given) = (0.0, 0);
        let bytes = |part: &Part| {
            share += part.share;
            let until = ((self.bytes as f64 * (share / sum)).round() as u64).min(self.bytes);
            let bytes = until.saturating_sub(given);
            given = given.max(until);
            (bytes, part.size)
        };
        self.parts.iter().map(bytes).filter(|(bytes, _)| *bytes > 0).collect()
    }
}

/// A part of the files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Its share of all bytes.
    pub share: f64,
    /// Mean size of its files in bytes.
    pub size: u64,
}

/// How fast a stream is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Bytes per second at which the bytes of a file move.
    pub rate: f64,
    /// The shortest gap between files, in seconds.
    pub gap_s: f64,
    /// The longest. Gaps are distributed uniformly between both.
    pub gap_max_s: f64,
    /// What each file takes besides its bytes, in seconds. It counts as moving.
    pub file_s: f64,
}

impl Speed {
    /// The time of a file of a size at a rate, with the shortest gap, in seconds.
    #[must_use]
    pub fn shortest_s(&self, size: f64, rate: f64) -> f64 {
        size / rate + self.gap_s + self.file_s
    }
}

/// The stations.
#[derive(Debug, Clone, PartialEq)]
pub struct StationPlan {
    /// Number of stations.
    pub count: u16,
    /// Instances of the migration program on each.
    pub instances: u16,
    /// Input streams of an instance.
    pub inputs: u16,
    /// Output streams of an instance.
    pub outputs: u16,
    /// Scan streams of an instance; 0 if scanning is left to others.
    pub scans: u16,
    /// Spool volumes of a station.
    pub spools: u16,
    /// Bytes of each.
    pub spool_bytes: u64,
    /// True if a volume has one reader or writer at a time.
    pub is_exclusive: bool,
    /// Bytes per second that are written to a volume, at most.
    pub spool_write: f64,
    /// Bytes per second that are read from a volume, at most.
    pub spool_read: f64,
    /// Bytes per second of a station's network, in each direction.
    pub link: f64,
    /// Bytes per second that the source delivers to all stations.
    pub source: f64,
    /// Bytes per second that the destination takes from all stations.
    pub destination: f64,
    /// The share of the time in which each station gets work. One value stands for all.
    pub fed: Vec<f64>,
}

/// Costs, in any unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A station.
    pub station: f64,
    /// An input drive.
    pub input: f64,
    /// An output drive.
    pub output: f64,
    /// A scan drive.
    pub scan: f64,
}

/// How far a search goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// When the migration must have ended.
    pub within: Micros,
    /// Most stations.
    pub stations: u16,
    /// Most input streams of an instance.
    pub inputs: u16,
    /// Most output streams of an instance.
    pub outputs: u16,
    /// Most scan streams of an instance.
    pub scans: u16,
    /// Most instances of a station.
    pub instances: u16,
}

impl Scenario {
    /// Reads the file at `path`, and the files it is based on, with the overrides of the command
    /// line on top.
    ///
    /// # Errors
    /// All settings that are wrong, unknown, missing or inconsistent, each with its place.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let name = path.file_stem().map_or_else(|| "migration".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::from_document(Document::load(&path.to_string_lossy(), &read_file)?, &name, overrides)
    }

    /// Like [`Scenario::read`], for a text that is based on no file.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        Self::from_document(Document::parse(name, text)?, name, overrides)
    }

    fn from_document(mut document: Document, name: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        overrides.iter().for_each(|setting| document.apply(setting));
        let mut reader = Reader::new(document);
        let mut scenario = settings(&mut reader);
        name.clone_into(&mut scenario.name);
        if reader.is_sound() {
            check(&scenario, &mut reader);
        }
        scenario.text = reader.finish()?;
        Ok(scenario)
    }

    /// What the pipeline consists of.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let of = &self.stations;
        let station = |index: u16| Station {
            name: format!("station {}", index + 1),
            inputs: of.inputs * of.instances,
            outputs: of.outputs * of.instances,
            scans: of.scans * of.instances,
            spools: vec![Spool { bytes: of.spool_bytes, is_exclusive: of.is_exclusive, is_reserve: false }; usize::from(of.spools)],
        };
        Layout { stations: (0..of.count).map(station).collect(), rules: self.rules.clone() }
    }

    /// The cost of all drives and stations.
    #[must_use]
    pub fn cost(&self) -> f64 {
        let (of, costs) = (&self.stations, &self.costs);
        let instance = f64::from(of.inputs) * costs.input + f64::from(of.outputs) * costs.output + f64::from(of.scans) * costs.scan;
        f64::from(of.count) * (costs.station + f64::from(of.instances) * instance)
    }
}

/// The reference page of all settings in scenario files.
#[must_use]
pub fn reference() -> String {
    const INTRODUCTION: &str = include_str!("introduction.txt");
    let mut reader = Reader::new(Document::empty("reference"));
    settings(&mut reader);
    reader.reference(INTRODUCTION)
}

/// Declares every setting.
fn settings(reader: &mut Reader) -> Scenario {
    let title = reader.top().setting("title", text(), "", "Title of the migration, in one line.");
    let files = files(reader);
    let mut section = reader.section("input", "An input stream: a drive of the old medium, or a connection to the source.");
    let input = speed(&mut section, "33 MB/s", "0 s", "0 s");
    let mut section = reader.section("output", "An output stream: a drive of the new medium, or a connection to the destination.");
    let output = speed(&mut section, "75 MB/s", "2 s", "10 s");
    let mut section = reader.section("scan", "A scan stream, which reads back what was written.");
    let scan = speed(&mut section, "100 MB/s", "0 s", "0 s");
    let stations = stations(reader);
    let measured = measured(reader);
    let mut section = reader.section("rules", "Rules of the pipeline.");
    let rules = Rules {
        families_together: section.setting(
            "families_together",
            flag(),
            "true",
            "At a station, only one output stream writes files of a family at a time, so that they stay together.",
        ),
        spooled_max: section.setting("spooled", count(1..=10_000), "256", "Lots in the spool volumes of a station, at most."),
        unscanned_max: section.setting(
            "unscanned",
            count(1..=10_000),
            "16",
            "Lots of a station that are written and not scanned, at most, if the station scans.",
        ),
        limits: limits(&mut section),
    };
    let mut section = reader.section("costs", "Costs of what a search may choose, in any unit.");
    let cost = || number(0.0..=1e12);
    let costs = Costs {
        station: section.setting("station", cost(), "4", "A station."),
        input: section.setting("input", cost(), "1", "An input drive."),
        output: section.setting("output", cost(), "3", "An output drive."),
        scan: section.setting("scan", cost(), "3", "A scan drive."),
    };
    let mut section = reader.section("search", "How far `--search` goes.");
    let reach = Reach {
        within: section.setting("within", duration("1 min"..="3650 d"), "90 d", "Time after which the migration must have ended."),
        stations: section.setting("stations", count(1..=100), "16", "Most stations."),
        inputs: section.setting("inputs", count(1..=16), "6", "Most input streams of an instance."),
        outputs: section.setting("outputs", count(1..=16), "4", "Most output streams of an instance."),
        scans: section.setting("scans", count(1..=16), "4", "Most scan streams of an instance, if stations scan."),
        instances: section.setting("instances", count(1..=8), "2", "Most instances of a station."),
    };
    let mut section = reader.section("run", "The simulated run.");
    Scenario {
        name: "migration".to_owned(),
        title,
        files,
        input,
        output,
        scan,
        stations,
        measured,
        rules,
        begins: section.setting("begins", duration("0 s"..="24 h"), "0 h", "Time of the day at which the migration begins, UTC."),
        seed: section.setting("seed", count(0..=u32::MAX), "1", "Seed of chance."),
        costs,
        reach,
        text: String::new(),
    }
}

fn files(reader: &mut Reader) -> Files {
    let mut section = reader.section("files", "What is migrated.");
    let total = section.setting("total", bytes("1 kB"..="1 EB"), "100 TB", "Bytes of all files.");
    let mut parts = section.tables("parts", "Parts of the files that follow each other, if their sizes differ.", |section| Part {
        size: section.required("size", bytes("1 B"..="100 TB"), "Mean size of a file of the part."),
        share: section.required("share", share("0 %"..="100 %"), "The part's share of all bytes. The shares add up to 100 %."),
    });
    // A complete scenario with parts has no size of all files, which could contradict theirs.
    let default = parts.is_empty().then_some(1_000_000_000);
    let size = section.optional_or("size", bytes("1 B"..="100 TB"), default, "Mean size of a file. Parts have sizes of their own.");
    if let Some(size) = size {
        match parts.is_empty() {
            true => parts.push(Part { share: 1.0, size }),
            false => section.reject("size", "nothing, since files.parts has sizes; files.parts=[] removes them"),
        }
    }
    Files {
        bytes: total,
        size: mean_size(&parts),
        parts,
        varies: section.setting(
            "sizes",
            choice(&[("same", false), ("exponential", true)]),
            "same",
            "How sizes are distributed: all the same, or exponentially.",
        ),
        families: section.setting("families", count(1..=1_000_000), "16", "Number of families of files; lots take turns."),
        lot_files: section.setting("lot_files", count(1..=1_000_000), "1", "Files of a lot, at most. Small files move in lots."),
        lot_bytes: section.setting("lot_bytes", bytes("1 B"..="100 TB"), "1 GB", "Bytes of a lot with several files, at most."),
        volume_bytes: section.setting(
            "volume",
            bytes("0 B"..="1 PB"),
            "0 B",
            "Bytes of a volume of the source, such as a tape. With 0, the source has no volumes.",
        ),
        change_s: section.setting(
            "change",
            seconds("0 s"..="1 h"),
            "0 s",
            "Time before the files of each volume: to unload the previous one, to load this one and to wind.",
        ),
    }
}

/// The mean size of a file of all parts.
fn mean_size(parts: &[Part]) -> u64 {
    if let [part] = parts {
        return part.size;
    }
    let (bytes, files) = parts.iter().fold((0.0, 0.0), |(bytes, files), part| (bytes + part.share, files + part.share / part.size as f64));
    ((bytes / files).round() as u64).max(1)
}

fn speed(section: &mut Section<'_>, default_rate: &str, gap: &str, gap_max: &str) -> Speed {
    Speed {
        rate: section.setting("rate", rate("1 B/s"..="1 TB/s"), default_rate, "Rate at which the bytes of a file move."),
        gap_s: section.setting("gap", seconds("0 s"..="1 h"), gap, "Shortest gap between files, in which no byte moves."),
        gap_max_s: section.setting("gap_max", seconds("0 s"..="1 h"), gap_max, "Longest gap between files."),
        file_s: section.setting(
            "per_file",
            seconds("0 s"..="1 h"),
            "0 s",
            "Time that each file takes besides its bytes, such as to sync it. It counts as moving.",
        ),
    }
}

fn stations(reader: &mut Reader) -> StationPlan {
    let mut section = reader.section("stations", "The machines that migrate. They are alike, but for the work they get.");
    let fast = || rate("1 B/s"..="1 PB/s");
    StationPlan {
        count: section.setting("count", count(1..=1_000), "8", "Number of stations."),
        instances: section.setting("instances", count(1..=16), "1", "Instances of the migration program on each station."),
        inputs: section.setting("inputs", count(1..=64), "1", "Input streams of an instance."),
        outputs: section.setting("outputs", count(1..=64), "1", "Output streams of an instance."),
        scans: section.setting("scans", count(0..=64), "0", "Scan streams of an instance. With 0, scanning is not part of the plan."),
        spools: section.setting("spools", count(1..=64), "2", "Spool volumes of a station."),
        spool_bytes: section.setting("spool", bytes("1 B"..="1 PB"), "200 GB", "Bytes of a spool volume."),
        is_exclusive: section.setting(
            "spool_exclusive",
            flag(),
            "true",
            "One stream at a time reads from a spool volume or writes to it. On a disk, a reader beside a writer starves.",
        ),
        spool_write: section.setting("spool_write", fast(), "175 MB/s", "Rate at which a spool volume is written, at most."),
        spool_read: section.setting("spool_read", fast(), "125 MB/s", "Rate at which a spool volume is read, at most."),
        link: section.setting("link", fast(), "250 MB/s", "Rate of a station's network, in each direction."),
        source: section.setting("source", fast(), "1 TB/s", "Rate of the source for all stations together."),
        destination: section.setting("destination", fast(), "1 TB/s", "Rate of the destination for all stations together."),
        fed: section.setting(
            "fed",
            list(share("0 %"..="100 %"), 1..=1_000),
            "[\"100 %\"]",
            "Share of the time in which a station gets work: one value for all stations, or one for each. Observed, not predicted.",
        ),
    }
}

fn measured(reader: &mut Reader) -> Option<[u16; 3]> {
    let mut section =
        reader.section("measured", "Streams of the run whose rates these are. With others, a plan also prints a range of times.");
    let mut streams = |name, doc| section.setting(name, count(0..=1_024), "0", doc);
    let streams = [
        streams("inputs", "Input streams of the station. With 0, rates weren't measured."),
        streams("outputs", "Its output streams."),
        streams("scans", "Its scan streams."),
    ];
    (streams[0] > 0).then_some(streams)
}

/// Rejects settings that contradict each other.
fn check(scenario: &Scenario, reader: &mut Reader) {
    let of = &scenario.stations;
    if !of.fed.iter().any(|&share| share > 0.0) {
        reader.section("stations", "").reject("fed", "a station that gets work");
    }
    if of.fed.len() > 1 && of.fed.len() != usize::from(of.count) {
        let expected = format!("one value, or {}: one for each station", of.count);
        reader.section("stations", "").reject("fed", expected);
    }
    if u32::from(of.count) * u32::from(of.instances) * u32::from(of.inputs + of.outputs + of.scans) > 10_000 {
        reader.section("stations", "").reject("count", "at most 10,000 streams in all");
    }
    for (name, speed) in [("input", scenario.input), ("output", scenario.output), ("scan", scenario.scan)] {
        if speed.gap_max_s < speed.gap_s {
            reader.section(name, "").reject("gap_max", "at least as long as gap");
        }
    }
    let files = &scenario.files;
    if files.parts.len() > PARTS_MAX {
        reader.section("files", "").reject("parts", format!("at most {PARTS_MAX} parts"));
    }
    if (files.parts.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() > SHARES_OFF {
        reader.section("files", "").reject("parts", "shares that add up to 100 %");
    }
    if files.parts.iter().any(|part| part.size > of.spool_bytes) {
        reader.section("stations", "").reject("spool", "room for a file of mean size");
    }
    let (mut lots, mut numbers) = (0_u64, 0_u64);
    for (bytes, size) in files.bytes_of_parts() {
        let lot_bytes = files.lot_bytes.min(size.saturating_mul(u64::from(files.lot_files))).max(size);
        (lots, numbers) = (lots + bytes.div_ceil(lot_bytes), numbers + bytes.div_ceil(size));
    }
    if lots > LOTS_MAX || numbers > FILES_MAX {
        let too_many = "a total that isn't too many lots or files to simulate: at most 10 million lots and 1 billion files";
        reader.section("files", "").reject("total", too_many);
    }
}
