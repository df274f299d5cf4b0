//! The objects of an export: what can't be exported, and content as a reader.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::{Result, bail};
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::{VersionRow, Versions};
use fulgurite_archive::object::{ObjectReader, Opened, ReadError};
use fulgurite_digest::{Algorithm, Digest};
use fulgurite_domain::{Kind, ObjectName};
use serde_json::json;

use super::paths::Paths;
use crate::diagnostics;
use crate::gaps::{find_gaps, nothing_stored, refuse_gaps};
use crate::list::each_version;
use crate::text::{count, phrase};

/// Problems that are printed; all are counted.
const SHOWN_MAX: u64 = 100;
/// Content up to this size is read at once, and larger content beside the writing.
const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// Pieces that wait for the writer.
const AHEAD: usize = 8;

/// The objects below a name, in the order of their names.
pub(super) struct Objects<'a> {
    archive: &'a Archive,
    name: Vec<u8>,
}

/// What a survey found.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Files to be exported.
    pub(super) files: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// Empty folders and symbolic links that are left out.
    pub(super) left_out: u64,
}

impl<'a> Objects<'a> {
    /// The objects below `name`.
    ///
    /// # Errors
    /// If nothing is stored there, or the catalogue is incomplete, so that something could be
    /// missing.
    pub(super) fn below(archive: &'a Archive, name: Vec<u8>) -> Result<Self> {
        let shown = ObjectName(name.clone());
        if name.is_empty() {
            bail!("a name is needed: the folder of the archive to export");
        }
        refuse_gaps(find_gaps(archive, &name, Versions::Newest)?, &format!("something may be missing below {}", shown.display()))?;
        let below = [&name[..], b"/"].concat();
        if archive.catalogue().list(&below, Versions::Newest, None, 1)?.is_empty() {
            // Not in the match: its arms use the catalogue too.
            let newest = archive.catalogue().newest(&shown)?;
            match newest {
                Some(row) if row.record.kind.has_content() => {
                    bail!("{} is not a folder; `fulgurite get` restores single files", shown.display())
                }
                Some(row) if row.record.kind == Kind::Directory => bail!("{} is an empty folder", shown.display()),
                _ => return Err(nothing_stored(archive, &shown)?),
            }
        }
        Ok(Self { archive, name })
    }

    /// The name for people.
    pub(super) fn shown(&self) -> String {
        ObjectName(self.name.clone()).display()
    }

    /// The last part of the name.
    pub(super) fn last_part(&self) -> &[u8] {
        self.name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// The newest version of an object below the name.
    pub(super) fn newest(&self, below: &str) -> Result<Option<VersionRow>> {
        let name = ObjectName([&self.name[..], below.as_bytes()].join(&b'/'));
        let newest = self.archive.catalogue().newest(&name)?;
        Ok(newest.filter(|row| row.record.kind == Kind::File))
    }

    /// Looks at all objects for what can't be exported, before anything is written. `why_not` gives
    /// the reasons of a format why it can't contain a path.
    ///
    /// # Errors
    /// If anything can't be exported; it was printed.
    pub(super) fn survey(&self, format: &str, leave_out: bool, why_not: &dyn Fn(&str) -> Option<String>) -> Result<Survey> {
        let mut survey = Survey::default();
        let mut paths = Paths::default();
        let mut refused = 0_u64;
        let mut refuse = |row: &VersionRow, why: &str| {
            refused += 1;
            if refused <= SHOWN_MAX {
                let shown = row.record.name.display();
                let value = json!({ "kind": "not exportable", "name": shown, "why": why });
                diagnostics::write(&format!("can't be exported: {shown}: {why}"), &value);
            }
        };
        self.each_row(&mut |row, below| {
            let what = match row.record.kind {
                Kind::SymbolicLink => "a symbolic link",
                Kind::Directory => "an empty folder",
                // S3 clients make folders so.
                Kind::File if row.record.size == 0 && below.ends_with(b"/") => "an empty folder",
                _ => {
                    let why = match std::str::from_utf8(below) {
                        Err(_) => Some(format!("its name is not UTF-8, which {format} require")),
                        Ok(path) => {
                            paths.refuse(path).or_else(|| why_not(path)).map(|why| format!("{format} can't contain its name: {why}"))
                        }
                    };
                    match why {
                        Some(why) => refuse(&row, &format!("{why}; store it under another name")),
                        None => {
                            survey.files += 1;
                            survey.bytes += row.record.size;
                        }
                    }
                    return Ok(());
                }
            };
            if leave_out {
                survey.left_out += 1;
                if survey.left_out <= SHOWN_MAX {
                    let shown = row.record.name.display();
                    diagnostics::write(
                        &format!("left out: {shown}: it is {what}"),
                        &json!({ "kind": "left out", "name": shown, "why": format!("it is {what}") }),
                    );
                }
            } else {
                refuse(&row, &format!("it is {what}, which {format} can't contain; --leave-out exports the rest"));
            }
            Ok(())
        })?;
        let unshown = survey.left_out.saturating_sub(SHOWN_MAX);
        if unshown > 0 {
            diagnostics::note(&format!("{} left out too", phrase(unshown, "more object is", "more objects are")));
        }
        if refused > SHOWN_MAX {
            let more = refused - SHOWN_MAX;
            diagnostics::note(&format!("{} be exported", phrase(more, "more object can't", "more objects can't")));
        }
        if refused > 0 {
            bail!("nothing was exported, because {} below {} can't be", count(refused, "object"), self.shown());
        }
        Ok(survey)
    }

    /// Passes every file with its path below the name and its content to `each`. The version is the
    /// listed one; the content may be its successor's.
    pub(super) fn each_file(&self, each: &mut dyn FnMut(&str, &VersionRow, &mut Content<'_, '_>) -> Result<()>) -> Result<()> {
        let mut reader = ObjectReader::new(self.archive);
        self.each_row(&mut |row, below| {
            if !is_file(&row) {
                return Ok(());
            }
            // The survey has refused other names; this one was put since.
            let Ok(path) = std::str::from_utf8(below) else { bail!("{}: its name is not UTF-8", row.record.name.display()) };
            each(path, &row, &mut Content { reader: &mut reader, row: &row })
        })
    }

    fn each_row(&self, each: &mut dyn FnMut(VersionRow, &[u8]) -> Result<()>) -> Result<()> {
        let start = self.name.len() + 1;
        each_version(self.archive, &self.name, Versions::Newest, &mut |row| {
            // The object of the name itself is not below it.
            let Some(below) = row.record.name.0.get(start..).map(<[u8]>::to_vec) else { return Ok(()) };
            each(row, &below)
        })
    }
}

/// Whether it can be exported. S3 clients make folders of empty objects.
fn is_file(row: &VersionRow) -> bool {
    row.record.kind == Kind::File && !(row.record.size == 0 && row.record.name.0.ends_with(b"/"))
}

/// The digest of a version that the archive knows.
fn known(row: &VersionRow) -> Option<Digest> {
    Digest::new(Algorithm::Sha256, &row.record.sha256.0)
}

/// The content of an object.
pub(super) struct Content<'r, 'a> {
    reader: &'r mut ObjectReader<'a>,
    row: &'r VersionRow,
}

impl Content<'_, '_> {
    /// Passes the content to `consume`, as a reader that reaches its end only once the SHA-256 was
    /// found to be right, and the digests that the archive knows. Returns the version that was
    /// read: the listed one or, if that was replaced meanwhile, its successor. `None` if it was
    /// deleted meanwhile.
    ///
    /// # Errors
    /// Why the object can't be read, or what `consume` returns.
    pub(super) fn pass<T, E>(&mut self, consume: impl FnOnce(&mut dyn Read, &[Digest]) -> Result<T, E>) -> Result<Option<VersionRow>>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        // What is open stays readable if it is replaced while it is read, except for very large
        // objects in staging. Those fail then.
        let Some(opened) = self.reader.open_newest(self.row)? else { return Ok(None) };
        let row = opened.version();
        if !is_file(row) {
            bail!("it was replaced meanwhile, and is no longer a file; export again");
        }
        let known = known(row);
        self.pass_opened(&opened, |reader| consume(reader, known.as_slice()))?;
        Ok(Some(row.clone()))
    }

    fn pass_opened<T, E>(&mut self, opened: &Opened, consume: impl FnOnce(&mut dyn Read) -> Result<T, E>) -> Result<T>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let reader = &mut *self.reader;
        if opened.version().record.size <= WHOLE_BYTES_MAX {
            let mut whole = Vec::new();
            reader.read_whole(opened, &mut |bytes| {
                whole.extend_from_slice(bytes);
                Ok(())
            })?;
            return Ok(consume(&mut &whole[..])?);
        }
        let (sender, receiver) = sync_channel(AHEAD);
        let (consumed, failure) = std::thread::scope(|scope| {
            scope.spawn(move || {
                // If the consumer has given up, nothing needs the rest.
                let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "it is not needed any more");
                let result = reader.read_whole(opened, &mut |bytes| sender.send(Piece::Bytes(bytes.to_vec())).map_err(gone));
                let _ = sender.send(Piece::End(result));
            });
            let mut pieces = Pieces { receiver, current: Vec::new(), at: 0, is_ended: false, failure: None };
            let consumed = consume(&mut pieces);
            (consumed, pieces.failure)
        });
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(consumed?),
        }
    }
}

enum Piece {
    Bytes(Vec<u8>),
    End(Result<(), ReadError>),
}

/// Pieces of content as a reader.
struct Pieces {
    receiver: Receiver<Piece>,
    current: Vec<u8>,
    at: usize,
    is_ended: bool,
    failure: Option<ReadError>,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            if self.is_ended {
                return Ok(0);
            }
            match self.receiver.recv() {
                Ok(Piece::Bytes(bytes)) => (self.current, self.at) = (bytes, 0),
                Ok(Piece::End(Ok(()))) => self.is_ended = true,
                Ok(Piece::End(Err(error))) => {
                    let said = io::Error::other(error.to_string());
                    self.failure = Some(error);
                    return Err(said);
                }
                Err(_) => return Err(io::Error::other("reading the archive ended early")),
            }
        }
        let part = &self.current[self.at..];
        let bytes = part.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&part[..bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_archive::settings::Settings;
    use fulgurite_archive::watch::Unwatched;
    use fulgurite_archive::{Access, Source};
    use fulgurite_domain::ArchiveId;

    use super::*;

    fn pieces(sent: Vec<Piece>) -> Pieces {
        let (sender, receiver) = sync_channel(sent.len());
        sent.into_iter().for_each(|piece| sender.send(piece).expect("the queue has room"));
        Pieces { receiver, current: Vec::new(), at: 0, is_ended: false, failure: None }
    }

    fn put(archive: &Archive, name: &str, content: &[u8]) -> VersionRow {
        let name = ObjectName(name.into());
        let source = Source::Stream { reader: Box::new(io::Cursor::new(content.to_vec())), name: name.clone() };
        archive.put([source].into_iter(), &Unwatched).expect("put");
        archive.catalogue().newest(&name).expect("a catalogue").expect("it was put")
    }

    #[test]
    fn objects_that_are_replaced_during_an_export_are_their_successors_and_deleted_ones_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().join("archive");
        let text = format!(
            "[archive]\nid = \"{}\"\n[set]\ninformation = 1\nredundancy = 0\n[[store]]\nname = \"s\"\npath = \"s\"\n",
            ArchiveId([7; 16])
        );
        Archive::init(&home, &Settings::parse(&text, &home).expect("settings")).expect("made");
        let archive = Archive::open(&home, Access::Write).expect("it opens");
        let large = vec![5; WHOLE_BYTES_MAX as usize + 1];
        let listed: Vec<VersionRow> = [("t/0", &b"kept"[..]), ("t/1", b"old"), ("t/2", &large), ("t/3", b"old"), ("t/4", b"old")]
            .into_iter()
            .map(|(name, content)| put(&archive, name, content))
            .collect();
        let objects = Objects::below(&archive, b"t".to_vec()).expect("there are some");
        let mut exported = Vec::new();
        objects
            .each_file(&mut |path, _, content| {
                if path == "0" {
                    put(&archive, "t/1", b"its successor");
                    archive.remove(&listed[1..2]).expect("removed");
                    archive.remove(&listed[3..4]).expect("removed");
                    archive.flush(&Unwatched).expect("a flush");
                }
                let (mut all, mut digests) = (Vec::new(), Vec::new());
                let read = content.pass(|reader, known| {
                    if path == "2" {
                        put(&archive, "t/2", b"it was open before");
                        archive.remove(&listed[2..3]).expect("removed");
                        archive.flush(&Unwatched).expect("a flush");
                    }
                    digests = known.to_vec();
                    reader.read_to_end(&mut all)
                })?;
                if let Some(row) = read {
                    assert_eq!((all.len() as u64, digests), (row.record.size, known(&row).into_iter().collect()));
                    exported.push((path.to_owned(), all));
                }
                Ok(())
            })
            .expect("exported");
        let file = |path: &str, content: &[u8]| (path.to_owned(), content.to_vec());
        assert!(exported == [file("0", b"kept"), file("1", b"its successor"), file("2", &large), file("4", b"old")]);
    }

    #[test]
    fn content_ends_only_after_it_was_found_right() {
        let bytes = |text: &str| Piece::Bytes(text.as_bytes().to_vec());
        let mut all = String::new();
        pieces(vec![bytes("con"), bytes(""), bytes("tent"), Piece::End(Ok(()))]).read_to_string(&mut all).expect("it is right");
        assert_eq!(all, "content");

        let mut wrong = pieces(vec![bytes("content"), Piece::End(Err(ReadError::NoKey))]);
        assert!(wrong.read_to_end(&mut Vec::new()).is_err());
        assert!(matches!(wrong.failure, Some(ReadError::NoKey)));
        assert!(pieces(vec![bytes("content")]).read_to_end(&mut Vec::new()).is_err(), "a reader that vanished has verified nothing");
    }
}
