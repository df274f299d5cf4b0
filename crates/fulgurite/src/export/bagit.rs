//! `export bagit`.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use fulgurite_archive::Access;
use fulgurite_bagit::{BagInfo, BagWriter, Report, Scope, Version, WriteError, WriteOptions, check_payload_path, check_tag_path};
use fulgurite_digest::Algorithm;
use serde_json::json;

use super::objects::Objects;
use super::{LeaveOut, describe, parse_algorithm, read, today};
use crate::import::{TAG_FILES, read_profile};
use crate::list::name_of;
use crate::outcome::Misuse;
use crate::premis::Premis;
use crate::text::{self, bytes, count, rate};
use crate::{Outcome, Session, diagnostics};

/// What a bag's own metadata may have; the reader of bags has the same limit.
const INFO_BYTES_MAX: u64 = 16 << 20;
const INFO: &str = "bag-info.txt";
/// The same file before version 0.96.
const OLD_INFO: &str = "package-info.txt";

#[derive(Debug, Args)]
pub(crate) struct Bag {
    /// A folder of the archive
    name: OsString,
    /// Folder of the bag; it must not exist, but its parent must
    #[arg(long, value_name = "FOLDER")]
    into: PathBuf,
    /// Digest algorithm of the manifests; repeat the option for several. Default: those of the bag
    /// that was imported, or sha512
    #[arg(long = "algorithm", value_name = "NAME", value_parser = parse_algorithm)]
    algorithms: Vec<Algorithm>,
    /// A BagIt profile (JSON) that the bag must conform to; otherwise it is not written. Its
    /// identifier is added to bag-info.txt
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// A field of bag-info.txt; repeat the option for several. It replaces fields of the same label
    /// that were imported
    #[arg(long = "info", value_name = "LABEL=VALUE")]
    info: Vec<String>,
    /// Version of the format. Default: that of the bag that was imported if it is one of these, or
    /// 1.0. Software for 0.97, such as bagit-python, doesn't decode the percent signs of names in
    /// 1.0
    #[arg(long, value_name = "VERSION", value_parser = ["0.97", "1.0"])]
    bagit_version: Option<String>,
    #[command(flatten)]
    premis: Premis,
    #[command(flatten)]
    leave_out: LeaveOut,
}

/// What was kept of a bag that was imported.
struct Imported {
    version: Version,
    info: Option<BagInfo>,
    algorithms: Vec<Algorithm>,
}

pub(super) fn export(session: &Session, command: &Bag) -> Result<Outcome> {
    let profile = command.profile.as_deref().map(read_profile).transpose()?;
    let provenance = command.premis.begin()?;
    let archive = session.open(Access::Read)?;
    let objects = Objects::below(&archive, name_of(&command.name))?;
    let imported = imported(&objects)?;
    let mut options = WriteOptions { bagging_date: Some(today()), ..WriteOptions::default() };
    options.info = fields(command, imported.as_ref())?;
    if let Some(profile) = &profile
        && options.info.values("BagIt-Profile-Identifier").all(|value| value != profile.identifier())
    {
        options.info.push("BagIt-Profile-Identifier", profile.identifier())?;
    }
    options.version = match (command.bagit_version.as_deref(), &imported) {
        (Some("0.97"), _) | (None, Some(Imported { version: Version::V0_97, .. })) => Version::V0_97,
        _ => Version::V1_0,
    };
    let known = imported.as_ref().map(|imported| imported.algorithms.clone()).filter(|algorithms| !algorithms.is_empty());
    match (command.algorithms.is_empty(), known) {
        (false, _) => options.algorithms.clone_from(&command.algorithms),
        (true, Some(known)) => options.algorithms = known,
        (true, None) => {}
    }
    let has_old_info = imported.as_ref().is_some_and(|imported| imported.version <= Version::V0_95);
    let version = options.version;
    let survey = objects.survey("bags", command.leave_out.leave_out, &|path| match tag_file(path).filter(|_| imported.is_some()) {
        Some(tag_file) if is_computed(tag_file, has_old_info) => None,
        Some(tag_file) => why_not(check_tag_path(tag_file, version)),
        None => why_not(check_payload_path(path, version)),
    })?;
    let start = Instant::now();
    let mut writer = BagWriter::create(&command.into, options).map_err(|error| match error {
        WriteError::Reserved { .. } | WriteError::NoName { .. } => Misuse(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    let (mut payload_files, mut payload_bytes, mut tag_files) = (0_u64, 0_u64, 0_u64);
    objects.each_file(&mut |path, row, content| {
        let tag_file = tag_file(path).filter(|_| imported.is_some());
        let added = match tag_file {
            Some(tag_file) => {
                if is_computed(tag_file, has_old_info) {
                    if tag_file == "fetch.txt" {
                        diagnostics::note("fetch.txt is not written: the bag contains all of its files");
                    }
                    return Ok(());
                }
                content.pass(|reader, _| writer.add_tag_file(tag_file, reader))
            }
            None => content.pass(|reader, known| writer.add(path, reader, known)),
        };
        let Some(row) = added.with_context(|| row.record.name.display())? else { return Ok(()) };
        match tag_file {
            Some(_) => tag_files += 1,
            None => {
                payload_files += 1;
                payload_bytes += row.record.size;
            }
        }
        read(provenance.as_ref(), &row);
        Ok(())
    })?;
    let mut violations: Option<Report> = None;
    let written = writer.finish_if(|bag| {
        let report = profile.as_ref().map(|profile| profile.check(bag, 1_000));
        let is_accepted = report.as_ref().is_none_or(|report| report.errors() == 0);
        violations = report;
        is_accepted
    })?;
    for finding in violations.iter().flat_map(Report::findings) {
        diagnostics::write(&finding.to_string(), &json!({ "kind": "finding", "text": finding.to_string() }));
    }
    if written.is_none() {
        bail!(
            "the bag was not written, because it would not conform to the profile: add fields with --info, or change what is below {}",
            objects.shown()
        );
    }
    describe(provenance.as_ref(), &archive, Some(&format!("it is in the bag {}", text::path(&command.into))))?;
    let took = start.elapsed();
    session.say(&format!(
        "Wrote {} and {} of {} to the bag {} in {:.1} s ({}).",
        count(payload_files, "payload file"),
        bytes(payload_bytes),
        objects.shown(),
        text::path(&command.into),
        took.as_secs_f64(),
        rate(payload_bytes, took)
    ));
    session.answer(|| {
        json!({
            "name": objects.shown(), "bag": text::path(&command.into), "payload_files": payload_files, "payload_bytes": payload_bytes,
            "tag_files": tag_files, "left_out": survey.left_out,
        })
    });
    Ok(Outcome::Good)
}

/// The path of a tag file that an import has kept.
fn tag_file(path: &str) -> Option<&str> {
    path.strip_prefix(TAG_FILES)?.strip_prefix('/')
}

/// What a writer would say of a path, without the path.
fn why_not(checked: Result<(), WriteError>) -> Option<String> {
    checked.err().map(|error| match error {
        WriteError::Path { reason, .. } => reason.to_string(),
        error => error.to_string(),
    })
}

/// True for tag files that the writer computes, rather than taking them as they were imported.
fn is_computed(tag_file: &str, has_old_info: bool) -> bool {
    let is_manifest = (tag_file.starts_with("manifest-") || tag_file.starts_with("tagmanifest-")) && tag_file.ends_with(".txt");
    match tag_file {
        "bagit.txt" | "fetch.txt" => true,
        INFO => !has_old_info,
        OLD_INFO => has_old_info,
        _ => is_manifest && !tag_file.contains('/'),
    }
}

/// The fields of bag-info.txt: those imported, in their order, and those given.
fn fields(command: &Bag, imported: Option<&Imported>) -> Result<BagInfo> {
    let mut given = Vec::new();
    for field in &command.info {
        let (label, value) = field.split_once('=').ok_or_else(|| Misuse(format!("--info {field:?}: expected LABEL=VALUE")))?;
        given.push((label, value));
    }
    let mut info = BagInfo::new();
    for (label, value) in imported.and_then(|imported| imported.info.as_ref()).iter().flat_map(|info| info.fields()) {
        let is_computed = ["Payload-Oxum", "Bagging-Date"].iter().any(|computed| label.eq_ignore_ascii_case(computed));
        if !is_computed && !given.iter().any(|(other, _)| label.eq_ignore_ascii_case(other)) {
            info.push(label, value)
                .with_context(|| format!("the imported {TAG_FILES}/{INFO} can't be written again: store a corrected one"))?;
        }
    }
    for (label, value) in given {
        info.push(label, value).map_err(|error| Misuse(error.to_string()))?;
    }
    Ok(info)
}

/// Reads what an import has kept of a bag's own files, with the reader of bags: in a temporary
/// folder, with empty manifests, whose names are enough.
fn imported(objects: &Objects<'_>) -> Result<Option<Imported>> {
    if objects.newest(&format!("{TAG_FILES}/bagit.txt"))?.is_none() {
        return Ok(None);
    }
    let folder = tempfile::tempdir().context("can't make a temporary folder")?;
    objects.each_file(&mut |path, row, content| {
        let Some(name) = tag_file(path) else { return Ok(()) };
        if name.contains('/') || !(is_computed(name, true) || is_computed(name, false)) {
            return Ok(());
        }
        let shown = row.record.name.display();
        let mut file = File::create_new(folder.path().join(name)).with_context(|| shown.clone())?;
        if matches!(name, "bagit.txt" | INFO | OLD_INFO) {
            let check = |size| match size > INFO_BYTES_MAX {
                true => bail!("{shown} has {} and can't be the metadata of a bag", bytes(size)),
                false => Ok(()),
            };
            check(row.record.size)?;
            let read =
                content.pass(|reader, _| std::io::copy(&mut reader.take(INFO_BYTES_MAX), &mut file)).with_context(|| shown.clone())?;
            // A server may replace or remove it meanwhile.
            match read {
                Some(row) => check(row.record.size)?,
                None => std::fs::remove_file(folder.path().join(name)).with_context(|| shown.clone())?,
            }
        }
        Ok(())
    })?;
    let unusable = || format!("{}/{TAG_FILES} doesn't describe a bag; remove it, or correct it", objects.shown());
    let bag = fulgurite_bagit::Bag::open(folder.path()).with_context(unusable)?;
    let mut algorithms = Vec::new();
    for manifest in bag.manifests().iter().filter(|manifest| manifest.scope == Scope::Payload) {
        algorithms.extend(manifest.algorithm);
    }
    Ok(Some(Imported { version: bag.version(), info: bag.info().cloned(), algorithms }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_describes_the_bag_itself_is_computed() {
        for name in ["bagit.txt", "bag-info.txt", "fetch.txt", "manifest-md5.txt", "tagmanifest-sha512.txt"] {
            assert!(is_computed(name, false), "{name}");
        }
        for name in ["package-info.txt", "meta/bagit.txt", "meta/manifest-md5.txt", "notes.txt", "manifest-md5.csv"] {
            assert!(!is_computed(name, false), "{name}");
        }
        assert!(is_computed("package-info.txt", true) && !is_computed("bag-info.txt", true));
    }
}
