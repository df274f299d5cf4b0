//! The settings file `fulgurite.toml`: `init` writes it with comments, people edit it.
//!
//! Unknown settings are rejected, because a mistyped name would otherwise silently mean the
//! default.

use std::path::{Path, PathBuf};

use fulgurite_domain::{ArchiveId, Medium, SetShape};
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Preset;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The file's name in an archive's folder.
pub const FILE: &str = "fulgurite.toml";

/// The settings of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The archive.
    pub archive: ArchiveSettings,
    /// Limits.
    #[serde(default)]
    pub limits: Limits,
    /// Staging.
    #[serde(default)]
    pub staging: StagingSettings,
    /// Platter-sets.
    pub set: SetSettings,
    /// What new platters are made of.
    #[serde(default)]
    pub medium: MediumSettings,
    /// How images of glass are decoded.
    #[serde(default)]
    pub decode: DecodeSettings,
    /// Stores for platters, one entry each.
    #[serde(rename = "store")]
    pub stores: Vec<StoreSettings>,
}

/// `[archive]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchiveSettings {
    /// Identifier of the archive, 32 hexadecimal digits.
    #[serde(deserialize_with = "crate::as_text::deserialize")]
    pub id: ArchiveId,
    /// Whether new objects are encrypted, each under a key of its own.
    #[serde(default = "yes")]
    pub encrypt: bool,
    /// Master key file, relative to the archive's folder.
    #[serde(default = "default_master_key")]
    pub master_key: PathBuf,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Memory limit of a command, MiB.
    pub memory_mib: u64,
    /// Threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        Self { memory_mib: 512, threads: threads.min(8) }
    }
}

/// `[staging]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StagingSettings {
    /// Folder, relative to the archive's folder.
    pub path: PathBuf,
    /// Length at which a segment is closed, MiB.
    pub segment_mib: u64,
    /// Limit on the total size of all segments, MiB. Without it, the disk is the limit.
    pub limit_mib: Option<u64>,
}

impl Default for StagingSettings {
    fn default() -> Self {
        Self { path: "staging".into(), segment_mib: 256, limit_mib: None }
    }
}

/// `[set]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSettings {
    /// Information platters of a set.
    pub information: u16,
    /// Redundancy platters of a set: the number of stores that can be lost without losing data.
    pub redundancy: u16,
    /// Content limit of a platter, MiB.
    #[serde(default = "default_platter_mib")]
    pub platter_mib: u64,
}

/// `[medium]`: what new platters are made of. Reading finds that out by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "lowercase")]
pub enum MediumSettings {
    /// Files with the platters' bytes.
    Disk {},
    /// Emulated glass.
    Glass(GlassSettings),
}

impl Default for MediumSettings {
    fn default() -> Self {
        Self::Disk {}
    }
}

impl MediumSettings {
    /// The medium.
    #[must_use]
    pub fn medium(self) -> Medium {
        match self {
            Self::Disk {} => Medium::Disk,
            Self::Glass(_) => Medium::Glass,
        }
    }

    /// True if glass is read with more noise than the decoders bear.
    pub(crate) fn is_harsh(self) -> bool {
        matches!(self, Self::Glass(GlassSettings { noise: Preset::Harsh, .. }))
    }

    /// Content limit of a platter that suits the medium, MiB. Reading a platter of emulated glass
    /// takes minutes of computing for each 10 MiB.
    #[must_use]
    pub fn default_platter_mib(self) -> u64 {
        match self {
            Self::Disk {} => default_platter_mib(),
            Self::Glass(_) => 10,
        }
    }

    /// How glass is written and read, also for the glass of an archive that now writes to disks.
    #[must_use]
    pub fn glass(self) -> GlassSettings {
        match self {
            Self::Disk {} => GlassSettings::default(),
            Self::Glass(glass) => glass,
        }
    }
}

/// Settings of glass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GlassSettings {
    /// Size of sectors, tracks and groups.
    #[serde(deserialize_with = "glass_preset")]
    pub preset: GlassPreset,
    /// Strengths of the emulated effects of writing and reading.
    #[serde(deserialize_with = "noise")]
    pub noise: Preset,
    /// What decodes the images.
    #[serde(deserialize_with = "decoder")]
    pub decoder: DecoderKind,
}

/// Noise of glass if the settings don't name it.
const DEFAULT_NOISE: Preset = Preset::Nominal;

impl Default for GlassSettings {
    fn default() -> Self {
        Self { preset: GlassPreset::Desk, noise: DEFAULT_NOISE, decoder: DecoderKind::default() }
    }
}

/// Sizes of sectors, tracks and groups on glass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GlassPreset {
    /// Sectors of 8 KiB, tracks of 40+8, groups of 20+2: platters of some megabytes.
    Desk,
    /// Sectors of 4 KiB, tracks of 6+2, groups of 3+1: for tests and a few small files.
    Tiny,
}

impl GlassPreset {
    /// All presets.
    pub const ALL: [Self; 2] = [Self::Desk, Self::Tiny];

    /// Its name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Desk => "desk",
            Self::Tiny => "tiny",
        }
    }
}

fn glass_preset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GlassPreset, D::Error> {
    one_of(deserializer, &GlassPreset::ALL, GlassPreset::name)
}

fn noise<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Preset, D::Error> {
    one_of(deserializer, &Preset::ALL, Preset::name)
}

fn decoder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DecoderKind, D::Error> {
    one_of(deserializer, &DecoderKind::ALL, DecoderKind::name)
}

/// The value with the name that the settings give.
fn one_of<'de, T: Copy, D: Deserializer<'de>>(deserializer: D, all: &[T], name: fn(T) -> &'static str) -> Result<T, D::Error> {
    let found = String::deserialize(deserializer)?;
    all.iter().copied().find(|&value| name(value) == found).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|&value| name(value)).collect();
        D::Error::custom(format!("unknown name {found:?}, expected one of: {}", names.join(", ")))
    })
}

/// `[decode]`: when and where images of glass are decoded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeSettings {
    /// What runs the networks of decoders.
    #[serde(deserialize_with = "decode_device")]
    pub device: DecodeDevice,
    /// Threads that decode; `limits.threads` if not given.
    pub threads: Option<usize>,
    /// Folder shared with decode workers, relative to the archive's folder.
    pub folder: Option<PathBuf>,
    /// Price of computing by hour of the day in UTC, in any unit. Without it, the price doesn't
    /// matter.
    #[serde(deserialize_with = "deserialize_prices")]
    pub prices: Option<[u32; 24]>,
    /// How long the verification of a set may wait for cheap hours, in hours.
    pub verification_wait_h: u64,
}

/// What runs the networks of decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecodeDevice {
    /// The threads that decode.
    #[default]
    Cpu,
    /// A graphics processor. The program needs the feature `gpu`.
    Gpu,
}

impl DecodeDevice {
    /// All devices.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Gpu];

    /// Its name in settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }
}

fn decode_device<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DecodeDevice, D::Error> {
    one_of(deserializer, &DecodeDevice::ALL, DecodeDevice::name)
}

/// Reads a list, because deserializing an array would ignore numbers after the 24th.
fn deserialize_prices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u32; 24]>, D::Error> {
    let prices = Vec::<u32>::deserialize(deserializer)?;
    let count = prices.len();
    prices.try_into().map(Some).map_err(|_| D::Error::custom(format!("`prices` has {count} numbers, expected 24: one for each hour")))
}

impl Default for DecodeSettings {
    fn default() -> Self {
        Self { device: DecodeDevice::Cpu, threads: None, folder: None, prices: None, verification_wait_h: 24 }
    }
}

/// `[[store]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    /// Name of the store; permanent.
    pub name: String,
    /// Folder; relative paths are relative to the archive's folder.
    pub path: PathBuf,
}

/// Why settings were rejected.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file can't be read.
    #[error("can't read the settings {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file does not parse, or has unknown settings.
    #[error("{path}: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, column and reason.
        source: Box<toml::de::Error>,
    },
    /// New platters are to be of disks, and the section `[medium]` has settings of glass.
    #[error(
        "{path}: [medium] has settings of glass, but its kind is \"disk\". Remove the settings {} from it. Platters of glass \
         stay readable",
        settings.join(", ")
    )]
    GlassForDisk {
        /// The file.
        path: PathBuf,
        /// The settings of glass.
        settings: Vec<&'static str>,
    },
    /// A value is out of range.
    #[error("{path}: {setting} is {found}; expected: {expected}")]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// Name of the setting.
        setting: &'static str,
        /// Its value.
        found: u64,
        /// What is expected.
        expected: &'static str,
    },
    /// Two stores share a name or a path.
    #[error("{path}: two stores have the same {what}, {value}; give each its own")]
    StoreTwice {
        /// The file.
        path: PathBuf,
        /// `name` or `path`.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// A store has an invalid name.
    #[error("{path}: invalid store name {name:?}: use 1 to 64 letters, digits, `-`, `_` or `.`")]
    StoreName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A set needs more stores than the settings list.
    #[error("{path}: a set of {shape} platters needs {} stores, one a platter, and {stores} are given", shape.platters())]
    TooFewStores {
        /// The file.
        path: PathBuf,
        /// The shape asked for.
        shape: SetShape,
        /// Stores in the settings.
        stores: usize,
    },
}

fn yes() -> bool {
    true
}

fn default_master_key() -> PathBuf {
    "master.key".into()
}

fn default_platter_mib() -> u64 {
    1_024
}

/// The settings of glass in a section `[medium]` for disks, as after its kind alone was changed.
fn settings_of_glass_for_disk(text: &str) -> Vec<&'static str> {
    let medium = toml::from_str::<toml::Table>(text).ok().and_then(|file| file.get("medium")?.as_table().cloned());
    let Some(medium) = medium.filter(|medium| medium.get("kind").and_then(toml::Value::as_str) == Some("disk")) else {
        return Vec::new();
    };
    ["preset", "noise", "decoder"].into_iter().filter(|setting| medium.contains_key(*setting)).collect()
}

impl Settings {
    /// Reads and checks a settings file.
    ///
    /// # Errors
    /// [`SettingsError`] says where and why.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path).map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Parses and checks the text of a settings file; `path` is for messages.
    ///
    /// # Errors
    /// [`SettingsError`] says where and why.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SettingsError> {
        let settings: Self = toml::from_str(text).map_err(|source| match settings_of_glass_for_disk(text) {
            settings if settings.is_empty() => SettingsError::Malformed { path: path.to_owned(), source: Box::new(source) },
            settings => SettingsError::GlassForDisk { path: path.to_owned(), settings },
        })?;
        settings.check(path)?;
        Ok(settings)
    }

    /// The shape of a full set.
    #[must_use]
    pub fn shape(&self) -> SetShape {
        SetShape { information: self.set.information, redundancy: self.set.redundancy }
    }

    fn check(&self, path: &Path) -> Result<(), SettingsError> {
        let range = |setting, found: u64, range: std::ops::RangeInclusive<u64>, expected| {
            if range.contains(&found) {
                return Ok(());
            }
            Err(SettingsError::OutOfRange { path: path.to_owned(), setting, found, expected })
        };
        range("limits.memory_mib", self.limits.memory_mib, 64..=1 << 20, "64 to 1048576")?;
        range("limits.threads", self.limits.threads as u64, 1..=64, "1 to 64")?;
        range("staging.segment_mib", self.staging.segment_mib, 1..=65_536, "1 to 65536")?;
        range("staging.limit_mib", self.staging.limit_mib.unwrap_or(u64::MAX >> 20), 16..=u64::MAX >> 20, "at least 16")?;
        range("set.information", self.set.information.into(), 1..=128, "1 to 128")?;
        range("set.redundancy", self.set.redundancy.into(), 0..=32, "0 to 32")?;
        range("set.platter_mib", self.set.platter_mib, 8..=1 << 20, "8 to 1048576")?;
        range("decode.threads", self.decode.threads.unwrap_or(1) as u64, 1..=64, "1 to 64")?;
        range("decode.verification_wait_h", self.decode.verification_wait_h, 1..=720, "1 to 720")?;
        for (i, store) in self.stores.iter().enumerate() {
            let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if store.name.is_empty() || store.name.len() > 64 || !store.name.chars().all(fine) {
                return Err(SettingsError::StoreName { path: path.to_owned(), name: store.name.clone() });
            }
            for other in &self.stores[..i] {
                let twice = |what, value| SettingsError::StoreTwice { path: path.to_owned(), what, value };
                if other.name == store.name {
                    return Err(twice("name", store.name.clone()));
                }
                if other.path == store.path {
                    return Err(twice("path", store.path.display().to_string()));
                }
            }
        }
        if self.stores.len() < usize::from(self.shape().platters()) {
            return Err(SettingsError::TooFewStores { path: path.to_owned(), shape: self.shape(), stores: self.stores.len() });
        }
        Ok(())
    }

    /// Formats the settings as a file, with comments.
    #[must_use]
    pub fn to_file(&self) -> String {
        let path = |path: &Path| quoted(&path.to_string_lossy());
        let mut text = format!(
            "# Settings of a Fulgurite archive. Paths are relative to the folder of this file, unless they are absolute.\n\
             \n\
             [archive]\n\
             # Identifies the archive, and is written to every platter. Never change it.\n\
             id = \"{id}\"\n\
             # Encrypt each new object under its own key, so that deleting an object makes it unreadable on every platter.\n\
             encrypt = {encrypt}\n\
             # File of the master key. Encrypted objects can't be read without it. Keep a copy elsewhere: `fulgurite keys export`.\n\
             master_key = {master_key}\n\
             \n\
             [limits]\n\
             # Memory limit of a command, in MiB.\n\
             memory_mib = {memory}\n\
             # Threads that a command may use.\n\
             threads = {threads}\n\
             \n\
             [staging]\n\
             # Folder where objects wait until their platters are written and verified. Use a disk that survives a crash.\n\
             path = {staging}\n\
             # A staging segment is closed at this length, in MiB.\n\
             segment_mib = {segment}\n\
             # Limit on the size of all staging files, in MiB; without it, the disk is the limit. No object can be larger.\n\
             # `serve` applies it, too, in addition to staging.limit_mib in service.toml.\n\
             {limit}\n\
             \n\
             [set]\n\
             # Information and redundancy platters of a set, each on its own store. As many stores as there are redundancy\n\
             # platters can be lost without losing data. Changes apply to new sets only.\n\
             information = {information}\n\
             redundancy = {redundancy}\n\
             # Content limit of a platter, in MiB.\n\
             platter_mib = {platter}\n\
             \n\
             {medium}\
             {decode}\
             # Stores for platters: one folder for each disk or mount. A mark in the folder holds the store's name; keep the two\n\
             # together.\n",
            id = self.archive.id,
            encrypt = self.archive.encrypt,
            master_key = path(&self.archive.master_key),
            memory = self.limits.memory_mib,
            threads = self.limits.threads,
            staging = path(&self.staging.path),
            segment = self.staging.segment_mib,
            limit = self.staging.limit_mib.map_or_else(|| "# limit_mib = 100000".to_owned(), |limit| format!("limit_mib = {limit}")),
            information = self.set.information,
            redundancy = self.set.redundancy,
            platter = self.set.platter_mib,
            medium = self.medium.to_toml(),
            decode = self.decode_to_toml(),
        );
        for store in &self.stores {
            text.push_str(&store.to_toml());
            text.push('\n');
        }
        text.truncate(text.trim_end().len() + 1);
        text
    }

    /// The section `[decode]`, with comments; nothing for disks without such settings.
    fn decode_to_toml(&self) -> String {
        let DecodeSettings { device, threads, folder, prices, verification_wait_h } = &self.decode;
        let device = device.name();
        if self.medium.medium() == Medium::Disk && self.decode == DecodeSettings::default() {
            return String::new();
        }
        let threads = threads.map_or_else(|| "# threads = 8".to_owned(), |threads| format!("threads = {threads}"));
        let folder = folder
            .as_ref()
            .map_or_else(|| "# folder = \"/mnt/decode\"".to_owned(), |folder| format!("folder = {}", quoted(&folder.to_string_lossy())));
        let prices = prices.map_or_else(
            || "# prices = [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]".to_owned(),
            |prices| format!("prices = {prices:?}"),
        );
        format!(
            "[decode]\n\
             # What runs the network of the decoder \"unet\": \"cpu\", or \"gpu\" if the program was built with the feature `gpu`.\n\
             device = \"{device}\"\n\
             # Threads that decode images of glass. Default: limits.threads.\n\
             {threads}\n\
             # Folder shared with `fulgurite decode-worker` on other machines, which then decode what clients read.\n\
             {folder}\n\
             # Price of computing in each hour of the day, from 0:00 UTC, in any unit. `verify`, `scrub` and the server's own\n\
             # scrub then wait for cheap hours; reads and `flush` never do. Without it, nothing waits.\n\
             {prices}\n\
             # How long the verification of a set may wait for cheap hours, in hours.\n\
             verification_wait_h = {verification_wait_h}\n\
             \n"
        )
    }
}

impl MediumSettings {
    /// The section of a settings file, with comments; nothing for disks, which need none.
    fn to_toml(self) -> String {
        let Self::Glass(GlassSettings { preset, noise, decoder }) = self else { return String::new() };
        format!(
            "[medium]\n\
             # New platters are made of emulated glass. What a platter is made of is recorded on it, so kind and preset apply to new ones\n\
             # only; noise and decoder apply to reading all of them. For platters on disks, remove this section.\n\
             kind = \"glass\"\n\
             # Size of sectors, tracks and groups: \"desk\", or \"tiny\" for tests.\n\
             preset = \"{}\"\n\
             # Noise of writing and reading: \"clean\", \"nominal\", or \"harsh\", which neither decoder bears.\n\
             noise = \"{}\"\n\
             # What decodes the images: \"unet\", which is learned, or \"nearest\", which isn't.\n\
             decoder = \"{}\"\n\
             \n",
            preset.name(),
            noise.name(),
            decoder.name(),
        )
    }
}

impl StoreSettings {
    /// Formats the store's section of a settings file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        format!("[[store]]\nname = {}\npath = {}\n", quoted(&self.name), quoted(&self.path.to_string_lossy()))
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use fulgurite_chance::Xorshift;

    use super::*;

    fn settings() -> Settings {
        Settings {
            archive: ArchiveSettings { id: ArchiveId([3; 16]), encrypt: true, master_key: default_master_key() },
            limits: Limits { memory_mib: 512, threads: 2 },
            staging: StagingSettings::default(),
            set: SetSettings { information: 2, redundancy: 1, platter_mib: 64 },
            medium: MediumSettings::default(),
            decode: DecodeSettings::default(),
            stores: ["a", "b", "c"].map(|name| StoreSettings { name: name.into(), path: format!("/mnt/\"{name}\"").into() }).to_vec(),
        }
    }

    #[test]
    fn the_written_file_reads_back_to_the_same_settings() {
        let text = settings().to_file();
        assert_eq!(Settings::parse(&text, Path::new(FILE)).expect("readable"), settings());
        let limited = Settings { staging: StagingSettings { limit_mib: Some(64), ..StagingSettings::default() }, ..settings() };
        assert_eq!(Settings::parse(&limited.to_file(), Path::new(FILE)).expect("readable"), limited);
        let glass = GlassSettings { preset: GlassPreset::Tiny, noise: Preset::Harsh, decoder: DecoderKind::Nearest };
        let glass = Settings { medium: MediumSettings::Glass(glass), ..settings() };
        assert_eq!(Settings::parse(&glass.to_file(), Path::new(FILE)).expect("readable"), glass);
        let prices = Some(std::array::from_fn(|hour| hour as u32));
        let decode =
            DecodeSettings { device: DecodeDevice::Gpu, threads: Some(3), folder: Some("jobs".into()), prices, verification_wait_h: 48 };
        let decode = Settings { decode, ..settings() };
        assert_eq!(Settings::parse(&decode.to_file(), Path::new(FILE)).expect("readable"), decode);
    }

    #[test]
    fn the_medium_is_a_disk_unless_the_settings_say_otherwise() {
        let parse = |section: &str| {
            let text = settings().to_file().replacen("# Stores for platters", &format!("{section}\n# Stores for platters"), 1);
            Settings::parse(&text, Path::new(FILE)).map(|settings| settings.medium).map_err(|error| error.to_string())
        };
        assert_eq!(parse(""), Ok(MediumSettings::Disk {}));
        assert_eq!(parse("[medium]\nkind = \"disk\""), Ok(MediumSettings::Disk {}));
        assert_eq!(parse("[medium]\nkind = \"glass\""), Ok(MediumSettings::Glass(GlassSettings::default())));
        for (section, says) in [
            ("[medium]\nkind = \"stone\"", "stone"),
            ("[medium]\nnoise = \"clean\"", "kind"),
            ("[medium]\nkind = \"disk\"\nnoise = \"clean\"", "Remove the settings noise from it"),
            ("[medium]\nkind = \"disk\"\npreset = \"tiny\"\ndecoder = \"unet\"", "Remove the settings preset, decoder from it"),
            ("[medium]\nkind = \"disk\"\nsize = 1", "size"),
            ("[medium]\nkind = \"glass\"\nnoise = \"loud\"", "clean, nominal, harsh"),
            ("[medium]\nkind = \"glass\"\npreset = \"huge\"", "desk, tiny"),
            ("[medium]\nkind = \"glass\"\ndecoder = \"luck\"", "nearest"),
            ("[medium]\nkind = \"glass\"\nnoize = \"clean\"", "noize"),
        ] {
            let error = parse(section).expect_err(section);
            assert!(error.contains(says), "{section}: {error}");
        }
    }

    #[test]
    fn an_invalid_value_is_rejected_with_the_name_of_its_setting() {
        let text = settings().to_file();
        for (from, to, says) in [
            ("memory_mib = 512", "memory_mib = 0", "limits.memory_mib"),
            ("memory_mib = 512", "memory = 512", "memory"),
            ("memory_mib = 512", "memory_mib = \"much\"", "memory_mib"),
            ("redundancy = 1", "redundancy = 2", "needs 4 stores"),
            ("# limit_mib = 100000", "limit_mib = 15", "staging.limit_mib"),
            ("information = 2", "information = 0", "set.information"),
            ("name = \"b\"", "name = \"a\"", "same name"),
            ("name = \"b\"", "name = \"../b\"", "store name"),
            ("id = \"03", "id = \"zz", "hexadecimal"),
            ("[set]", "[sett]", "sett"),
            ("[set]", "[decode]\nprices = [1, 2]\n\n[set]", "`prices` has 2 numbers, expected 24"),
            (
                "[set]",
                "[decode]\nprices = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n\n[set]",
                "has 25 numbers",
            ),
            ("[set]", "[decode]\nprice = 1\n\n[set]", "price"),
            ("[set]", "[decode]\ndevice = \"tpu\"\n\n[set]", "cpu, gpu"),
            ("[set]", "[decode]\nthreads = 0\n\n[set]", "decode.threads"),
            ("[set]", "[decode]\nverification_wait_h = 1000\n\n[set]", "decode.verification_wait_h"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from} is in the file");
            let error = Settings::parse(&changed, Path::new(FILE)).expect_err(to).to_string();
            assert!(error.contains(says), "{to}: {error}");
        }
    }

    #[test]
    fn the_parser_never_panics_and_accepted_files_survive_a_round_trip() {
        let good = settings().to_file().into_bytes();
        let mut random = Xorshift::new(0x2545_f491_4f6c_dd1d);
        let mut below = |bound: usize| (random.bits() >> 11) as usize % bound;
        let mut taken = 0;
        for _ in 0..3_000 {
            let mut text = good.clone();
            for _ in 0..=below(4) {
                let at = below(text.len());
                match below(4) {
                    0 => text[at] = below(256) as u8,
                    1 => drop(text.remove(at)),
                    2 => text.insert(at, b"0123456789=\"[]-.e\n"[below(18)]),
                    _ => {
                        let from = below(text.len());
                        let piece = text[from..(from + below(40)).min(text.len())].to_vec();
                        text.splice(at..at, piece);
                    }
                }
            }
            if let Ok(settings) = Settings::parse(&String::from_utf8_lossy(&text), Path::new(FILE)) {
                taken += 1;
                assert_eq!(Settings::parse(&settings.to_file(), Path::new(FILE)).expect("readable"), settings);
            }
        }
        assert!(taken > 100, "only {taken} files were accepted");
    }
}
