//! Keys: a copy of them elsewhere, and back.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_archive::Access;
use fulgurite_archive::keyring::import_keys;
use serde_json::json;

use crate::args::{KeysExport, KeysImport};
use crate::text::count;
use crate::{Outcome, Session};

pub(crate) fn export(session: &Session, export: &KeysExport) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let passphrase = export.passphrase_file.as_deref().map(read_passphrase).transpose()?;
    let keys = archive.export_keys(&export.file, passphrase.as_deref())?;
    if session.json {
        session.answer(&json!({ "keys": keys, "sealed": passphrase.is_some() }));
    }
    session.say(&format!("Wrote the master key and {} to {}.", count(keys, "object key", "object keys"), export.file.display()));
    if passphrase.is_none() {
        eprintln!("note: the file is not protected. Whoever has it and the platters can read the archive.");
    }
    Ok(Outcome::Good)
}

pub(crate) fn import(session: &Session, import: &KeysImport) -> Result<Outcome> {
    let passphrase = import.passphrase_file.as_deref().map(read_passphrase).transpose()?;
    let keys = import_keys(&session.home()?, &import.file, passphrase.as_deref())?;
    if session.json {
        session.answer(&json!({ "keys": keys }));
    }
    session.say(&format!("The master key and {} are there.", count(keys, "object key", "object keys")));
    Ok(Outcome::Good)
}

/// The first line of a file, without its end.
fn read_passphrase(path: &Path) -> Result<Vec<u8>> {
    let bytes = std::fs::read(path).with_context(|| format!("the passphrase file {}", path.display()))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.contains(&b'\n') {
        bail!("the passphrase file {} should hold one line, the passphrase", path.display());
    }
    Ok(line.to_vec())
}
