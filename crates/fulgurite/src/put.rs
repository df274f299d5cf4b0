//! Putting files and folders in, and writing them to platters.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use fulgurite_archive::reserved::{RESERVED_FOLDER, is_reserved};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{Access, Archive, ArchiveError, FlushReport, PutReport, Source};
use fulgurite_domain::ObjectName;
use serde_json::json;
use walkdir::WalkDir;

use crate::args::Put;
use crate::progress::Progress;
use crate::setup::canonical;
use crate::text::{bytes, count, rate};
use crate::{Outcome, Session};

pub(crate) fn put(session: &Session, put: &Put) -> Result<Outcome> {
    let roots = roots(put)?;
    let archive = session.open(Access::Write)?;
    let progress = Progress::new(session.quiet);
    let start = Instant::now();
    let (report, flushed) = put_roots(&archive, roots, put, &progress)?;
    let took = start.elapsed();
    progress.finish();
    session.say(&format!(
        "{} {}, {} in {:.1} s ({}).",
        if matches!(flushed, Some(Ok(_))) { "Stored on platters" } else { "Stored" },
        count(report.objects, "object", "objects"),
        bytes(report.bytes),
        took.as_secs_f64(),
        rate(report.bytes, took)
    ));
    let nothing = report.objects == 0;
    if report.failed > 0 {
        eprintln!("{} not stored, see above.", count(report.failed, "thing was", "things were"));
    }
    let (flushed, flush_error) = match flushed.transpose() {
        Ok(flushed) => (flushed, None),
        Err(error) => (None, Some(error)),
    };
    if let Some(flushed) = flushed {
        session.say(&flush_text(flushed));
    }
    if session.json {
        let mut value = json!({ "objects": report.objects, "bytes": report.bytes, "failed": report.failed, "changed": report.changed });
        if let Some(flushed) = flushed {
            value["flush"] = flush_json(flushed);
        }
        session.answer(&value);
    } else if flushed.is_none() && !nothing {
        session.say("It is staged, and safe on this disk; `fulgurite flush` writes it to platters.");
    }
    if let Some(error) = flush_error {
        return Err(error.into());
    }
    let unreadable = flushed.is_some_and(|flushed| flushed.unreadable > 0);
    Ok(Outcome::troubled_if(report.failed > 0 || report.changed > 0 || unreadable))
}

pub(crate) fn flush(session: &Session) -> Result<Outcome> {
    let archive = session.open(Access::Write)?;
    let report = flush_all(session, &archive)?;
    if session.json {
        session.answer(&flush_json(report));
    }
    Ok(Outcome::troubled_if(report.unreadable > 0))
}

fn flush_all(session: &Session, archive: &Archive) -> Result<FlushReport> {
    let progress = Progress::new(session.quiet);
    let start = Instant::now();
    let report = archive.flush(&progress)?;
    let took = start.elapsed();
    progress.finish();
    if report.sets == 0 {
        session.say("Nothing is staged.");
    } else {
        session.say(&flush_text(report));
        session.say(&format!("It took {:.1} s ({}).", took.as_secs_f64(), rate(report.stored_bytes, took)));
    }
    Ok(report)
}

fn flush_text(report: FlushReport) -> String {
    format!(
        "Wrote and verified {} in {}: {} with {} ({} on disk).",
        count(report.platters, "platter", "platters"),
        count(report.sets, "set", "sets"),
        count(report.versions, "object", "objects"),
        bytes(report.stored_bytes),
        bytes(report.platter_bytes)
    )
}

fn flush_json(report: FlushReport) -> serde_json::Value {
    json!({
        "sets": report.sets, "platters": report.platters, "versions": report.versions,
        "stored_bytes": report.stored_bytes, "platter_bytes": report.platter_bytes, "unreadable": report.unreadable,
    })
}

/// Something named on the command line, and the name it gets in the archive.
pub(crate) enum Root {
    /// Standard input.
    Input(ObjectName),
    /// A file or folder; the name is empty for a folder whose content goes to the top.
    Path(PathBuf, Vec<u8>),
}

fn roots(put: &Put) -> Result<Vec<Root>> {
    if put.name.is_some() && put.paths.len() > 1 {
        bail!("--name names one thing, and {} paths are given; --to stores several under a folder", put.paths.len());
    }
    let folder = match &put.to {
        Some(folder) if !trimmed(folder.as_bytes()).is_empty() => checked(trimmed(folder.as_bytes()))?,
        _ => b"",
    };
    let under = |name: &OsStr| if folder.is_empty() { name.as_bytes().to_vec() } else { [folder, name.as_bytes()].join(&b"/"[..]) };
    let free = |name: Vec<u8>| {
        if is_reserved(&ObjectName(name.clone())) {
            bail!("{} can't be put: names below {RESERVED_FOLDER} are the archive's own", ObjectName(name).display());
        }
        Ok(name)
    };
    put.paths
        .iter()
        .map(|path| {
            if path.as_os_str() == "-" {
                let Some(name) = put.name.as_ref() else { bail!("standard input needs a name: --name NAME") };
                return Ok(Root::Input(ObjectName(free(checked(trimmed(name.as_bytes()))?.to_vec())?)));
            }
            let name = match (&put.name, path.file_name()) {
                (Some(name), _) => checked(trimmed(name.as_bytes()))?.to_vec(),
                (None, Some(name)) => under(name),
                // Such as `.` or `..`: the content of that folder.
                (None, None) => folder.to_vec(),
            };
            Ok(Root::Path(path.clone(), free(name)?))
        })
        .collect()
}

fn trimmed(name: &[u8]) -> &[u8] {
    let start = name.iter().position(|&byte| byte != b'/').unwrap_or(name.len());
    let end = name.iter().rposition(|&byte| byte != b'/').map_or(start, |last| last + 1);
    &name[start..end]
}

/// A name that can be restored later.
fn checked(name: &[u8]) -> Result<&[u8]> {
    let bad = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
    if name.split(|&byte| byte == b'/').any(bad) {
        bail!("{} can't be a name: its parts must not be empty, . or ..", ObjectName(name.to_vec()).display());
    }
    Ok(name)
}

/// Puts files and folders, with all below them, and writes them to platters if that is wanted.
pub(crate) fn put_roots(
    archive: &Archive,
    roots: Vec<Root>,
    put: &Put,
    progress: &Progress,
) -> Result<(PutReport, Option<Result<FlushReport, ArchiveError>>), ArchiveError> {
    // An archive that stores itself would never come to an end.
    let own: HashSet<PathBuf> = std::iter::once(archive.home().to_owned())
        .chain(archive.settings().stores.iter().map(|store| archive.home().join(&store.path)))
        .filter_map(|path| canonical(&path))
        .collect();
    let failed = AtomicU64::new(0);
    let sources = |root: Root| -> Box<dyn Iterator<Item = Source> + Send + '_> {
        match root {
            Root::Input(name) => Box::new(std::iter::once(Source::Stream { reader: Box::new(std::io::stdin()), name })),
            Root::Path(path, name) => Box::new(walk(walker(&path, put), path, name, &own, progress, &failed)),
        }
    };
    progress.stage("storing", if progress.is_shown() { Some(0) } else { None });
    let paths: Vec<PathBuf> =
        roots.iter().filter_map(|root| if let Root::Path(path, _) = root { Some(path.clone()) } else { None }).collect();
    let (mut report, flushed) = std::thread::scope(|scope| {
        // Counting what is to come reads every folder twice, so only where somebody looks.
        if progress.is_shown() {
            scope.spawn(|| expect(&paths, put, progress));
        }
        let sources = roots.into_iter().flat_map(sources);
        if put.flush {
            return archive.put_and_flush(sources, progress).map(|(put, flushed)| (put, Some(flushed)));
        }
        archive.put(sources, progress).map(|put| (put, None))
    })?;
    report.failed += failed.load(Ordering::Relaxed);
    Ok((report, flushed))
}

/// A walk through everything below a path. A link that is named itself is stored as a link, but `folder/.` or `folder/` is the folder.
fn walker(root: &Path, put: &Put) -> WalkDir {
    WalkDir::new(root).follow_links(false).follow_root_links(false).same_file_system(put.one_file_system)
}

fn expect(paths: &[PathBuf], put: &Put, progress: &Progress) {
    for entry in paths.iter().flat_map(|path| walker(path, put).into_iter().flatten()) {
        if let Ok(metadata) = entry.metadata()
            && metadata.is_file()
        {
            progress.expect(1, metadata.len());
        }
    }
}

/// Everything to be stored of a file or folder, in order of names.
fn walk<'a>(
    walker: WalkDir,
    root: PathBuf,
    name: Vec<u8>,
    own: &'a HashSet<PathBuf>,
    progress: &'a Progress,
    failed: &'a AtomicU64,
) -> impl Iterator<Item = Source> + Send + 'a {
    let entries = walker.sort_by_file_name().into_iter();
    let is_top = name.is_empty();
    let entries = entries.filter_entry(move |entry| {
        if is_top && entry.depth() == 1 && entry.file_name() == RESERVED_FOLDER {
            failed.fetch_add(1, Ordering::Relaxed);
            progress.trouble(Trouble::Unreadable { path: entry.path(), why: "it would have a name that is the archive's own" });
            return false;
        }
        let is_own = entry.file_type().is_dir() && canonical(entry.path()).is_some_and(|path| own.contains(&path));
        if is_own {
            let text = format!("{} belongs to this archive and is not stored in it", entry.path().display());
            progress.trouble(Trouble::Note { text: &text });
        }
        !is_own
    });
    entries.filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                failed.fetch_add(1, Ordering::Relaxed);
                let path = error.path().unwrap_or(Path::new("?")).to_owned();
                let why = error.into_io_error().map_or_else(|| "a loop of links".to_owned(), |error| error.to_string());
                progress.trouble(Trouble::Unreadable { path: &path, why: &why });
                return None;
            }
        };
        let below = entry.path().strip_prefix(&root).unwrap_or(Path::new(""));
        let name = match (name.is_empty(), below.as_os_str().is_empty()) {
            (_, true) => name.clone(),
            (true, false) => below.as_os_str().as_bytes().to_vec(),
            (false, false) => [&name, below.as_os_str().as_bytes()].join(&b"/"[..]),
        };
        // A folder is there by what is in it. An empty one would be lost.
        let is_full = |path: &Path| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if name.is_empty() || (entry.file_type().is_dir() && (is_full(entry.path()) || std::fs::read_dir(entry.path()).is_err())) {
            return None;
        }
        Some(Source::Path { path: entry.into_path(), name: ObjectName(name) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_not_be_restored_are_refused() {
        for name in [&b""[..], b"a//b", b"../x", b"a/./b"] {
            assert!(checked(name).is_err(), "{name:?}");
        }
        assert_eq!(checked(trimmed(b"/a/b/")).ok(), Some(&b"a/b"[..]));
    }
}
