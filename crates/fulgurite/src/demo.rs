//! demo

use anyhow::Result;

use crate::args::Demo;
use crate::{Outcome, Session};

pub(crate) fn demo(_session: &Session, _demo: &Demo) -> Result<Outcome> {
    Ok(Outcome::Good)
}
