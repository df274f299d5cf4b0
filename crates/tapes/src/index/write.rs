//! Writing labels and indexes.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fulgurite_digest::Algorithm;
use quick_xml::escape::escape;

use super::{IndexHead, Label, TapeFile};

const CREATOR: &str = concat!("fulgurite ", env!("CARGO_PKG_VERSION"));
/// The version of the format.
const VERSION: &str = "2.4.0";

/// Writes the label of a volume.
///
/// # Errors
/// If `out` fails.
pub fn write_label(out: &mut dyn Write, label: &Label) -> io::Result<()> {
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<ltfslabel version=\"{VERSION}\">")?;
    writeln!(out, "  <creator>{CREATOR}</creator>")?;
    writeln!(out, "  <volumeuuid>{}</volumeuuid>", label.uuid)?;
    writeln!(out, "  <location><partition>b</partition></location>")?;
    writeln!(out, "  <partitions><index>a</index><data>b</data></partitions>")?;
    writeln!(out, "  <blocksize>{}</blocksize>", label.block_bytes)?;
    writeln!(out, "  <compression>false</compression>")?;
    writeln!(out, "</ltfslabel>")
}

/// A folder with the files and folders in it.
#[derive(Default)]
struct Folder<'a> {
    folders: BTreeMap<&'a str, Self>,
    files: BTreeMap<&'a str, &'a TapeFile>,
}

/// Writes an index.
///
/// # Errors
/// If `out` fails.
pub fn write_index(out: &mut dyn Write, head: &IndexHead, volume: &str, files: &[TapeFile]) -> io::Result<()> {
    let mut root = Folder::default();
    for file in files {
        let (folders, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let folder =
            folders.split('/').filter(|part| !part.is_empty()).fold(&mut root, |folder, part| folder.folders.entry(part).or_default());
        folder.files.insert(name, file);
    }
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<ltfsindex version=\"{VERSION}\">")?;
    writeln!(out, "  <creator>{CREATOR}</creator>")?;
    writeln!(out, "  <volumeuuid>{}</volumeuuid>", head.uuid)?;
    writeln!(out, "  <generationnumber>{}</generationnumber>", head.generation)?;
    writeln!(out, "  <location><partition>a</partition><startblock>0</startblock></location>")?;
    writeln!(out, "  <allowpolicyupdate>false</allowpolicyupdate>")?;
    write_folder(out, volume, &root)?;
    writeln!(out, "</ltfsindex>")
}

fn write_folder(out: &mut dyn Write, name: &str, folder: &Folder<'_>) -> io::Result<()> {
    write!(out, "<directory>{}<readonly>false</readonly><contents>", named(name))?;
    for (name, file) in &folder.files {
        write_file(out, name, file)?;
    }
    for (name, inner) in &folder.folders {
        write_folder(out, name, inner)?;
    }
    writeln!(out, "</contents></directory>")
}

fn write_file(out: &mut dyn Write, name: &str, file: &TapeFile) -> io::Result<()> {
    write!(out, "<file>{}<length>{}</length><readonly>false</readonly>", named(name), file.bytes)?;
    if let Some(digest) = file.digest.as_ref().filter(|digest| digest.algorithm() == Algorithm::Sha256) {
        write!(out, "<extendedattributes><xattr><key>ltfs.hash.sha256sum</key>")?;
        write!(out, "<value>{}</value></xattr></extendedattributes>", digest.hex())?;
    }
    write!(out, "<extentinfo>")?;
    for extent in &file.extents {
        write!(out, "<extent><partition>{}</partition><startblock>{}</startblock>", extent.partition.letter(), extent.block)?;
        write!(out, "<byteoffset>{}</byteoffset><bytecount>{}</bytecount>", extent.offset, extent.bytes)?;
        write!(out, "<fileoffset>{}</fileoffset></extent>", extent.file_offset)?;
    }
    writeln!(out, "</extentinfo></file>")
}

/// A name as an element. XML can't contain control characters, and some readers trim names.
fn named(name: &str) -> String {
    let is_plain = |character: char| !character.is_control() && character != '%' && character != ':' && character < '\u{fffe}';
    if name.chars().all(is_plain) && name.trim() == name {
        return format!("<name>{}</name>", escape(name));
    }
    let encoded: String =
        name.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect();
    format!("<name percentencoded=\"true\">{encoded}</name>")
}
