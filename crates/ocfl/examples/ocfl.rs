//! A small OCFL tool, for tests against other programs.
//!
//! ```text
//! ocfl create ROOT 1.0|1.1 LAYOUT           a storage root; LAYOUT as in the registry, such as 0003-...
//! ocfl put ROOT ID FOLDER [ALGORITHM...]    a new object or version with a folder's files; fixity
//! ocfl list ROOT                            objects: id, newest version, folder
//! ocfl files ROOT ID                        content files of an object: digests, path, logical paths
//! ocfl validate-object FOLDER               findings, and exit status 1 for an invalid object
//! ocfl validate-root ROOT
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fulgurite_digest::Algorithm;
use fulgurite_ocfl::{
    Layout, ObjectOptions, Report, Scope, SpecVersion, StorageRoot, User, ValidateOptions, Verdict, VersionInfo, validate_object,
    validate_root,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["create", root, spec, layout] => {
            let spec = SpecVersion::ALL.into_iter().find(|known| known.number() == spec).ok_or("unknown version of OCFL")?;
            let configuration = if layout.starts_with("0006") { r#"{"delimiter": ":"}"# } else { "{}" };
            StorageRoot::create(Path::new(root), spec, Layout::from_configuration(layout, Some(configuration))?)?;
        }
        ["put", root, id, folder, ref algorithms @ ..] => put(root, id, Path::new(folder), algorithms)?,
        ["list", root] => {
            let root = StorageRoot::open(Path::new(root))?;
            for object in root.objects() {
                let object = object?;
                let inventory = object.inventory()?;
                println!("{}\t{}\t{}", inventory.id(), inventory.head(), root.place(&object));
            }
        }
        ["files", root, id] => {
            let inventory = StorageRoot::open(Path::new(root))?.object(id)?.inventory()?;
            for file in inventory.files(Scope::All) {
                println!("{:?}\t{}\t{:?}", file.digests, file.path, file.logical_paths);
            }
        }
        ["validate-object", folder] => {
            let report = validate_object(Path::new(folder), &ValidateOptions::default());
            print_report("", &report);
            return Ok(exit_code(report.verdict()));
        }
        ["validate-root", root] => {
            let report =
                validate_root(Path::new(root), &ValidateOptions { threads: 2, ..ValidateOptions::default() }, &mut |folder, report| {
                    print_report(&format!("{}: ", folder.display()), report);
                    true
                });
            report.findings.kept().iter().for_each(|finding| println!("{finding}"));
            report.unreadable.iter().for_each(|unreadable| println!("unreadable {unreadable}"));
            println!("{:?}: {} valid, {} invalid, {} unknown objects", report.verdict(), report.valid, report.invalid, report.unknown);
            return Ok(exit_code(report.verdict()));
        }
        _ => return Err("see the beginning of crates/ocfl/examples/ocfl.rs".into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn put(root: &str, id: &str, folder: &Path, algorithms: &[&str]) -> Result<(), Box<dyn Error>> {
    let root = StorageRoot::open(Path::new(root))?;
    let fixity = algorithms.iter().map(|name| name.parse()).collect::<Result<Vec<Algorithm>, _>>()?;
    let user = User { name: "Example".to_owned(), address: Some("mailto:example@example.org".to_owned()) };
    let info = VersionInfo { created: "2026-11-25T07:26:23Z".to_owned(), message: Some("put".to_owned()), user: Some(user) };
    let object = root.object(id)?;
    let mut writer = if object.folder().exists() {
        let mut writer = root.new_version(&object, &fixity, info)?;
        writer.clear();
        writer
    } else {
        root.create_object(id, &ObjectOptions { fixity, ..ObjectOptions::default() }, info)?
    };
    for path in files_below(folder)? {
        let logical = path.strip_prefix(folder)?.to_str().ok_or("a name is not UTF-8")?;
        writer.add(logical, &mut File::open(&path)?, &[])?;
    }
    let committed = writer.commit()?;
    println!("{} {}", committed.version, root.place(&committed.object));
    Ok(())
}

fn files_below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

fn print_report(prefix: &str, report: &Report) {
    report.findings.kept().iter().for_each(|finding| println!("{prefix}{finding}"));
    report.unreadable.iter().for_each(|unreadable| println!("{prefix}unreadable {unreadable}"));
    println!("{prefix}{:?}: {} files with {} bytes read", report.verdict(), report.files_read, report.bytes_read);
}

fn exit_code(verdict: Verdict) -> ExitCode {
    ExitCode::from(match verdict {
        Verdict::Valid => 0,
        Verdict::Invalid => 1,
        Verdict::Unknown => 2,
    })
}
