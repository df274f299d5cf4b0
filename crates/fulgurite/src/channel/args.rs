//! Subcommands of `channel` and their options.

use std::num::NonZero;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, Subcommand};
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::{Effect, Preset};

#[derive(Debug, Subcommand)]
pub(crate) enum Channel {
    /// Measure the frame error rate of an LDPC code against noise
    ///
    /// Sends random codewords over a channel with Gaussian noise, decodes them from 8-bit
    /// log-likelihood ratios, and counts the frames that fail. The channel is named by its bit
    /// error rate before decoding. A frame that decodes to another codeword counts as wrong; in a
    /// sector, the checksum would tell. Same seed, same result.
    Ber(Ber),
    /// Measure how many symbols and sectors a decoder of images loses
    ///
    /// Writes sectors with random payloads to emulated glass, images them, and decodes the images.
    /// Reports the symbol error rate, the information per voxel (generalized mutual information, in
    /// bits), the sectors that the code can't recover, and the decoder's speed. Same seed, same
    /// result.
    Sectors(Sectors),
    /// Write images of emulated sectors and their symbols, to train a decoder with
    ///
    /// Creates `frames.npy` with unsigned pixels by sector, frame, row and column, and
    /// `symbols.npy` with the symbols by sector, row and column. Same seed, same files.
    Frames(TrainingFrames),
}

#[derive(Debug, Args)]
pub(crate) struct EmulatedNoise {
    /// Strengths of all effects
    #[arg(long, value_parser = one_of(Preset::ALL, Preset::name), default_value = "nominal")]
    pub(crate) preset: Preset,
    /// Only this effect of the preset
    #[arg(long, value_parser = one_of(Effect::ALL, Effect::name), value_name = "EFFECT")]
    pub(crate) only: Option<Effect>,
    /// Seed of payloads and noise
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Sectors {
    #[command(flatten)]
    pub(crate) noise: EmulatedNoise,
    /// Factor for the strengths of all effects
    #[arg(long, default_value_t = 1.0, value_parser = parse_strength)]
    pub(crate) strength: f64,
    /// The decoder
    #[arg(long, value_parser = one_of(DecoderKind::ALL, DecoderKind::name), default_value = DecoderKind::default().name())]
    pub(crate) decoder: DecoderKind,
    /// Model for the decoder `unet`, instead of the one that comes with the program
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Run the decoder `unet` on a graphics processor; the program must be built with the feature
    /// `gpu`
    #[arg(long)]
    pub(crate) gpu: bool,
    /// Sectors, at most; rounded up to multiples of 8
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sectors: u32,
    /// Stop after this number of failed sectors
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) failures: u32,
    /// Number of threads. Default: the number of cores
    #[arg(long)]
    pub(crate) threads: Option<NonZero<usize>>,
    /// Also count the sectors that codes of all other rates would lose
    #[arg(long)]
    pub(crate) all_rates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrainingFrames {
    #[command(flatten)]
    pub(crate) noise: EmulatedNoise,
    /// Range of the factor for the strengths of effects, drawn anew for every 8 sectors
    #[arg(long, default_value = "1..1", value_parser = parse_strengths, value_name = "LOW..HIGH")]
    pub(crate) strength: (f64, f64),
    /// Draw a factor for each effect instead of one for all
    #[arg(long)]
    pub(crate) independent: bool,
    /// Sectors; rounded up to multiples of 8
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) sectors: u32,
    /// Folder for the files; it is created, and files of these names in it are replaced
    #[arg(long, value_name = "FOLDER")]
    pub(crate) into: PathBuf,
}

/// A parser that accepts the names of these values.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    values: impl IntoIterator<Item = T>,
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let values: Vec<T> = values.into_iter().collect();
    let names: Vec<&'static str> = values.iter().map(|&value| name(value)).collect();
    clap::builder::PossibleValuesParser::new(names)
        .map(move |text| *values.iter().find(|&&value| name(value) == text).expect("the text is one of the names"))
}

fn parse_strength(text: &str) -> Result<f64, String> {
    let strength: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=10.0).contains(&strength) { Ok(strength) } else { Err("expected a factor from 0 to 10".to_owned()) }
}

fn parse_strengths(text: &str) -> Result<(f64, f64), String> {
    let (low, high) = text.split_once("..").ok_or("expected LOW..HIGH, such as 0.5..1.1")?;
    let (low, high) = (parse_strength(low)?, parse_strength(high)?);
    if low <= high { Ok((low, high)) } else { Err(format!("{low} is more than {high}")) }
}

#[derive(Debug, Args)]
pub(crate) struct Ber {
    /// The code: one of those that sectors use, or DVB-S2 with rate 8/9 for comparison
    #[arg(long, value_enum, default_value_t = TestedFamily::Sector)]
    pub(crate) code: TestedFamily,
    /// Rate of the sectors' code, 0.75 to 0.9375; the nearest multiple of 1/80 is used
    #[arg(long, default_value_t = 0.8875, value_parser = parse_rate)]
    pub(crate) rate: f64,
    /// Bit error rates before decoding, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "0.005,0.01,0.018,0.02,0.021,0.022", value_name = "P")]
    pub(crate) noise: Vec<f64>,
    /// Frames for each bit error rate, at most
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) frames: u32,
    /// Stop after this number of failed frames
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) failures: u32,
    /// Iterations of the decoder, at most
    #[arg(long, default_value_t = 30)]
    pub(crate) iterations: u32,
    /// Seed of the information and the noise
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of threads. Default: the number of cores
    #[arg(long)]
    pub(crate) threads: Option<NonZero<usize>>,
}

/// A family of codes for `channel ber`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TestedFamily {
    /// The codes that sectors use: 80 columns of 512 bits
    Sector,
    /// DVB-S2, rate 8/9, 64,800 bits, with its outer code that corrects 8 bits
    DvbS2,
}

impl TestedFamily {
    pub(crate) fn title(self) -> &'static str {
        match self {
            TestedFamily::Sector => "Code of sectors",
            TestedFamily::DvbS2 => "DVB-S2 8/9",
        }
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.75..=0.9375).contains(&rate) { Ok(rate) } else { Err("rates are 0.75 to 0.9375".to_owned()) }
}
