//! The command line as people type it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};

const EXIT_STATUS: &str = "\
Exit status:
  0  done, and everything that was claimed was checked
  1  something is lost, damaged or missing, or the command failed
  2  wrong command line
  3  nothing is known to be lost, but stores that are absent kept the answer incomplete
  4  nothing is known to be lost, but something that is there could not be read
Of several, 1 comes before 4, and 4 before 3.

With --json, standard output has results only, and each line on standard error is JSON too. Where the exit status isn't 0, the last of \
them is {\"error\": ..., \"status\": N}; notes and troubles have a member \"kind\".";

/// An archive that outlives its disks: objects on write-once platters, over several disks, with error correction in sectors, tracks, platters and
/// sets of platters.
#[derive(Debug, Parser)]
#[command(name = "fulgurite", version, max_term_width = 120, after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    /// Folder of the archive; without it, the current folder or the nearest above it that holds one
    #[arg(long, short = 'A', global = true, env = "FULGURITE_ARCHIVE", value_name = "FOLDER")]
    pub(crate) archive: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress bars, no summaries
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a new archive, and mark its stores
    Init(Init),
    /// Bring back an archive whose folder is lost, from its stores and a copy of its keys
    ///
    /// Stores may be at other paths than before, since their marks say which store each is, and some may be missing. Only what is on platters comes
    /// back: objects that were not flushed were in the lost folder, unless its staging is still there.
    Attach(Attach),
    /// Store files, folders or standard input; a name that is there already gets a new version
    ///
    /// Files whose size, mode and time of modification are those of the newest version of their
    /// name are skipped. If the ctime of such a file is later than that version, its content is
    /// compared. So repeating a put that was interrupted completes it.
    ///
    /// Without --flush, a put that finds staging full ends with an error; what it has stored until
    /// then is safe. With --flush it writes what is staged to platters and goes on, so only a file
    /// larger than staging can't be stored.
    ///
    /// A put removes nothing: names of files that don't exist any more keep their versions.
    ///
    /// A file that changes while it is read is read up to three times. If it still changes, it is
    /// skipped and named, and the exit status is 1. Stop its writer, or put a snapshot.
    Put(Put),
    /// List what is stored
    Ls(Ls),
    /// Restore a file or a folder
    Get(Get),
    /// Remove objects for ever, by destroying their keys
    Rm(Rm),
    /// Write all that is staged to platters, verify them, and free its room in staging
    Flush,
    /// Read all platters and staging, open all keys, and say what is damaged or lost
    Verify(Verify),
    /// Verify, and write damaged and missing platters anew from the rest of their sets
    ///
    /// Platters that are absent or unreadable are left alone, because they may come back whole.
    Scrub(Scrub),
    /// Show how much is stored and staged, and the state of the stores
    Status,
    /// List platters with their sets, stores and health
    Platters,
    /// Show what a platter file contains, without an archive
    Inspect(Inspect),
    /// Write one lost or damaged platter anew from its set
    Recover(Recover),
    /// Rebuild or check the catalogue, or give up lost versions
    #[command(subcommand)]
    Catalogue(Catalogue),
    /// Add or replace a store
    #[command(subcommand)]
    Store(Stores),
    /// Export, import or repair the keys
    #[command(subcommand)]
    Keys(Keys),
    /// Serve the archive over S3, and make one if there is none
    Serve(Serve),
    /// Manage the accounts of the S3 service and their access keys
    #[command(subcommand)]
    Accounts(Accounts),
    /// Archive a folder, destroy platters, and restore every byte
    Demo(Demo),
    /// Simulate libraries of glass platters with the digital twin
    #[command(subcommand)]
    Twin(crate::twin::Twin),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Where the archive's settings, catalogue, keys and staging go; without it, the current folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// A folder for platters, on a disk of its own; repeat the option for each disk. Without NAME, stores are called d1, d2 and so on
    #[arg(long = "store", required = true, value_name = "[NAME=]FOLDER")]
    pub(crate) stores: Vec<String>,
    /// Information and redundancy platters of a set: of 4+2, any two may be lost. Without it, chosen by the number of stores
    #[arg(long, value_name = "I+R", value_parser = parse_shape)]
    pub(crate) set: Option<(u16, u16)>,
    /// Store objects without encryption
    #[arg(long)]
    pub(crate) clear_text: bool,
    /// The most content that a platter takes, in MiB
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    pub(crate) platter_mib: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Where the archive's settings, catalogue, keys and staging go; without it, the current folder
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// A folder with platters of the archive; repeat the option for each. NAME is only needed for a store that has lost its mark
    #[arg(long = "store", required = true, value_name = "[NAME=]FOLDER")]
    pub(crate) stores: Vec<String>,
    /// A copy of the keys that `keys export` wrote; the option may be repeated. An archive without encryption needs none
    #[arg(long = "keys", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,
    /// The file with the passphrase, if the copy is sealed; repeat the option if there are several
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Vec<PathBuf>,
    /// Information and redundancy platters of new sets, such as 4+2. Without it, the same as in the newest set
    #[arg(long, value_name = "I+R", value_parser = parse_shape)]
    pub(crate) set: Option<(u16, u16)>,
    /// The most content that a new platter takes, in MiB
    #[arg(long, default_value_t = 1_024, value_name = "MIB")]
    pub(crate) platter_mib: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Put {
    /// Files and folders; - is standard input, and needs --name
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Store under this folder of the archive
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<OsString>,
    /// Store a single file, or standard input, under this name
    #[arg(long, value_name = "NAME", conflicts_with = "to")]
    pub(crate) name: Option<OsString>,
    /// Write all that is staged to platters as well
    #[arg(long)]
    pub(crate) flush: bool,
    /// Store unchanged files too: each gets a new version
    #[arg(long)]
    pub(crate) again: bool,
    /// Skip files by content and mode, not by time; reads all of them
    #[arg(long, conflicts_with = "again")]
    pub(crate) checksum: bool,
    /// Leave out what is mounted below each path
    #[arg(long)]
    pub(crate) one_file_system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// A name, or a folder of the archive
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// All versions, not only the newest
    #[arg(long)]
    pub(crate) versions: bool,
    /// Also show size, time, state and SHA-256
    #[arg(long, short)]
    pub(crate) long: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// A name, or a folder of the archive. NAME/ is the folder where both exist
    #[arg(value_name = "NAME", required_unless_present = "all")]
    pub(crate) name: Option<OsString>,
    /// Where to restore it; - is standard output. Without it, the last part of the name, in the current folder
    #[arg(value_name = "DESTINATION")]
    pub(crate) destination: Option<PathBuf>,
    /// Restore everything, into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["name", "version", "id", "range"])]
    pub(crate) all: Option<PathBuf>,
    /// This version instead of the newest
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// The version whose identifier begins so; `ls --versions --json` shows identifiers
    #[arg(long, value_name = "ID", conflicts_with = "version", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,
    /// Only these bytes: FIRST-LAST (from 0, both included), FIRST- to the end, or -COUNT for the last ones
    #[arg(long, value_name = "RANGE", value_parser = parse_range, allow_hyphen_values = true)]
    pub(crate) range: Option<ByteRange>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Names; folders need --recursive
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// Remove everything under a folder
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Only this version
    #[arg(long, value_name = "N", conflicts_with = "recursive")]
    pub(crate) version: Option<u64>,
    /// Only the version whose identifier begins so; `ls --versions --json` shows identifiers
    #[arg(long, value_name = "ID", conflicts_with_all = ["recursive", "version"], value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,
    /// Remove also what is under retention in governance mode. Nothing bypasses compliance mode or a legal hold
    #[arg(long)]
    pub(crate) bypass_governance_retention: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Also read every object and compare it with its SHA-256
    #[arg(long)]
    pub(crate) objects: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Scrub {
    /// Also write anew the platters of absent stores, onto stores without a platter of the same set
    #[arg(long)]
    pub(crate) replace_absent: bool,
    /// Also write anew the platters that can't be read because of I/O errors or permissions
    #[arg(long)]
    pub(crate) replace_unreadable: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A platter file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// List the entries of its file table
    #[arg(long)]
    pub(crate) files: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Identifier of the platter, or its beginning
    #[arg(value_name = "PLATTER")]
    pub(crate) platter: String,
    /// The store to write it to. Without it, its own, or one without a platter of the same set
    #[arg(long, value_name = "NAME")]
    pub(crate) store: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Catalogue {
    /// Make the catalogue anew from platters, staging and what the old catalogue knew
    Rebuild(Rebuild),
    /// Check the catalogue itself for damage
    Check,
    /// Give up versions that can't be listed because their key or their bytes are lost for good
    Forget(Forget),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Forget {
    /// Identifiers as `verify` names them
    #[arg(required_unless_present_any = ["sets", "unseen"], value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Give up a set of which more platters are missing than its redundancy, and no version is needed; the beginning of its
    /// identifier will do
    #[arg(long = "set", value_name = "SET", conflicts_with = "ids")]
    pub(crate) sets: Vec<String>,
    /// Give up what the last rebuild of the catalogue did not see, because there is nothing more or it is gone for good
    #[arg(long, conflicts_with_all = ["ids", "sets"])]
    pub(crate) unseen: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rebuild {
    /// Go on although stores are absent or unreadable. Of what is on them, the new catalogue knows only what the old one did
    #[arg(long)]
    pub(crate) without_unseen: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Stores {
    /// Set up one more folder for platters, or join a store of this archive again
    Add(StoreAdd),
    /// Set up an empty folder in place of a store whose disk is gone; `scrub` then writes its platters anew
    Replace(StoreReplace),
}

#[derive(Debug, Args)]
pub(crate) struct StoreAdd {
    /// The folder. Without NAME, the store gets the next free one
    #[arg(value_name = "[NAME=]FOLDER")]
    pub(crate) store: String,
}

#[derive(Debug, Args)]
pub(crate) struct StoreReplace {
    /// Name of the store. Its folder is the one in the settings, and must be empty
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Write the master key and all object keys to a file, to keep elsewhere
    Export(KeysExport),
    /// Add the keys of one or several exported copies to this archive
    Import(KeysImport),
    /// Save what a damaged key store still gives, add the keys of copies, and say what is missing
    ///
    /// A new key store takes the place of the damaged one, which is kept under another name. Keys of versions that were removed don't come back. The
    /// exit status is 1 if a version has no key.
    Repair(KeysRepair),
}

#[derive(Debug, Args)]
pub(crate) struct KeysExport {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Seal it with the passphrase in this file
    #[arg(long, value_name = "FILE", required_unless_present = "plain")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Write it without a passphrase: anyone with this file and the platters can read the archive
    #[arg(long, conflicts_with = "passphrase_file")]
    pub(crate) plain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KeysImport {
    /// Files that `keys export` wrote
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The file with the passphrase, if the copies are sealed; repeat the option if there are several
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KeysRepair {
    /// Files that `keys export` wrote, to take keys from as well
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The file with the passphrase, if the copies are sealed; repeat the option if there are several
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen, instead of the address in service.toml; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// A folder for platters, if there is no archive yet; repeat the option for each disk. Without it, three folders inside the archive's
    #[arg(long = "store", value_name = "[NAME=]FOLDER")]
    pub(crate) stores: Vec<String>,
    /// Write the log as JSON
    #[arg(long)]
    pub(crate) log_json: bool,
    /// If service.db is lost, begin with a new account and no buckets instead of the archive's copy of it
    #[arg(long)]
    pub(crate) without_copy: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Accounts {
    /// Make an account with an access key
    Add(AccountAdd),
    /// Make another access key for an account
    Key(AccountName),
    /// Revoke an access key
    Revoke(AccessKey),
    /// Set how much an account may restore
    Quota(AccountQuota),
    /// Give a bucket and all its objects to another account
    GiveBucket(GiveBucket),
    /// List accounts with their access keys and own quotas
    List,
}

#[derive(Debug, Args)]
pub(crate) struct GiveBucket {
    /// The bucket's name
    #[arg(value_name = "BUCKET")]
    pub(crate) bucket: String,
    /// The account's name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct AccountQuota {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Restores that may be open at once
    #[arg(long, value_name = "COUNT", required_unless_present_any = ["gib_a_day", "as_settings"])]
    pub(crate) open: Option<u64>,
    /// GiB that may be requested in a day, from midnight to midnight UTC
    #[arg(long, value_name = "GIB", required_unless_present_any = ["open", "as_settings"])]
    pub(crate) gib_a_day: Option<u64>,
    /// Use the quotas in service.toml again
    #[arg(long, conflicts_with_all = ["open", "gib_a_day"])]
    pub(crate) as_settings: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AccountAdd {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Let it do everything in every bucket
    #[arg(long)]
    pub(crate) admin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AccountName {
    /// Its name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct AccessKey {
    /// Its identifier, as `accounts list` shows it
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The folder to archive; without it, this project's source and some generated files
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Folder for the demonstration's archive; it must not exist
    #[arg(long, default_value = "demo-archive", value_name = "FOLDER")]
    pub(crate) into: PathBuf,
}

/// A part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From the first byte to the last, inclusive; without a last one, to the end.
    From(u64, Option<u64>),
    /// So many at the end.
    Last(u64),
}

impl ByteRange {
    /// The bytes meant, of `size`.
    pub(crate) fn within(self, size: u64) -> std::ops::Range<u64> {
        match self {
            Self::From(first, last) => first.min(size)..last.map_or(size, |last| last.saturating_add(1).min(size)).max(first.min(size)),
            Self::Last(count) => size.saturating_sub(count)..size,
        }
    }
}

fn parse_range(text: &str) -> Result<ByteRange, String> {
    let wrong = || "FIRST-LAST, FIRST- or -COUNT is expected, such as 0-99".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    match (first, last) {
        ("", count) => Ok(ByteRange::Last(number(count)?)),
        (first, "") => Ok(ByteRange::From(number(first)?, None)),
        (first, last) => match (number(first)?, number(last)?) {
            (first, last) if first <= last => Ok(ByteRange::From(first, Some(last))),
            _ => Err("the first byte comes after the last".to_owned()),
        },
    }
}

fn parse_shape(text: &str) -> Result<(u16, u16), String> {
    let numbers = text.split_once('+').and_then(|(i, r)| Some((i.trim().parse().ok()?, r.trim().parse().ok()?)));
    numbers.ok_or_else(|| "two numbers are expected, such as 4+2".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn ranges_mean_what_they_do_in_http() {
        let within = |text, size| parse_range(text).map(|range| range.within(size));
        assert_eq!(within("0-9", 100), Ok(0..10));
        assert_eq!(within("90-", 100), Ok(90..100));
        assert_eq!(within("-10", 100), Ok(90..100));
        assert_eq!(within("95-200", 100), Ok(95..100));
        assert_eq!(within("200-300", 100), Ok(100..100));
        assert_eq!(within("-500", 100), Ok(0..100));
        for text in ["", "5", "a-b", "9-1", "--1"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
