//! The overhead of an archive: every byte of its platters by purpose.

use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::SetDescription;
use fulgurite_domain::{Geometry, LABEL_BYTES, Medium};
use fulgurite_format::{Header, find_header};
use fulgurite_glass::decoder::DecoderKind;
use serde_json::json;

use crate::Session;
use crate::text::bytes;
use crate::voxels::Glass;

/// Bytes of platters by purpose; their sum is the length of all platter files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Overhead {
    content: u64,
    tags: u64,
    tables: u64,
    padding: u64,
    track_code: u64,
    group_code: u64,
    set_code: u64,
    labels: u64,
    headers: u64,
    /// What glass takes beyond all of that.
    glass_code: Option<u64>,
}

impl Overhead {
    /// The overhead of sets that contain `content` bytes as `stored` bytes.
    pub(crate) fn of(archive: &Archive, sets: &[SetDescription], content: u64, stored: u64) -> Result<Self> {
        let mut overhead = Self { content, tags: stored - content, ..Self::default() };
        let mut information_bytes = 0;
        for set in sets {
            let (information, platters) = (u64::from(set.shape.information), u64::from(set.shape.platters()));
            let geometry = set.geometry;
            let sector = u64::from(geometry.sector_bytes);
            let sectors = u64::from(geometry.physical_tracks()) * u64::from(geometry.track_sectors());
            let group_tracks = u64::from(geometry.physical_tracks() - geometry.information_tracks);
            information_bytes += information * geometry.content_bytes();
            overhead.tables += header(archive, set)?.members.iter().map(|member| member.table_bytes).sum::<u64>();
            overhead.track_code += information * u64::from(geometry.information_tracks) * u64::from(geometry.track_redundancy) * sector;
            // Redundancy tracks of large groups, including their own redundancy sectors.
            overhead.group_code += information * group_tracks * u64::from(geometry.track_sectors()) * sector;
            overhead.set_code += u64::from(set.shape.redundancy) * sectors * sector;
            overhead.labels += platters * sectors * LABEL_BYTES as u64;
            overhead.headers += platters * 3 * Geometry::HEADER_BYTES;
        }
        overhead.padding = information_bytes - stored - overhead.tables;
        if sets.iter().any(|set| set.medium == Medium::Glass) {
            let files: u64 = sets.iter().map(|set| u64::from(set.shape.platters()) * set.platter_bytes()).sum();
            overhead.glass_code = Some(files - overhead.platter_bytes());
        }
        Ok(overhead)
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let glass_code = self.glass_code.map(|bytes| ("glass code", "LDPC codes of sectors, and repetitions of headers", bytes));
        let parts = [
            ("content", "", self.content),
            ("encryption", "a tag for each frame of 64 KiB", self.tags),
            ("file tables", "names, sizes, times, digests, encrypted", self.tables),
            ("padding", "to whole tracks on every platter", self.padding),
            ("track code", "redundancy sectors of information tracks", self.track_code),
            ("group code", "redundancy tracks of large groups", self.group_code),
            ("set code", "redundancy platters, with the codes on them", self.set_code),
            ("sector labels", "address and checksum of each sector", self.labels),
            ("headers", "three copies on each platter", self.headers),
        ];
        parts.into_iter().chain(glass_code)
    }

    pub(crate) fn platter_bytes(&self) -> u64 {
        self.parts().map(|(_, _, bytes)| bytes).sum()
    }

    pub(crate) fn say(&self, session: &Session) {
        session.say("Space on platters");
        let share = |part: u64| 100.0 * part as f64 / self.content.max(1) as f64;
        for (name, what, part) in self.parts() {
            session.say(format!("  {name:14} {:>10} {:>7.2} %  {what}", bytes(part), share(part)).trim_end());
        }
        session.say(&format!(
            "  {:14} {:>10} {:>7.2} %  of the content",
            "in all",
            bytes(self.platter_bytes()),
            share(self.platter_bytes())
        ));
    }

    pub(crate) fn to_json(self) -> serde_json::Value {
        let mut value = json!({ "platter_bytes": self.platter_bytes() });
        for (name, _, part) in self.parts() {
            value[name.replace(' ', "_")] = json!(part);
        }
        value
    }
}

fn header(archive: &Archive, set: &SetDescription) -> Result<Header> {
    let path = super::damage::platter_file(archive, &set.platters[0]);
    let shown = || path.display().to_string();
    if set.medium == Medium::Glass {
        let glass = Glass::open(&path, None, DecoderKind::default())?;
        return Ok(find_header(glass.bytes(), |offset, buffer| glass.read_exact_at(buffer, offset)).with_context(shown)?.header);
    }
    let file = std::fs::File::open(&path).with_context(shown)?;
    let length = file.metadata()?.len();
    Ok(find_header(length, |offset, buffer| file.read_exact_at(buffer, offset)).with_context(shown)?.header)
}
