//! Validates, lists and writes bags, for the tests in `tests/preservation`.
//!
//! ```text
//! bag validate [--quick] [--threads N] BAG     findings on stderr; exit status 1 unless valid
//! bag profile PROFILE.json BAG                 the same against a profile
//! bag inventory BAG                            a line of JSON for each payload file
//! bag create [--version V] [--algorithm A]... [--field LABEL VALUE]... [--date D] SOURCE BAG
//! ```

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use fulgurite_bagit::{Bag, BagWriter, Depth, Options, Profile, Report, Verdict, Version, WriteOptions, validate};

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bag: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<bool, Box<dyn Error>> {
    let (command, arguments) = arguments.split_first().ok_or("no command")?;
    let mut options = Options::default();
    let mut writing = WriteOptions { algorithms: Vec::new(), ..WriteOptions::default() };
    let mut paths = Vec::new();
    let mut rest = arguments.iter();
    let next = |rest: &mut std::slice::Iter<'_, String>| rest.next().cloned().ok_or("an argument is missing");
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--quick" => options.depth = Depth::Quick,
            "--threads" => options.threads = next(&mut rest)?.parse()?,
            "--memory" => options.memory_bytes = next(&mut rest)?.parse()?,
            "--version" => {
                writing.version = if next(&mut rest)? == "0.97" { Version::V0_97 } else { Version::V1_0 };
            }
            "--algorithm" => writing.algorithms.push(next(&mut rest)?.parse()?),
            "--field" => writing.info.push(next(&mut rest)?, next(&mut rest)?)?,
            "--date" => writing.bagging_date = Some(next(&mut rest)?),
            _ => paths.push(argument),
        }
    }
    match (command.as_str(), paths.as_slice()) {
        ("validate", [bag]) => Ok(show(&validate(bag.as_str(), &options)?)),
        ("profile", [profile, bag]) => {
            let profile = Profile::parse(&std::fs::read(profile)?)?;
            Ok(show(&profile.check(&Bag::open(bag.as_str())?, 1000)))
        }
        ("inventory", [bag]) => {
            let mut out = std::io::stdout().lock();
            for entry in Bag::open(bag.as_str())?.inventory(&options)? {
                let entry = entry?;
                let digests = entry.digests.iter().map(|digest| (digest.algorithm().name(), digest.hex()));
                let digests: std::collections::BTreeMap<_, _> = digests.collect();
                writeln!(
                    out,
                    "{}",
                    serde_json::json!({"path": String::from_utf8_lossy(&entry.path), "bytes": entry.bytes, "digests": digests})
                )?;
            }
            Ok(true)
        }
        ("create", [source, bag]) => {
            if writing.algorithms.is_empty() {
                writing.algorithms = WriteOptions::default().algorithms;
            }
            let mut writer = BagWriter::create(bag.as_str(), writing)?;
            for entry in walkdir::WalkDir::new(source.as_str()).sort_by_file_name() {
                let entry = entry?;
                if entry.file_type().is_file() {
                    let path = entry.path().strip_prefix(source.as_str())?.to_str().ok_or("a name isn't UTF-8")?;
                    writer.add(path, &mut File::open(entry.path())?, &[])?;
                }
            }
            writer.finish()?;
            Ok(true)
        }
        _ => Err("usage: bag validate|profile|inventory|create …".into()),
    }
}

fn show(report: &Report) -> bool {
    for finding in report.findings() {
        eprintln!("{finding}");
    }
    eprintln!(
        "{:?}: {} errors, {} warnings, {} files, {} bytes, {} digests checked",
        report.verdict(),
        report.errors(),
        report.warnings(),
        report.payload_files(),
        report.payload_bytes(),
        report.digests_checked()
    );
    matches!(report.verdict(), Verdict::Valid | Verdict::Complete)
}
