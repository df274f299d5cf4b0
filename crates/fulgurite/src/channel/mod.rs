//! The commands `channel`: measure how much noise codes and decoders of the glass medium tolerate,
//! and write images to train decoders with.

mod args;
mod ber;
mod frames;
mod npy;
mod sectors;

use std::num::NonZero;

use anyhow::Result;

pub(crate) use args::{Channel, one_of};

use crate::{Outcome, Session};

pub(crate) fn run(session: &Session, command: &Channel) -> Result<Outcome> {
    match command {
        Channel::Ber(arguments) => ber::ber(session, arguments),
        Channel::Sectors(arguments) => sectors::sectors(session, arguments),
        Channel::Frames(arguments) => frames::frames(session, arguments),
    }
}

/// The number of threads to use: the given one, or the number of cores.
fn threads(asked: Option<NonZero<usize>>) -> NonZero<usize> {
    asked.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZero::<usize>::MIN)
}
