//! The attacks on the S3 service: hostile clients together with an honest one, against the release
//! build.

use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session};

const FOLDER: &str = "tests/attacks";
const REQUIREMENTS: &str = "tests/attacks/requirements.txt";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        // Without their own requirements, the attacks share the environment of the service's tests.
        let own = session.root.join(REQUIREMENTS).is_file();
        let (venv, requirements) = if own { ("xtask-attacks-venv", REQUIREMENTS) } else { ("xtask-s3-venv", s3::REQUIREMENTS) };
        let python = s3::environment(session, &built.target.join(venv), requirements)?;
        Ok(s3::run(session, &built, &python, FOLDER, |_| {}))
    };
    tested().unwrap_or_else(|outcome| outcome)
}
