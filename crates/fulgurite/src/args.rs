//! The command line: subcommands, options and their help texts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use fulgurite_domain::SetShape;
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Preset;

use crate::channel::one_of;

const EXIT_STATUS: &str = "\
Exit status:
  0  done, and everything claimed was checked
  1  something is lost, damaged or missing, or the command failed
  2  wrong command line, or an invalid scenario, plan or journal
  3  nothing is known to be lost, but the answer is incomplete: stores are absent, or checks are missing
  4  nothing is known to be lost, but something present could not be read
If several apply, 1 takes precedence over 4, and 4 over 3.

With --json, standard output contains only results, and each line on standard error is JSON too. If the exit status is not 0, the last \
of these lines is {\"error\": ..., \"status\": N}; notes and problems have a \"kind\" member.";

/// An archive that outlives its disks: objects on write-once platters, spread over several disks,
/// with error correction in sectors, tracks, platters and sets of platters.
#[derive(Debug, Parser)]
#[command(name = "fulgurite", version, max_term_width = 120, after_help = EXIT_STATUS)]
pub(crate) struct Cli {
    /// Folder of the archive. Default: the current folder, or its nearest parent with an archive
    #[arg(long, short = 'A', global = true, env = "FULGURITE_ARCHIVE", value_name = "FOLDER")]
    pub(crate) archive: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no progress bars and no summaries
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands that use no archive. They accept `--archive`, as all commands do, but their help
/// doesn't show it.
const WITHOUT_ARCHIVE: [&str; 9] = ["inspect", "decode-worker", "demo", "bench", "ingest", "retrieve", "migrate", "twin", "channel"];

impl Cli {
    /// The arguments of this process.
    ///
    /// # Errors
    /// If they are wrong, or ask for help or the version.
    pub(crate) fn parsed() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::with_hidden().try_get_matches()?)
    }

    fn with_hidden() -> clap::Command {
        let command = Self::command();
        let archive = command.get_arguments().find(|argument| argument.get_id() == "archive").cloned();
        let archive = archive.expect("it is a field of this struct").hide(true);
        // A command's own argument takes precedence over the global one of the same name.
        WITHOUT_ARCHIVE.into_iter().fold(command, |command, name| command.mut_subcommand(name, |of| of.arg(archive.clone())))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create an archive and mark its stores
    Init(Init),
    /// Recreate a lost archive folder from the archive's stores and a copy of its keys
    ///
    /// Stores may have moved to other paths, because each is identified by its mark, and some may
    /// be missing. Only objects on platters come back: objects that were never flushed are lost
    /// with the folder, unless its staging still exists.
    Attach(Attach),
    /// Store files, folders or standard input; an existing name gets a new version
    ///
    /// Skips files whose size, mode and modification time match the newest version of their name.
    /// If the ctime of such a file is later than that version, put compares its content. Repeating
    /// an interrupted put therefore completes it.
    ///
    /// Without --flush, put fails when staging is full; everything stored until then is safe. With
    /// --flush, put writes the staged objects to platters and continues, so only a file larger than
    /// staging can't be stored.
    ///
    /// Put removes nothing: names of files that no longer exist keep their versions.
    ///
    /// If a file changes while it is read, put reads it up to three times. If it still changes, put
    /// skips it, prints its name and exits with status 1. Stop its writer, or put a snapshot.
    Put(Put),
    /// List objects
    Ls(Ls),
    /// Show when each copy of an object was last verified, and what was found
    ///
    /// Shows the copy in staging and the platters that hold parts of the object, with the last time
    /// at which each was read in full and found good, and how many platters of each set are to
    /// spare. Reads no platter: `verify`, `scrub` and the server's own scrub do, and record it.
    Fixity(Fixity),
    /// Restore a file or a folder
    Get(Get),
    /// Remove objects permanently by destroying their keys
    Rm(Rm),
    /// Store the files of BagIt bags and OCFL objects, validated
    #[command(subcommand)]
    Import(crate::import::Import),
    /// Write objects as a BagIt bag or an OCFL object
    #[command(subcommand)]
    Export(crate::export::Export),
    /// Write all staged objects to platters, verify the platters, and free the space in staging
    Flush,
    /// Check the catalogue, read all platters and staging, open all keys, and report what is
    /// damaged or lost
    Verify {
        /// Also read every object and compare it with its SHA-256
        #[arg(long)]
        objects: bool,
    },
    /// Verify, then recover damaged and missing platters from the rest of their sets
    ///
    /// Absent or unreadable platters are left alone, because they may come back intact. A platter
    /// whose own store is full, or can't be written to, goes to the store with the most free space
    /// that has no platter of its set.
    Scrub {
        /// Also recover the platters of absent stores, onto stores without a platter of the same
        /// set
        #[arg(long)]
        replace_absent: bool,
        /// Also recover platters that can't be read because of I/O errors or permissions
        #[arg(long)]
        replace_unreadable: bool,
    },
    /// Show how much is stored and staged, and the state of the stores
    Status,
    /// List platters with their sets, stores and health
    Platters,
    /// Show what a platter file contains, without an archive
    ///
    /// Reads the whole platter and counts lost sectors. For a platter of glass, it can draw
    /// pictures instead:
    ///
    /// --images FOLDER reads one sector, and writes eight pictures named track-T-sector-S-NAME.png,
    /// with 4 x 4 pixels for each voxel. frame-0 to frame-4: the images of the camera; white is the
    /// brightest pixel of all five. azimuth: what the microscope's formulas get from them; the hue
    /// is the azimuth (red 0, green 60, blue 120 degrees), the brightness the retardance, full at
    /// the largest one that is written.
    /// confidence: the decoder's probability of the symbol that it chose, from dark purple (a
    /// guess) through green to yellow (99.9 % and more). errors: where that symbol differs from the
    /// one in the platter's file: blue if the azimuth is wrong, orange if the retardance is, black
    /// if both are. A lost sector is shown like any other; the exit status is then 1.
    ///
    /// --health FILE reads all sectors and draws the margin of each: the information that the
    /// decoder gets from its images beyond what the code needs. Rows are tracks, columns are
    /// sectors, dark is a large margin, light a small one; lost sectors are orange, crossed out.
    /// Headers are left out.
    ///
    /// Existing files are never replaced.
    Inspect(Inspect),
    /// Recover one lost or damaged platter from its set
    Recover {
        /// Identifier of the platter, or the beginning of it
        platter: String,
        /// Store to write it to. Default: the platter's own store or, if it is full or can't be
        /// written to, one without a platter of the same set
        #[arg(long, value_name = "NAME")]
        store: Option<String>,
    },
    /// Rebuild or check the catalogue, or give up lost versions
    #[command(subcommand)]
    Catalogue(Catalogue),
    /// List, add or replace stores
    #[command(subcommand)]
    Store(Stores),
    /// Export, import or repair the keys
    #[command(subcommand)]
    Keys(Keys),
    /// Serve the archive over S3, creating one if none exists
    Serve(Serve),
    /// Decode images of glass for archives, through a folder that their settings name
    ///
    /// Any number of workers, on several machines, can share a folder: mount it on each of them,
    /// and set decode.folder in fulgurite.toml. The worker runs until Ctrl-C, SIGTERM or SIGHUP,
    /// and finishes the jobs that it has begun.
    DecodeWorker(DecodeWorker),
    /// List open restores of a running server, what they wait for, and when they should be done
    ///
    /// Lists the 1,000 most urgent ones. Without a library (see service.toml), restores run one
    /// after another and have no estimates.
    Restores,
    /// Show or change the robotic library of a running server
    #[command(subcommand)]
    Library(Library),
    /// Manage the accounts of the S3 service and their access keys
    #[command(subcommand)]
    Accounts(Accounts),
    /// Check copies of files wherever they are: folders, object stores, servers
    ///
    /// An audit knows which files should be at which nodes, reads each copy within a stated time,
    /// and names nodes that become slow. It needs no archive. Its exit status is 1 if a copy is
    /// lost or wrong, 4 if one could not be read, and 3 if one was never verified, is overdue, or
    /// is at a node that was given up.
    Audit(Box<crate::audit::Audit>),
    /// Archive a folder, destroy platters, and restore every byte
    ///
    /// On glass, the demonstration also shows how a sector becomes symbols, images, probabilities
    /// and bytes again, and writes pictures of it and of a damaged platter to the folder `pictures`
    /// in the demonstration's folder; `inspect --help` explains them.
    Demo {
        /// Folder to archive. Default: this project's source, or for glass the folder
        /// docs/decisions in it, and some generated files
        folder: Option<PathBuf>,
        /// Folder for the demonstration's archive; it must not exist
        #[arg(long, default_value = "demo-archive", value_name = "FOLDER")]
        into: PathBuf,
        /// What platters are made of: files (disk) or emulated glass, with fewer files by default,
        /// because each MiB takes minutes of computing
        #[arg(long, default_value = "disk", value_name = "MEDIUM", value_parser = ["disk", "glass"])]
        medium: String,
    },
    /// Load-test S3 servers side by side
    ///
    /// Clients put, get, replace or delete objects as fast as the server answers, or at a given
    /// rate. Every byte that is read is checked. Needs no archive. The objects stay in the bucket.
    Bench(Box<crate::bench::Bench>),
    /// Put alerts from Kafka, and files from folders, into a bucket
    Ingest(crate::ingest::Ingest),
    /// Retrieve the objects of a long list from a server
    ///
    /// Asks the server where the objects are, sorts the list by location, and retrieves it in
    /// parts: tar archives or Parquet files. The archive reads objects in that order fastest. Needs
    /// a Fulgurite server, but no local archive.
    Retrieve(Box<crate::retrieve::Retrieve>),
    /// Migrate files from one medium or provider to another, or plan it
    #[command(subcommand)]
    Migrate(crate::migrate::Migrate),
    /// Simulate libraries of glass platters with the digital twin
    #[command(subcommand)]
    Twin(crate::twin::Twin),
    /// Measure how much noise the codes and decoders of the glass medium tolerate
    #[command(subcommand)]
    Channel(crate::channel::Channel),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Folder for the archive's settings, catalogue, keys and staging. Default: the current folder
    pub(crate) folder: Option<PathBuf>,
    /// A folder for platters, on a disk of its own; repeat the option for each disk. Stores without
    /// a NAME are called d1, d2 and so on
    #[arg(long = "store", required = true, value_name = "[NAME=]FOLDER")]
    pub(crate) stores: Vec<String>,
    /// Information and redundancy platters of a set: a set of 4+2 survives the loss of any two.
    /// Default: chosen by the number of stores
    #[arg(long, value_name = "I+R", value_parser = parse_shape)]
    pub(crate) set: Option<SetShape>,
    /// Store objects without encryption
    #[arg(long)]
    pub(crate) clear_text: bool,
    /// What platters are made of: files (disk), or emulated glass, which is slow and meant for
    /// experiments
    #[arg(long, default_value = "disk", value_name = "MEDIUM", value_parser = ["disk", "glass"])]
    pub(crate) medium: String,
    /// Maximum content of a platter, in MiB. Default: 1024, or 10 for glass
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    pub(crate) platter_mib: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Library {
    /// Show each shuttle and drive, and how many requests and platters wait
    Status,
    /// Put an emulated machine out of order until it is repaired
    ///
    /// A shuttle stops where it is and blocks the slots near it; restores that need platters there
    /// read other platters of the set instead. A drive keeps its platters.
    Fault(Machine),
    /// Repair a machine that is out of order
    ///
    /// Fails until the library has detected the fault: 30 s of its time on average.
    Repair(Machine),
}

#[derive(Debug, Args)]
pub(crate) struct Machine {
    /// The kind of machine
    #[arg(value_parser = ["shuttle", "drive"])]
    pub(crate) kind: String,
    /// Its number, counted from 0
    pub(crate) number: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A platter file
    pub(crate) file: PathBuf,
    /// List the entries of its file table
    #[arg(long, conflicts_with = "pictures")]
    pub(crate) files: bool,
    /// Write pictures of one sector of a glass platter into this folder, and tell how well the
    /// sector reads
    #[arg(long, value_name = "FOLDER", group = "pictures")]
    pub(crate) images: Option<PathBuf>,
    /// Track of the sector, counted from 0, tracks of group redundancy included
    #[arg(long, value_name = "T", default_value_t = 0, requires = "images", conflicts_with = "health")]
    pub(crate) track: u32,
    /// The sector in its track, counted from 0, redundancy sectors included
    #[arg(long, value_name = "S", default_value_t = 0, requires = "images", conflicts_with = "health")]
    pub(crate) sector: u16,
    /// Write a map of the margins of all sectors of a glass platter, as PNG
    #[arg(long, value_name = "FILE", group = "pictures")]
    pub(crate) health: Option<PathBuf>,
    /// Noise of reading. Default: the preset with which the platter was written
    #[arg(long, value_name = "PRESET", value_parser = one_of(Preset::ALL, Preset::name), requires = "pictures")]
    pub(crate) noise: Option<Preset>,
    /// What decodes the images
    #[arg(long, value_parser = one_of(DecoderKind::ALL, DecoderKind::name), default_value = DecoderKind::default().name(), requires = "pictures")]
    pub(crate) decoder: DecoderKind,
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Folder for the archive's settings, catalogue, keys and staging. Default: the current folder
    pub(crate) folder: Option<PathBuf>,
    /// A folder with platters of the archive; repeat the option for each folder. Only a store that
    /// has lost its mark needs NAME
    #[arg(long = "store", required = true, value_name = "[NAME=]FOLDER")]
    pub(crate) stores: Vec<String>,
    /// A copy of the keys, written by `keys export`; the option may be repeated. An unencrypted
    /// archive needs none
    #[arg(long = "keys", value_name = "FILE")]
    pub(crate) keys: Vec<PathBuf>,
    /// File with the passphrase, if the copy is sealed; repeat the option for several passphrases
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Vec<PathBuf>,
    /// Information and redundancy platters of new sets, such as 4+2. Default: as in the newest set
    #[arg(long, value_name = "I+R", value_parser = parse_shape)]
    pub(crate) set: Option<SetShape>,
    /// Maximum content of a new platter, in MiB. Default: 1024, or 10 for glass
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    pub(crate) platter_mib: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Put {
    /// Files and folders; - means standard input and requires --name
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Store under this folder of the archive
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<OsString>,
    /// Store a single file, or standard input, under this name
    #[arg(long, conflicts_with = "to")]
    pub(crate) name: Option<OsString>,
    /// Also write all staged objects to platters
    #[arg(long)]
    pub(crate) flush: bool,
    /// Store unchanged files too, each as a new version
    #[arg(long)]
    pub(crate) again: bool,
    /// Skip files by comparing content and mode instead of times; reads every file
    #[arg(long, conflicts_with = "again")]
    pub(crate) checksum: bool,
    /// Skip file systems mounted below each path
    #[arg(long)]
    pub(crate) one_file_system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// A name, or a folder of the archive
    pub(crate) name: Option<OsString>,
    /// List all versions, not only the newest
    #[arg(long)]
    pub(crate) versions: bool,
    /// Also show size, time, state and SHA-256
    #[arg(long, short)]
    pub(crate) long: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Fixity {
    /// A name, or a folder of the archive
    pub(crate) name: OsString,
    /// Show all versions, not only the newest
    #[arg(long)]
    pub(crate) versions: bool,
    /// Show only this version
    #[arg(long, value_name = "N", conflicts_with = "versions")]
    pub(crate) version: Option<u64>,
    /// Show only the version whose identifier begins with ID; `ls --versions --json` shows
    /// identifiers
    #[arg(long, conflicts_with_all = ["versions", "version"], value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// A name, or a folder of the archive. If both exist, NAME/ means the folder
    #[arg(required_unless_present = "all")]
    pub(crate) name: Option<OsString>,
    /// Where to restore it; - means standard output. Default: the last part of the name, in the
    /// current folder
    pub(crate) destination: Option<PathBuf>,
    /// Restore everything into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["name", "version", "id", "range"])]
    pub(crate) all: Option<PathBuf>,
    /// Restore this version instead of the newest
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u64>,
    /// Restore the version whose identifier begins with ID; `ls --versions --json` shows
    /// identifiers
    #[arg(long, conflicts_with = "version", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,
    /// Restore only these bytes: FIRST-LAST (from 0, both included), FIRST- to the end, or -COUNT
    /// for the last COUNT bytes. Fails if the object has none of them
    #[arg(long, value_parser = parse_range, allow_hyphen_values = true)]
    pub(crate) range: Option<ByteRange>,
    /// Replace existing files
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// Names to remove; folders require --recursive
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
    /// Remove everything under a folder
    #[arg(long, short)]
    pub(crate) recursive: bool,
    /// Remove only this version
    #[arg(long, value_name = "N", conflicts_with = "recursive")]
    pub(crate) version: Option<u64>,
    /// Remove only the version whose identifier begins with ID; `ls --versions --json` shows
    /// identifiers
    #[arg(long, conflicts_with_all = ["recursive", "version"], value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id: Option<String>,
    /// Also remove versions under retention in governance mode. Nothing bypasses compliance mode or
    /// a legal hold
    #[arg(long)]
    pub(crate) bypass_governance_retention: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DecodeWorker {
    /// The folder; an empty one is prepared
    pub(crate) folder: PathBuf,
    /// Jobs to decode at once. Default: the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Run the decoder `unet` on a graphics processor; the program must be built with the feature
    /// `gpu`
    #[arg(long)]
    pub(crate) gpu: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Catalogue {
    /// Rebuild the catalogue from platters, staging and the old catalogue
    Rebuild {
        /// Continue even if stores are absent or unreadable. Of their content, the new catalogue
        /// contains only what the old one did
        #[arg(long)]
        without_unseen: bool,
    },
    /// Check the catalogue itself for damage
    Check,
    /// Give up versions that can't be listed because their key or their bytes are lost for good
    Forget(Forget),
}

#[derive(Debug, Args)]
pub(crate) struct Forget {
    /// Identifiers, as `verify` prints them
    #[arg(required_unless_present_any = ["sets", "unseen"], value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Give up a set if no version needs it, and more of its platters are missing, or damaged
    /// beyond their own codes, than its redundancy covers; the beginning of its identifier is
    /// enough
    #[arg(long = "set", value_name = "SET", conflicts_with = "ids")]
    pub(crate) sets: Vec<String>,
    /// Give up what the last rebuild of the catalogue did not see, because nothing is there or it
    /// is gone for good
    #[arg(long, conflicts_with_all = ["ids", "sets"])]
    pub(crate) unseen: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Stores {
    /// Add a folder for platters, or add a store of this archive again
    Add {
        /// The folder. Without NAME, the store gets the next free name
        #[arg(value_name = "[NAME=]FOLDER")]
        store: String,
    },
    /// List stores with their folders, states, platters and space, and what is wrong with them
    List,
    /// Set up an empty folder in place of a store whose disk is gone, or restore a lost mark
    ///
    /// `scrub` then recovers the platters of a disk that is gone. If only the store's mark (the
    /// file fulgurite-store) is lost or damaged, the mark is written again and the platters are
    /// kept, provided that the catalogue expects them on this store, or expects none there and
    /// knows no store for them.
    Replace {
        /// Name of the store. Its folder, as given in the settings, must be empty or have the
        /// store's platters
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Write the master key and all object keys to a file, to be kept elsewhere
    Export(KeysExport),
    /// Add the keys of one or more exported copies to this archive
    Import {
        /// Files that `keys export` wrote
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// File with the passphrase, if the copies are sealed; repeat the option for several
        /// passphrases
        #[arg(long, value_name = "FILE")]
        passphrase_file: Vec<PathBuf>,
    },
    /// Salvage a damaged key store, add keys from copies, and report missing keys
    ///
    /// A new key store replaces the damaged one, which is kept under another name. Keys of removed
    /// versions don't come back, except where the removals can't be read. The exit status is 1 if
    /// any version has no key or a copy is damaged.
    Repair {
        /// Files that `keys export` wrote, as further sources of keys
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// File with the passphrase, if the copies are sealed; repeat the option for several
        /// passphrases
        #[arg(long, value_name = "FILE")]
        passphrase_file: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("protection").required(true).args(["passphrase_file", "plain"])))]
pub(crate) struct KeysExport {
    /// The file to write; it must not exist
    pub(crate) file: PathBuf,
    /// Seal it with the passphrase in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Write it without a passphrase: anyone with this file and the platters can read the archive
    #[arg(long)]
    pub(crate) plain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on, overriding service.toml; port 0 picks any free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// A folder for the platters of a new archive; repeat the option for each disk. Default: three
    /// folders inside the archive's folder. An existing archive must have these stores
    #[arg(long = "store", value_name = "[NAME=]FOLDER")]
    pub(crate) stores: Vec<String>,
    /// Fail if there is no archive, instead of creating one. For units and scripts: the disk of an
    /// existing archive may not be mounted
    #[arg(long)]
    pub(crate) existing: bool,
    /// Write the log as JSON
    #[arg(long)]
    pub(crate) log_json: bool,
    /// If service.db is lost, start with a new account and no buckets, whether or not the archive
    /// has a state backup
    #[arg(long)]
    pub(crate) without_copy: bool,
    /// If service.db is older than the archive's state backup, use it anyway, without the later
    /// changes. Needed once: later starts use it too
    #[arg(long)]
    pub(crate) without_newer_copy: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Accounts {
    /// Create an account with an access key
    Add {
        /// Name of the account
        name: String,
        /// Give the account full access to every bucket
        #[arg(long)]
        admin: bool,
    },
    /// Create another access key for an account
    Key {
        /// Name of the account
        name: String,
    },
    /// Revoke an access key
    Revoke {
        /// Identifier of the access key, as `accounts list` shows it
        key: String,
    },
    /// Set the restore quota of an account
    Quota {
        /// Name of the account
        name: String,
        /// Maximum number of open restores
        #[arg(long, value_name = "COUNT", required_unless_present_any = ["gib_a_day", "as_settings"])]
        open: Option<u64>,
        /// Maximum GiB requested in a day, from midnight to midnight UTC
        #[arg(long, value_name = "GIB", required_unless_present_any = ["open", "as_settings"])]
        gib_a_day: Option<u64>,
        /// Use the quotas in service.toml again
        #[arg(long, conflicts_with_all = ["open", "gib_a_day"])]
        as_settings: bool,
    },
    /// Give a bucket and all its objects to another account
    GiveBucket {
        /// The bucket's name
        bucket: String,
        /// The account's name
        name: String,
    },
    /// List accounts with their access keys and individual quotas
    List,
}

/// A byte range of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From the first byte to the last, inclusive, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl ByteRange {
    /// The range within an object of `size` bytes; parts beyond its end are cut off.
    pub(crate) fn within(self, size: u64) -> std::ops::Range<u64> {
        match self {
            Self::From(first, last) => first.min(size)..last.map_or(size, |last| last.saturating_add(1).min(size)).max(first.min(size)),
            Self::Last(count) => size.saturating_sub(count)..size,
        }
    }
}

fn parse_range(text: &str) -> Result<ByteRange, &'static str> {
    const WRONG: &str = "expected FIRST-LAST, FIRST- or -COUNT, such as 0-99";
    let number = |text: &str| text.parse::<u64>().map_err(|_| WRONG);
    match text.split_once('-').ok_or(WRONG)? {
        ("", count) => Ok(ByteRange::Last(number(count)?)),
        (first, "") => Ok(ByteRange::From(number(first)?, None)),
        (first, last) => match (number(first)?, number(last)?) {
            (first, last) if first <= last => Ok(ByteRange::From(first, Some(last))),
            _ => Err("the first byte comes after the last"),
        },
    }
}

fn parse_shape(text: &str) -> Result<SetShape, &'static str> {
    let numbers = text.split_once('+').and_then(|(i, r)| Some((i.trim().parse().ok()?, r.trim().parse().ok()?)));
    let (information, redundancy) = numbers.ok_or("expected two numbers, such as 4+2")?;
    Ok(SetShape { information, redundancy })
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
    fn ranges_have_http_semantics() {
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
