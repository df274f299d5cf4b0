//! `channel ber`: how much noise the LDPC codes of sectors tolerate, and one of DVB-S2 for
//! comparison.

use std::time::Instant;

use anyhow::{Context, Result};
use fulgurite_codec::ldpc::{DvbS2, LdpcCode};
use fulgurite_glass::ErrorRate;
use fulgurite_glass::frame_errors::{Effort, FrameErrors, GaussianChannel, TestedCode, frame_errors};
use serde_json::json;

use super::args::{Ber, TestedFamily};
use super::threads;
use crate::{Outcome, Session};

pub(crate) fn ber(session: &Session, arguments: &Ber) -> Result<Outcome> {
    let code = match arguments.code {
        TestedFamily::Sector => TestedCode::Sector(LdpcCode::new(parity_columns(arguments.rate))?),
        TestedFamily::DvbS2 => TestedCode::DvbS2(DvbS2::new()),
    };
    let channels = arguments.noise.iter().map(|&bit_error_rate| {
        GaussianChannel::new(bit_error_rate)
            .with_context(|| format!("a channel can't have a bit error rate of {bit_error_rate}: give values above 0 and below 0.5"))
    });
    let channels = channels.collect::<Result<Vec<GaussianChannel>>>()?;
    let threads = threads(arguments.threads);
    session.say(&format!(
        "{}: {} information bits of {}, rate {:.4}; at most {} iterations, seed {}",
        arguments.code.title(),
        code.information_bits(),
        code.codeword_bits(),
        code.rate(),
        arguments.iterations,
        arguments.seed,
    ));
    session.say("bit error rate  Eb/N0, dB      frames  failed  wrong  frame error rate  95 % bounds          iterations");
    for channel in &channels {
        let started = Instant::now();
        let effort = Effort {
            frames: arguments.frames,
            failures: arguments.failures,
            iterations: arguments.iterations,
            seed: arguments.seed,
            threads,
        };
        let errors = frame_errors(&code, channel, effort);
        report(session, &code, channel, &errors, started);
    }
    Ok(Outcome::Good)
}

/// The number of parity columns, among 80 columns, that gives the nearest rate.
fn parity_columns(rate: f64) -> usize {
    (80.0 * (1.0 - rate)).round() as usize
}

fn report(session: &Session, code: &TestedCode, channel: &GaussianChannel, errors: &FrameErrors, started: Instant) {
    let ErrorRate { low, rate, high } = errors.rate();
    let eb_n0_db = channel.eb_n0_db(code.rate());
    let iterations = errors.iterations as f64 / f64::from(errors.frames);
    session.answer(|| {
        json!({
            "rate": code.rate(),
            "information_bits": code.information_bits(),
            "codeword_bits": code.codeword_bits(),
            "bit_error_rate": channel.bit_error_rate(),
            "measured_bit_error_rate": errors.raw_errors as f64 / (f64::from(errors.frames) * code.codeword_bits() as f64),
            "eb_n0_db": eb_n0_db,
            "frames": errors.frames,
            "failed": errors.failed,
            "wrong": errors.wrong,
            "frame_error_rate": rate,
            "low": low,
            "high": high,
            "mean_iterations": iterations,
            "seconds": started.elapsed().as_secs_f64(),
        })
    });
    session.say(&format!(
        "{:<14}  {eb_n0_db:<9.3}  {:>10}  {:>6}  {:>5}  {rate:<16.2e}  {low:.2e} to {high:.2e}  {iterations:>10.2}",
        channel.bit_error_rate(),
        errors.frames,
        errors.failed,
        errors.wrong,
    ));
}
