//! The command `get`: restores files and folders.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::object::ObjectReader;
use fulgurite_archive::set_reader::Repairs;
use fulgurite_archive::watch::Watcher;
use fulgurite_archive::{Access, Archive, Existing, GetReport, file_name};
use fulgurite_domain::{Kind, ObjectName};
use serde_json::json;

use crate::args::{ByteRange, Get};
use crate::diagnostics;
use crate::list::{deleted, name_of, nothing_stored, one_chosen};
use crate::progress::Progress;
use crate::text::{self, bytes, count, rate};
use crate::{Outcome, Session};

pub(crate) fn get(session: &Session, get: &Get) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let existing = if get.force { Existing::Replace } else { Existing::Keep };
    if let Some(folder) = &get.all {
        return get_folder(session, &archive, b"", folder, existing);
    }
    let argument = get.name.as_deref().expect("clap requires a name without --all");
    let name = name_of(argument);
    let shown = ObjectName(name.clone()).display();
    let versions = archive.catalogue().versions_of(&ObjectName(name.clone()))?;
    let latest = archive.catalogue().latest_number(&ObjectName(name.clone()))?;
    let version = match (get.version, &get.id) {
        (None, None) => versions.into_iter().next(),
        (number, id) => Some(chosen(&archive, versions, &ObjectName(name.clone()), number, id.as_deref())?),
    };
    let is_chosen = get.version.is_some() || get.id.is_some();
    let kind = version.as_ref().map(|row| row.record.kind);
    if let (true, Some(row), Some(Kind::DeletionMarker)) = (is_chosen, &version, kind) {
        let number = row.record.version;
        bail!("version {number} of {shown} is a deletion marker, without content; `fulgurite ls --versions` shows earlier versions");
    }
    if let Some((row, latest)) = version.as_ref().zip(latest).filter(|(row, latest)| !is_chosen && *latest > row.record.version) {
        let number = row.record.version;
        diagnostics::note(&format!(
            "version {number} of {shown} is not the newest: version {latest} exists but can't be listed; `fulgurite verify` says why"
        ));
    }
    let below = [&name[..], b"/"].concat();
    let is_above = !archive.catalogue().list(&below, Versions::Newest, None, 1)?.is_empty();
    // If a name is both a file and a folder, a trailing slash selects the folder.
    let wants_folder = is_above && !is_chosen && argument.as_bytes().ends_with(b"/");
    let Some(version) = version.filter(|row| row.record.kind.has_content() && !wants_folder) else {
        let is_folder = kind == Some(Kind::Directory) || is_above;
        match kind {
            _ if is_folder => {}
            Some(Kind::DeletionMarker) => bail!("{}", deleted(&shown)),
            _ => return Err(nothing_stored(&archive, &ObjectName(name))?),
        }
        if get.range.is_some() {
            bail!("{shown} is a folder; --range is for files");
        }
        let folder = get.destination.clone().map_or_else(|| default_destination(&name), Ok)?;
        if folder.as_os_str() == "-" {
            bail!("{shown} is a folder and can't be written to standard output");
        }
        return get_folder(session, &archive, &name, &folder, existing);
    };
    if is_above && !session.quiet {
        diagnostics::note(&format!("{shown} is also a folder; `fulgurite get {shown}/` restores its content"));
    }
    if get.range.is_some() || get.destination.as_deref() == Some(Path::new("-")) {
        return get_bytes(session, &archive, &version, get.range, get.destination.as_deref(), existing);
    }
    let mut destination = get.destination.clone().map_or_else(|| default_destination(&name), Ok)?;
    if destination.is_dir() {
        destination.push(default_destination(&name)?);
    }
    let progress = Progress::of_restore(session.quiet);
    progress.stage("restoring", Some(version.record.size));
    let start = Instant::now();
    let repairs = archive.get_to(&version, &destination, existing, &progress).with_context(|| shown.clone())?;
    progress.finish();
    if session.json {
        session.answer(
            &json!({ "name": shown, "version": version.record.version, "bytes": version.record.size, "path": text::path(&destination), "repairs": repairs_json(repairs) })
        );
    }
    session.say(&format!(
        "Restored {shown} (version {}, {}) to {} ({}).",
        version.record.version,
        bytes(version.record.size),
        destination.display(),
        rate(version.record.size, start.elapsed())
    ));
    say_repairs(session, repairs);
    Ok(Outcome::Good)
}

/// The version with this number or identifier.
fn chosen(archive: &Archive, versions: Vec<VersionRow>, name: &ObjectName, number: Option<u64>, id: Option<&str>) -> Result<VersionRow> {
    let shown = name.display();
    if versions.is_empty() {
        return Err(nothing_stored(archive, name)?);
    }
    one_chosen(versions, &shown, number, id, "--id ID restores one of them")?.ok_or_else(|| match (number, id) {
        (Some(number), _) => anyhow!("{shown} has no version {number}; `fulgurite ls --versions` lists them"),
        (None, id) => {
            let id = id.unwrap_or_default();
            anyhow!("{shown} has no version whose identifier begins with {id}; `fulgurite ls --versions --json` shows identifiers")
        }
    })
}

/// The last part of a name, in the current folder.
fn default_destination(name: &[u8]) -> Result<PathBuf> {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    if last.is_empty() || last == b".." || last == b"." {
        bail!("{} is not a valid file name: give a destination", ObjectName(name.to_vec()).display());
    }
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&file_name(last))))
}

fn get_folder(session: &Session, archive: &Archive, name: &[u8], folder: &Path, existing: Existing) -> Result<Outcome> {
    let prefix = if name.is_empty() { Vec::new() } else { [name, b"/"].concat() };
    let progress = Progress::of_restore(session.quiet);
    let start = Instant::now();
    let report = restore_folder(archive, &prefix, folder, existing, &progress)?;
    let took = start.elapsed();
    progress.finish();
    if session.json {
        session.answer(&json!({
            "objects": report.objects, "bytes": report.bytes, "failed": report.failed, "absent": report.out_of_reach.absent,
            "unreadable": report.out_of_reach.unreadable, "renamed": progress.renamed(), "repairs": repairs_json(report.repairs),
        }));
    }
    session.say(&format!(
        "Restored {}, {}, into {} in {:.1} s ({}).",
        count(report.objects, "object", "objects"),
        bytes(report.bytes),
        folder.display(),
        took.as_secs_f64(),
        rate(report.bytes, took)
    ));
    say_repairs(session, report.repairs);
    if report.renamed > 0 {
        session.say(&format!("{} restored under another name, see above.", count(report.renamed, "object was", "objects were")));
    }
    if report.failed > 0 {
        diagnostics::trouble(&format!("{} not restored, see above.", count(report.failed, "object was", "objects were")));
    }
    Ok(Outcome::troubled_if(report.failed > report.out_of_reach.total()).worst(Outcome::hindered(report.out_of_reach.hindrance())))
}

/// Restores everything below a prefix.
pub(crate) fn restore_folder(
    archive: &Archive,
    prefix: &[u8],
    folder: &Path,
    existing: Existing,
    progress: &Progress,
) -> Result<GetReport> {
    let total = archive.catalogue().totals()?.content_bytes;
    // The size of a folder is only known after listing it.
    progress.stage("restoring", prefix.is_empty().then_some(total));
    Ok(archive.get_all(prefix, prefix.len(), folder, existing, progress)?)
}

fn get_bytes(
    session: &Session,
    archive: &Archive,
    version: &VersionRow,
    range: Option<ByteRange>,
    destination: Option<&Path>,
    existing: Existing,
) -> Result<Outcome> {
    let mut reader = ObjectReader::new(archive);
    let name = version.record.name.display();
    let mut read = |out: &mut dyn Write| -> Result<()> {
        match range {
            Some(range) => reader.read_range(version, range.within(version.record.size), &mut |bytes| out.write_all(bytes)),
            None => reader.read(version, &mut |bytes| out.write_all(bytes)),
        }
        .with_context(|| name.clone())?;
        Ok(out.flush()?)
    };
    match destination {
        Some(path) if path != Path::new("-") => {
            // Write to a temporary file first, so that the destination never contains only a part.
            let mut part = path.as_os_str().to_owned();
            part.push(".fulgurite-part");
            let part = PathBuf::from(part);
            if existing == Existing::Keep && path.symlink_metadata().is_ok() {
                bail!("{} is there already (--force replaces it)", path.display());
            }
            let written = std::fs::File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&part)
                .with_context(|| part.display().to_string())
                .and_then(|mut file| read(&mut file))
                .and_then(|()| Ok(std::fs::rename(&part, path)?));
            if written.is_err() {
                let _ = std::fs::remove_file(&part);
            }
            written?;
        }
        _ => read(&mut std::io::stdout().lock())?,
    }
    let repairs = reader.repairs();
    if repairs.tracks() > 0 && !session.quiet {
        diagnostics::note(&repairs_text(repairs));
    }
    Ok(Outcome::Good)
}

/// Describes the repairs in a sentence.
pub(crate) fn repairs_text(repairs: Repairs) -> String {
    format!(
        "Rebuilt {}: {} by their own code, {} by their large group, {} from their platter-set.",
        count(repairs.tracks(), "track", "tracks"),
        repairs.by_track,
        repairs.by_group,
        repairs.by_set
    )
}

pub(crate) fn repairs_json(repairs: Repairs) -> serde_json::Value {
    json!({ "lost_sectors": repairs.lost_sectors, "by_track": repairs.by_track, "by_group": repairs.by_group, "by_set": repairs.by_set })
}

fn say_repairs(session: &Session, repairs: Repairs) {
    if repairs.tracks() > 0 {
        session.say(&repairs_text(repairs));
        session.say(
            "`fulgurite verify` lists platters that are damaged, missing or absent; `fulgurite scrub` recovers damaged and missing ones.",
        );
    }
}
