//! A detector as bytes, to be stored between runs.
//!
//! Version 1, all numbers little-endian: the version, the expectation, the parameters, the present
//! bin, and then what was learned or what is judged. Floating-point numbers are stored exactly, so
//! a detector that was stored and read goes on as if it had never stopped.

use super::baseline::{CLASSES, LearnedBin, Learning};
use super::cusum::Walk;
use super::{BIN_KEPT, Baseline, Bin, Detector, Direction, EPISODE_KEPT, Episode, Judging, Parameters, Phase, RECENT, Residual};
use crate::expectation::Expectation;
use crate::thinned::Thinned;

/// The version that is written.
const VERSION: u8 = 1;
/// The first bytes.
const MAGIC: [u8; 3] = *b"slo";

/// Bytes are not the state of a detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Written by a newer version, or something else.
    #[error("these bytes are not a detector's state of version {VERSION}: learn again, or use the version that wrote them")]
    Version,
    /// They end too early or go on too long.
    #[error("the detector's state has a wrong length: it is damaged, so learn again")]
    Length,
    /// A value is impossible.
    #[error("the detector's state has an impossible value: it is damaged, so learn again")]
    Value,
}

impl Detector {
    /// The state as bytes: 1 to 3 kB while judging, and at most 100 kB while learning.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2_048);
        out.extend(MAGIC);
        out.push(VERSION);
        put_f64s(&mut out, &[self.expectation.base_s(), self.expectation.slope_ns()]);
        let Parameters { bin_s, learn_s, least_bins, allowance, clip, threshold, finest } = self.parameters;
        put_u64s(&mut out, &[bin_s, learn_s, u64::from(least_bins)]);
        put_f64s(&mut out, &[allowance, clip, threshold, finest]);
        put_u64s(&mut out, &[self.bin.start_s, self.bin.unanswered]);
        put_thinned(&mut out, &self.bin.ratios, put_f32);
        match &self.phase {
            Phase::Learning(learning) => {
                out.push(0);
                put_option(&mut out, learning.from_s, |out, from_s| put_u64s(out, &[from_s]));
                learning.ratios.iter().for_each(|class| put_thinned(&mut out, class, put_f32));
                put_option(&mut out, learning.classes, |out, classes| put_f64s(out, &classes));
                put_u64s(&mut out, &[u64::from(learning.early), learning.bins.len() as u64]);
                for bin in &learning.bins {
                    put_u64s(&mut out, &[bin.start_s, u64::from(bin.checks)]);
                    put_f32s(&mut out, &[bin.value, bin.scatter]);
                }
            }
            Phase::Judging(judging) => {
                out.push(1);
                let baseline = &judging.baseline;
                put_f64s(&mut out, &[baseline.level, baseline.between, baseline.within]);
                put_f64s(&mut out, &baseline.classes);
                put_f64s(&mut out, &baseline.hours);
                put_f64s(&mut out, &baseline.days);
                [&judging.slower, &judging.faster, &judging.back].into_iter().for_each(|walk| put_walk(&mut out, walk));
                put_f64s(&mut out, &[judging.reported]);
                put_option(&mut out, judging.episode.as_ref(), |out, (episode, course)| {
                    put_u64s(out, &[episode.since_s, episode.named_s, episode.checks, episode.unanswered]);
                    out.push(u8::from(episode.direction == Direction::Faster));
                    put_option(out, episode.factor, |out, factor| put_f64s(out, &[factor]));
                    put_thinned(out, course, put_residual);
                });
                put_u64s(&mut out, &[judging.recent.len() as u64]);
                put_f32s(&mut out, &judging.recent);
            }
        }
        out
    }

    /// Reads what [`Detector::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are something else. Memory is bounded whatever they are.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        let rest = bytes.strip_prefix(&MAGIC).and_then(|rest| rest.strip_prefix(&[VERSION])).ok_or(StateError::Version)?;
        let mut input = Input(rest);
        let (base_s, slope_ns) = (input.f64()?, input.f64()?);
        let expectation = Expectation::new(base_s, slope_ns).map_err(|_| StateError::Value)?;
        let (bin_s, learn_s, least_bins) = (input.u64()?, input.u64()?, input.u32()?);
        let (allowance, clip, threshold, finest) = (input.f64()?, input.f64()?, input.f64()?, input.f64()?);
        let parameters = Parameters { bin_s, learn_s, least_bins, allowance, clip, threshold, finest };
        parameters.check().map_err(|_| StateError::Value)?;
        let (start_s, unanswered) = (input.u64()?, input.counter()?);
        let bin = Bin { start_s, unanswered, ratios: input.thinned(BIN_KEPT, Input::f32)? };
        let phase = match input.u8()? {
            0 => Phase::Learning(Box::new(input.learning(&parameters)?)),
            1 => Phase::Judging(Box::new(input.judging()?)),
            _ => return Err(StateError::Value),
        };
        if input.0.is_empty() { Ok(Self { expectation, parameters, bin, phase }) } else { Err(StateError::Length) }
    }
}

fn put_u64s(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn put_f64s(out: &mut Vec<u8>, values: &[f64]) {
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn put_f32s(out: &mut Vec<u8>, values: &[f32]) {
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl Fn(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_f32(out: &mut Vec<u8>, value: &f32) {
    out.extend(value.to_le_bytes());
}

fn put_residual(out: &mut Vec<u8>, (start_s, residual): &Residual) {
    put_u64s(out, &[*start_s]);
    put_f32(out, residual);
}

fn put_thinned<T>(out: &mut Vec<u8>, thinned: &Thinned<T>, put: impl Fn(&mut Vec<u8>, &T)) {
    put_u64s(out, &[thinned.seen, thinned.stride, thinned.kept.len() as u64]);
    thinned.kept.iter().for_each(|value| put(out, value));
}

fn put_walk(out: &mut Vec<u8>, walk: &Walk) {
    put_f64s(out, &[walk.sum]);
    put_u64s(out, &[walk.since_s, walk.checks, walk.unanswered]);
    put_thinned(out, &walk.residuals, put_residual);
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], StateError> {
        let (value, rest) = self.0.split_first_chunk().ok_or(StateError::Length)?;
        self.0 = rest;
        Ok(*value)
    }

    fn u8(&mut self) -> Result<u8, StateError> {
        Ok(self.array::<1>()?[0])
    }

    fn u64(&mut self) -> Result<u64, StateError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, StateError> {
        u32::try_from(self.u64()?).map_err(|_| StateError::Value)
    }

    fn f64(&mut self) -> Result<f64, StateError> {
        let value = f64::from_le_bytes(self.array()?);
        if value.is_finite() { Ok(value) } else { Err(StateError::Value) }
    }

    fn f32(&mut self) -> Result<f32, StateError> {
        let value = f32::from_le_bytes(self.array()?);
        if value.is_finite() { Ok(value) } else { Err(StateError::Value) }
    }

    fn f64s<const COUNT: usize>(&mut self) -> Result<[f64; COUNT], StateError> {
        let mut values = [0.0; COUNT];
        for value in &mut values {
            *value = self.f64()?;
        }
        Ok(values)
    }

    fn option<T>(&mut self, read: impl Fn(&mut Self) -> Result<T, StateError>) -> Result<Option<T>, StateError> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(StateError::Value),
        }
    }

    /// A count of values that follow, at most `most`.
    fn count(&mut self, most: u64) -> Result<usize, StateError> {
        let count = self.u64()?;
        usize::try_from(count).ok().filter(|_| count <= most).ok_or(StateError::Value)
    }

    fn f32s(&mut self, most: usize) -> Result<Vec<f32>, StateError> {
        let count = self.count(most as u64)?;
        (0..count).map(|_| self.f32()).collect()
    }

    fn residual(&mut self) -> Result<Residual, StateError> {
        Ok((self.u64()?, self.f32()?))
    }

    fn thinned<T>(&mut self, capacity: usize, read: impl Fn(&mut Self) -> Result<T, StateError>) -> Result<Thinned<T>, StateError> {
        let (seen, stride) = (self.u64()?, self.u64()?);
        let count = self.count(capacity as u64)?;
        let kept = (0..count).map(|_| read(self)).collect::<Result<Vec<T>, _>>()?;
        // Values are kept from the first on, and counts never come near the end of their range.
        let is_possible = stride.is_power_of_two() && kept.len() as u64 == seen.div_ceil(stride) && seen < 1 << 62;
        if is_possible { Ok(Thinned { kept, seen, stride, capacity }) } else { Err(StateError::Value) }
    }

    fn learning(&mut self, parameters: &Parameters) -> Result<Learning, StateError> {
        let mut learning = Learning { from_s: self.option(Self::u64)?, ..Learning::default() };
        for class in &mut learning.ratios {
            *class = self.thinned(class.capacity, Self::f32)?;
        }
        learning.classes = self.option(Self::f64s::<CLASSES>)?;
        learning.early = self.u32()?;
        let most = (parameters.learn_s / parameters.bin_s).max(u64::from(parameters.least_bins)) + 1;
        let count = self.count(most)?;
        for _ in 0..count {
            let (start_s, checks) = (self.u64()?, self.u64()?);
            let checks = u16::try_from(checks).map_err(|_| StateError::Value)?;
            learning.bins.push(LearnedBin { start_s, checks, value: self.f32()?, scatter: self.f32()? });
        }
        Ok(learning)
    }

    fn judging(&mut self) -> Result<Judging, StateError> {
        let [level, between, within] = self.f64s()?;
        if between <= 0.0 || within < 0.0 {
            return Err(StateError::Value);
        }
        let baseline = Baseline { level, between, within, classes: self.f64s()?, hours: self.f64s()?, days: self.f64s()? };
        let (slower, faster, back) = (self.walk()?, self.walk()?, self.walk()?);
        let reported = self.f64()?;
        let episode = self.option(|input| {
            let (since_s, named_s, checks, unanswered) = (input.u64()?, input.u64()?, input.counter()?, input.counter()?);
            let direction = if input.u8()? == 0 { Direction::Slower } else { Direction::Faster };
            let factor = input.option(Self::f64)?;
            Ok((Episode { direction, since_s, named_s, factor, checks, unanswered }, input.thinned(EPISODE_KEPT, Self::residual)?))
        })?;
        Ok(Judging { baseline, slower, faster, back, reported, episode, recent: self.f32s(RECENT)? })
    }

    fn walk(&mut self) -> Result<Walk, StateError> {
        let sum = self.f64()?;
        let (since_s, checks, unanswered) = (self.u64()?, self.counter()?, self.counter()?);
        let residuals = self.thinned(EPISODE_KEPT, Self::residual)?;
        if sum >= 0.0 { Ok(Walk { sum, since_s, checks, unanswered, residuals }) } else { Err(StateError::Value) }
    }

    /// A number to which others are added: far from the end of its range.
    fn counter(&mut self) -> Result<u64, StateError> {
        self.u64().and_then(|value| if value < 1 << 62 { Ok(value) } else { Err(StateError::Value) })
    }
}
