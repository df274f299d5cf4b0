//! Packages of npm, for steps that need a program written for Node.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::clients::{self, Missing};
use super::s3;

/// Installs what the file `package` lists into a folder, unless that was done before. `program` is
/// a file that the folder then contains.
pub(super) fn install(package: &Path, folder: &Path, program: &str) -> Result<(), Missing> {
    let wanted = fs::read_to_string(package).map_err(|source| Missing::File { path: package.to_owned(), source })?;
    if folder.join(program).is_file() && s3::was_made_for(folder, &wanted) {
        return Ok(());
    }
    clients::empty(folder)?;
    let path = folder.join("package.json");
    fs::write(&path, &wanted).map_err(|source| Missing::File { path, source })?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(folder);
    clients::succeed(npm)?;
    s3::note_made_for(folder, &wanted);
    Ok(())
}
