//! Made `tests/golden/v1`, once. Golden files of a released format are never written again: it does
//! nothing where they are.

use std::fs;
use std::io;
use std::path::Path;

#[path = "../tests/archive/golden_v1/making.rs"]
mod making;

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v1");
    if folder.exists() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the golden files of version 1 are there, and stay as they are"));
    }
    fs::create_dir_all(&folder)?;
    for (name, bytes) in making::golden_files() {
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
