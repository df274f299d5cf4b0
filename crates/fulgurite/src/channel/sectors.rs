//! `channel sectors`: symbols and sectors that a decoder of images loses.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_codec::ldpc::LdpcCode;
use fulgurite_glass::decoder::{DecoderKind, UNet};
use fulgurite_glass::emulator::Effects;
use fulgurite_glass::sector_errors::{SectorEffort, SectorErrors, sector_errors};
use fulgurite_glass::{ErrorRate, GlassMedium};
use serde_json::json;

use super::args::{EmulatedNoise, Sectors};
use super::threads;
use crate::decode_worker::open_device;
use crate::{Outcome, Session};

pub(crate) fn sectors(session: &Session, arguments: &Sectors) -> Result<Outcome> {
    let medium = GlassMedium::desk();
    let effects = arguments.noise.effects().scaled(arguments.strength);
    let effort = SectorEffort {
        sectors: arguments.sectors,
        failures: arguments.failures,
        seed: arguments.noise.seed,
        threads: threads(arguments.threads),
    };
    let device = open_device(arguments.gpu)?;
    let other_rates: Vec<usize> = if arguments.all_rates { LdpcCode::PARITY_COLUMNS.collect() } else { Vec::new() };
    let errors = match &arguments.model {
        None => sector_errors(&medium, &effects, || arguments.decoder.load(&medium, &device), &other_rates, effort),
        Some(_) if arguments.decoder != DecoderKind::UNet => {
            bail!("--model is for the decoder unet, not for {}: use --decoder unet, or leave out --model", arguments.decoder.name())
        }
        Some(file) => {
            let model = read_model(file).with_context(|| format!("can't read the model {}", file.display()))?;
            let load = || UNet::from_bytes(&model, &medium, &device);
            load().with_context(|| format!("can't use the model {}", file.display()))?;
            sector_errors(&medium, &effects, || load().expect("the same model was loaded before"), &other_rates, effort)
        }
    };
    report(session, &medium, &errors);
    Ok(Outcome::Good)
}

/// Reads a model file of at most 1 GiB.
fn read_model(file: &Path) -> io::Result<Vec<u8>> {
    const MODEL_BYTES_MAX: u64 = 1 << 30;
    let mut model = Vec::new();
    File::open(file)?.take(MODEL_BYTES_MAX + 1).read_to_end(&mut model)?;
    if model.len() as u64 > MODEL_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 1 GiB"));
    }
    Ok(model)
}

impl EmulatedNoise {
    pub(super) fn effects(&self) -> Effects {
        let effects = self.preset.effects();
        self.only.map_or(effects, |effect| effects.only(effect))
    }
}

fn report(session: &Session, medium: &GlassMedium, errors: &SectorErrors) {
    let ErrorRate { low, rate, high } = errors.rate();
    let per_second = |time: std::time::Duration| errors.voxels as f64 / time.as_secs_f64();
    let rate_of = |parity_columns: usize| 1.0 - parity_columns as f64 / LdpcCode::COLUMNS as f64;
    session.answer(|| {
        json!({
            "sectors": errors.sectors,
            "failed": errors.failed,
            "wrong": errors.wrong,
            "sector_error_rate": rate,
            "low": low,
            "high": high,
            "rate": rate_of(medium.parity_columns),
            "symbol_error_rate": errors.symbol_error_rate(),
            "information_per_voxel": errors.information_per_voxel(),
            "bits_per_voxel": medium.alphabet.bits_per_voxel(),
            "failed_at_rates": errors.failed_at.iter().map(|&(columns, failed)| json!({"rate": rate_of(columns), "failed": failed})).collect::<Vec<_>>(),
            "decoded_voxels_per_second_and_thread": per_second(errors.decoding),
            "emulated_voxels_per_second_and_thread": per_second(errors.emulating),
        })
    });
    session.say(&format!("symbol error rate      {:.3} %", 100.0 * errors.symbol_error_rate()));
    session.say(&format!(
        "information            {:.3} of {} bits a voxel",
        errors.information_per_voxel(),
        medium.alphabet.bits_per_voxel()
    ));
    session.say(&format!(
        "lost sectors           {} of {} at rate {}: {rate:.1e}, 95 % bounds {low:.1e} to {high:.1e}; {} came back wrong",
        errors.failed,
        errors.sectors,
        rate_of(medium.parity_columns),
        errors.wrong,
    ));
    for &(columns, failed) in &errors.failed_at {
        session.say(&format!("  at rate {:.4}       {failed}", rate_of(columns)));
    }
    session.say(&format!("decoder                {:.2} million voxels/s a thread", per_second(errors.decoding) / 1e6));
    session.say(&format!("emulator               {:.2} million voxels/s a thread", per_second(errors.emulating) / 1e6));
}
