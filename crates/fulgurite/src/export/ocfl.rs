//! `export ocfl`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_archive::Access;
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_ocfl::{INVENTORY, LOGICAL_PATH_BYTES_MAX, Layout, ObjectOptions, SpecVersion, StorageRoot, User, VersionInfo};
use serde_json::json;

use super::objects::Objects;
use super::{LeaveOut, describe, now, parse_algorithm, read};
use crate::import::INVENTORIES;
use crate::list::name_of;
use crate::outcome::Misuse;
use crate::premis::Premis;
use crate::text::{self, bytes, count, rate};
use crate::{Outcome, Session, object_id};

const LAYOUTS: [&str; 5] = [
    "0002-flat-direct-storage-layout",
    "0003-hash-and-id-n-tuple-storage-layout",
    "0004-hashed-n-tuple-storage-layout",
    "0006-flat-omit-prefix-storage-layout",
    "0007-n-tuple-omit-prefix-storage-layout",
];

#[derive(Debug, Args)]
pub(crate) struct Object {
    /// A folder of the archive
    name: OsString,
    /// Storage root; one is made if the folder is empty or doesn't exist
    #[arg(long, value_name = "ROOT")]
    into: PathBuf,
    /// Identifier of the object. Default: the last part of NAME, decoded as `import ocfl` encodes
    /// it
    #[arg(long = "object", value_name = "ID")]
    id: Option<String>,
    /// Layout of a new storage root, such as 0004 or its full name; the delimiter of 0006 and 0007
    /// is ":". Default: 0003
    #[arg(long, value_name = "LAYOUT", value_parser = parse_layout)]
    layout: Option<Layout>,
    /// Add digests of this algorithm to the fixity block, for content that the object doesn't have
    /// yet; repeat the option for several
    #[arg(long = "fixity", value_name = "NAME", value_parser = parse_algorithm)]
    fixity: Vec<Algorithm>,
    /// Why the version is made
    #[arg(long, value_name = "TEXT", default_value = "Exported from the archive")]
    message: String,
    /// Who makes the version
    #[arg(long, value_name = "NAME", default_value = "fulgurite")]
    user: String,
    /// A URI of the user, such as mailto:someone@example.org
    #[arg(long, value_name = "URI")]
    address: Option<String>,
    #[command(flatten)]
    premis: Premis,
    #[command(flatten)]
    leave_out: LeaveOut,
}

fn parse_layout(text: &str) -> Result<Layout, String> {
    let name = LAYOUTS.into_iter().find(|name| *name == text || name.split('-').next() == Some(text));
    let name = name.ok_or_else(|| format!("expected one of {}", LAYOUTS.join(", ")))?;
    let configuration = name.starts_with("0006").then_some(r#"{"delimiter": ":"}"#);
    let configuration = configuration.or(name.starts_with("0007").then_some("{}"));
    Layout::from_configuration(name, configuration).map_err(|error| error.to_string())
}

pub(super) fn export(session: &Session, command: &Object) -> Result<Outcome> {
    let provenance = command.premis.begin()?;
    let archive = session.open(Access::Read)?;
    let objects = Objects::below(&archive, name_of(&command.name))?;
    let id = match &command.id {
        Some(id) => id.clone(),
        None => match std::str::from_utf8(objects.last_part()) {
            Ok(part) => object_id::decode(part),
            Err(_) => return Err(Misuse("the name is not UTF-8, so it can't be an identifier: choose one with --object".into()).into()),
        },
    };
    let survey = objects.survey("OCFL objects", command.leave_out.leave_out, &|path| {
        let is_too_long = path.len() > LOGICAL_PATH_BYTES_MAX && !is_inventory(path);
        is_too_long.then(|| format!("its path has {} bytes; at most {LOGICAL_PATH_BYTES_MAX} are allowed", path.len()))
    })?;
    let root = storage_root(&command.into, command.layout.as_ref())?;
    let start = Instant::now();
    let user = User { name: command.user.clone(), address: command.address.clone() };
    let info = VersionInfo { created: now(), message: Some(command.message.clone()), user: Some(user) };
    let existing = root.object(&id)?;
    let exists = existing.folder().symlink_metadata().is_ok();
    let mut writer = if exists {
        // First of all: this takes back a version that a crash interrupted, without which the
        // inventory may not match its sidecar.
        let writer = root.new_version(&existing, &command.fixity, info)?;
        if writer.id() != id {
            bail!("{} has the object {:?}, not {id:?}", text::path(existing.folder()), writer.id());
        }
        writer
    } else {
        root.create_object(&id, &ObjectOptions { fixity: command.fixity.clone(), ..ObjectOptions::default() }, info)?
    };
    let state = |writer: &fulgurite_ocfl::VersionWriter| -> BTreeMap<String, Digest> {
        writer.logical_paths().map(|(path, digest)| (path.to_owned(), digest.clone())).collect()
    };
    let before = exists.then(|| state(&writer));
    writer.clear();
    let (mut files, mut total) = (0_u64, 0_u64);
    objects.each_file(&mut |path, row, content| {
        if is_inventory(path) {
            return Ok(());
        }
        let added = content.pass(|reader, known| writer.add(path, reader, known));
        let Some(row) = added.with_context(|| row.record.name.display())? else { return Ok(()) };
        read(provenance.as_ref(), &row);
        files += 1;
        total += row.record.size;
        Ok(())
    })?;
    let place = root.place(&existing);
    if before.is_some_and(|before| before == state(&writer)) {
        describe(provenance.as_ref(), &archive, None)?;
        session.say(&format!("{} is unchanged in {}; no version was written.", text::harmless(&id), text::path(&command.into)));
        if !command.fixity.is_empty() {
            session.warn("--fixity had no effect: it only adds digests of new content, and the object has all of this already.");
        }
        session.answer(
            || json!({ "object": id, "place": place, "version": null, "files": files, "bytes": total, "left_out": survey.left_out }),
        );
        return Ok(Outcome::Good);
    }
    let committed = writer.commit()?;
    let whither = format!("it is in {} of the OCFL object {id} in {}", committed.version, text::path(&command.into));
    describe(provenance.as_ref(), &archive, Some(&whither))?;
    let took = start.elapsed();
    session.say(&format!(
        "Wrote {} and {} of {} as {} of {} in {:.1} s ({}).",
        count(files, "file"),
        bytes(total),
        objects.shown(),
        committed.version,
        text::harmless(&id),
        took.as_secs_f64(),
        rate(total, took)
    ));
    session.answer(|| {
        json!({
            "object": id, "place": place, "version": committed.version.to_string(), "files": files, "bytes": total,
            "stored_files": committed.files, "left_out": survey.left_out,
        })
    });
    Ok(Outcome::Good)
}

/// True for the inventory that an import keeps; the export writes a new one.
fn is_inventory(path: &str) -> bool {
    let file = path.strip_prefix(INVENTORIES).and_then(|rest| rest.strip_prefix('/'));
    file.and_then(|file| file.strip_prefix(INVENTORY)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && !rest.contains('/'))
}

/// Opens a storage root, or makes one in a folder that is empty or doesn't exist.
fn storage_root(folder: &Path, layout: Option<&Layout>) -> Result<StorageRoot> {
    let is_new = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(|| text::path(folder)),
    };
    if is_new {
        return Ok(StorageRoot::create(folder, SpecVersion::V1_1, layout.cloned().unwrap_or_default())?);
    }
    let root = StorageRoot::open(folder)?;
    if let Some((wanted, found)) = layout.zip(root.layout())
        && wanted.name() != found.name()
    {
        return Err(Misuse(format!("{} has the layout {}, not {}", text::path(folder), found.name(), wanted.name())).into());
    }
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_numbers_and_names() {
        for name in LAYOUTS {
            assert_eq!(parse_layout(name).as_ref().map(Layout::name), Ok(name));
            assert_eq!(parse_layout(&name[..4]), parse_layout(name));
        }
        assert!(parse_layout("0001").is_err() && parse_layout("").is_err());
    }

    #[test]
    fn only_the_inventory_that_an_import_keeps_is_left_out() {
        for path in [".ocfl/inventory.json", ".ocfl/inventory.json.sha512"] {
            assert!(is_inventory(path), "{path}");
        }
        for path in [".ocfl/notes", "inventory.json", ".ocfl/inventory.jsonl", ".ocfl/inventory.json/x", "a/.ocfl/inventory.json"] {
            assert!(!is_inventory(path), "{path}");
        }
    }
}
