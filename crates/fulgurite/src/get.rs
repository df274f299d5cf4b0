//! The command `get`: restores files and folders.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::object::{ObjectReader, ReadError, SUCCESSORS_MAX};
use fulgurite_archive::set_reader::Repairs;
use fulgurite_archive::watch::Watcher;
use fulgurite_archive::{Access, Archive, Existing, GetReport, file_name};
use fulgurite_domain::{Kind, ObjectName};
use fulgurite_new_file::NewFile;
use rustix::io::Errno;
use serde_json::json;

use crate::args::Get;
use crate::diagnostics;
use crate::gaps::{find_gaps, nothing_stored, say_gaps};
use crate::list::{deleted, name_of, one_chosen};
use crate::progress::Progress;
use crate::standard_output::standard_output;
use crate::text::{self, bytes, count, phrase, rate};
use crate::{Outcome, Session};

pub(crate) fn get(session: &Session, get: &Get) -> Result<Outcome> {
    let archive = session.open(Access::Read)?;
    let existing = if get.force { Existing::Replace } else { Existing::Keep };
    if let Some(folder) = &get.all {
        return get_folder(session, &archive, b"", folder, existing);
    }
    let argument = get.name.as_deref().expect("clap requires a name without --all");
    let name = ObjectName(name_of(argument));
    let shown = name.display();
    let is_chosen = is_chosen(get);
    let version = if is_chosen { Some(chosen(&archive, get, &name)?) } else { newest(&archive, &name)? };
    let has_names_below = !archive.catalogue().list(&[&name.0[..], b"/"].concat(), Versions::Newest, None, 1)?.is_empty();
    // If a name is both a file and a folder, a trailing slash selects the folder.
    let wants_folder = has_names_below && !is_chosen && argument.as_bytes().ends_with(b"/");
    let kind = version.as_ref().map(|row| row.record.kind);
    let empty_folder = version.clone().filter(|row| is_chosen && row.record.kind == Kind::Directory);
    if let Some(version) = version.filter(|row| row.record.kind.has_content() && !wants_folder) {
        if has_names_below && !session.quiet {
            diagnostics::note(&format!("{shown} is also a folder; `fulgurite get {shown}/` restores its content"));
        }
        if !is_chosen {
            // Only a note: the version that was found is restored completely.
            say_gaps(&find_gaps(&archive, &name.0, Versions::Newest)?, &format!("a newer version of {shown} may exist"));
        }
        return get_file(session, &archive, get, version, existing);
    }
    match kind {
        _ if has_names_below || kind == Some(Kind::Directory) => {}
        Some(Kind::DeletionMarker) => bail!("{}", deleted(&shown)),
        _ => return Err(nothing_stored(&archive, &name)?),
    }
    if get.range.is_some() {
        bail!("{shown} is a folder; --range is for files");
    }
    let folder = destination(get, &name)?;
    if folder.as_os_str() == "-" {
        bail!("{shown} is a folder and can't be written to standard output");
    }
    if let Some(version) = empty_folder {
        return get_empty_folder(session, &version, &folder);
    }
    get_folder(session, &archive, &name.0, &folder, existing)
}

/// Whether a certain version is wanted, rather than the newest.
fn is_chosen(get: &Get) -> bool {
    get.version.is_some() || get.id.is_some()
}

/// The version that `--version` or `--id` selects.
fn chosen(archive: &Archive, get: &Get, name: &ObjectName) -> Result<VersionRow> {
    let shown = name.display();
    let versions = archive.catalogue().versions_of(name)?;
    if versions.is_empty() {
        return Err(nothing_stored(archive, name)?);
    }
    match (one_chosen(versions, &shown, get.version, get.id.as_deref(), "--id ID restores one of them")?, get.version) {
        (Some(row), _) if row.record.kind == Kind::DeletionMarker => bail!(
            "version {} of {shown} is a deletion marker, without content; `fulgurite ls --versions` shows earlier versions",
            row.record.version
        ),
        (Some(row), _) => Ok(row),
        (None, Some(number)) => bail!("{shown} has no version {number}; `fulgurite ls --versions` lists them"),
        (None, None) => {
            let id = get.id.as_deref().unwrap_or_default();
            bail!("{shown} has no version whose identifier begins with {id}; `fulgurite ls --versions --json` shows identifiers")
        }
    }
}

/// The newest version that can be listed. Prints a note if a newer one exists.
fn newest(archive: &Archive, name: &ObjectName) -> Result<Option<VersionRow>> {
    let version = archive.catalogue().versions_of(name)?.into_iter().next();
    let latest = archive.catalogue().latest_number(name)?;
    if let Some((row, latest)) = version.as_ref().zip(latest).filter(|(row, latest)| *latest > row.record.version) {
        diagnostics::note(&format!(
            "version {} of {} is not the newest: version {latest} exists but can't be listed; `fulgurite verify` says why",
            row.record.version,
            name.display()
        ));
    }
    Ok(version)
}

fn get_file(session: &Session, archive: &Archive, get: &Get, mut version: VersionRow, existing: Existing) -> Result<Outcome> {
    if get.range.is_some() || get.destination.as_deref() == Some(Path::new("-")) {
        return get_bytes(session, archive, get, &version, existing);
    }
    let name = version.record.name.clone();
    let mut destination = destination(get, &name)?;
    if destination.is_dir() {
        destination.push(default_destination(&name)?);
    }
    let shown = name.display();
    let progress = Progress::of_restore(session.quiet);
    progress.stage("restoring", Some(version.record.size));
    let start = Instant::now();
    let mut attempts = 0;
    let (repairs, is_new) = loop {
        let restored = archive.get_to(&version, &destination, existing, &progress);
        // It was replaced before it was read.
        if matches!(restored, Err(ReadError::Removed))
            && !is_chosen(get)
            && attempts < SUCCESSORS_MAX
            && let Some(successor) = archive.successor(&version)?
        {
            (version, attempts) = (successor, attempts + 1);
            continue;
        }
        break restored.with_context(|| shown.clone())?;
    };
    let record = &version.record;
    progress.finish();
    session.answer(|| {
        let path = text::path(&destination);
        json!({ "name": shown, "version": record.version, "bytes": record.size, "path": path, "same": !is_new, "repairs": repairs })
    });
    if !is_new {
        session.say(&format!("{} has the content of {shown} (version {}) already.", destination.display(), record.version));
        return Ok(Outcome::Good);
    }
    session.say(&format!(
        "Restored {shown} (version {}, {}) to {} ({}).",
        record.version,
        bytes(record.size),
        destination.display(),
        rate(record.size, start.elapsed())
    ));
    say_repairs(session, repairs);
    Ok(Outcome::Good)
}

fn destination(get: &Get, name: &ObjectName) -> Result<PathBuf> {
    get.destination.clone().map_or_else(|| default_destination(name), Ok)
}

/// The last part of a name, in the current folder.
fn default_destination(name: &ObjectName) -> Result<PathBuf> {
    let last = name.0.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if matches!(last, b"" | b"." | b"..") {
        bail!("{} is not a valid file name: give a destination", name.display());
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
    session.answer(|| {
        json!({
            "objects": report.objects, "bytes": report.bytes, "same": report.same, "failed": report.failed, "absent": report.out_of_reach.absent,
            "unreadable": report.out_of_reach.unreadable, "renamed": progress.take_renamed(), "repairs": report.repairs,
        })
    });
    session.say(&format!(
        "Restored {}, {}, into {} in {:.1} s ({}).",
        count(report.objects, "object"),
        bytes(report.bytes),
        folder.display(),
        took.as_secs_f64(),
        rate(report.bytes, took)
    ));
    if report.same > 0 {
        session.say(&format!("{} there already, with the same content.", phrase(report.same, "file was", "files were")));
    }
    say_repairs(session, report.repairs);
    if report.renamed > 0 {
        session.say(&format!("{} restored under another name, see above.", phrase(report.renamed, "object was", "objects were")));
    }
    if report.failed > 0 {
        diagnostics::trouble(&format!("{} not restored, see above.", phrase(report.failed, "object was", "objects were")));
    }
    let gaps = say_gaps(&find_gaps(archive, name, Versions::Newest)?, "more may be stored than was restored");
    let restored = Outcome::troubled_if(report.failed > report.out_of_reach.total());
    Ok(restored.worst(Outcome::hindered(report.out_of_reach.hindrance())).worst(gaps))
}

/// Restores a folder that was put empty. What is stored below its name now came later.
fn get_empty_folder(session: &Session, version: &VersionRow, folder: &Path) -> Result<Outcome> {
    let (shown, number) = (version.record.name.display(), version.record.version);
    std::fs::create_dir_all(folder).with_context(|| text::path(folder))?;
    session.answer(|| json!({ "name": shown, "version": number, "bytes": 0, "path": text::path(folder), "repairs": Repairs::default() }));
    session.say(&format!("Restored {shown} (version {number}), an empty folder, to {}.", folder.display()));
    Ok(Outcome::Good)
}

/// Restores everything below `prefix`, which is empty or ends with a slash, into `folder`.
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

/// Writes content, or a range of it, to standard output, or to a file that doesn't get the object's
/// mode and times.
fn get_bytes(session: &Session, archive: &Archive, get: &Get, version: &VersionRow, existing: Existing) -> Result<Outcome> {
    let mut reader = ObjectReader::new(archive);
    let shown = || version.record.name.display();
    let opened = if is_chosen(get) { reader.open(version).map(Some) } else { reader.open_newest(version) };
    let opened = opened.and_then(|opened| opened.ok_or(ReadError::Removed)).with_context(shown)?;
    let size = opened.version().record.size;
    let range = get.range.map(|range| range.within(size));
    if range.as_ref().is_some_and(|range| range.is_empty()) {
        bail!("{} has {size} bytes, and none of them is in the range", shown());
    }
    let mut read = |out: &mut dyn Write| -> Result<()> {
        let mut failed = None;
        let mut write = |bytes: &[u8]| {
            out.write_all(bytes).map_err(|error| {
                let kind = error.kind();
                failed = Some(error);
                std::io::Error::from(kind)
            })
        };
        let read = match range.clone() {
            Some(range) => {
                reader.read_opened(&opened, range, &mut |buffer, pieces| pieces.iter().try_for_each(|piece| write(&buffer[piece.clone()])))
            }
            None => reader.read_whole(&opened, &mut write),
        };
        // The reader's own error no longer says that it comes from standard output.
        read.map_err(|error| failed.map_or_else(|| error.into(), anyhow::Error::from)).with_context(shown)?;
        Ok(out.flush()?)
    };
    match get.destination.as_deref() {
        Some(path) if path != Path::new("-") => {
            let exists = || format!("{} is there already (--force replaces it)", path.display());
            if existing == Existing::Keep && path.symlink_metadata().is_ok() {
                bail!(exists());
            }
            let name = path.file_name().with_context(|| format!("{} is not the name of a file", path.display()))?;
            let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = File::open(folder).with_context(|| text::path(folder))?;
            // Without a name until it is complete.
            let new = NewFile::create(folder.as_fd(), 0o600).with_context(|| text::path(path))?;
            read(&mut new.file())?;
            new.publish(name.as_bytes(), existing == Existing::Replace).map_err(|errno| match errno {
                Errno::EXIST => anyhow!(exists()),
                errno => anyhow!(errno).context(text::path(path)),
            })?;
        }
        _ => read(&mut standard_output())?,
    }
    let repairs = reader.repairs();
    if repairs.tracks() > 0 && !session.quiet {
        diagnostics::note(&repairs_text(repairs));
    }
    Ok(Outcome::Good)
}

pub(crate) fn repairs_text(repairs: Repairs) -> String {
    let copies = if repairs.by_copy > 0 { format!("{} from copies of their platter, ", repairs.by_copy) } else { String::new() };
    format!(
        "Rebuilt {}: {} by their own code, {copies}{} by their large group, {} from their platter-set.",
        count(repairs.tracks(), "track"),
        repairs.by_track,
        repairs.by_group,
        repairs.by_set
    )
}

fn say_repairs(session: &Session, repairs: Repairs) {
    if repairs.tracks() > 0 {
        session.say(&repairs_text(repairs));
        session.say(
            "`fulgurite verify` lists platters that are damaged, missing or absent; `fulgurite scrub` recovers damaged and missing ones.",
        );
    }
}
