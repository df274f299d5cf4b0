//! Reading labels and indexes, one file after another: an index may have millions.

use std::io::BufRead;

use fulgurite_digest::{Algorithm, Digest};
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{DEPTH_MAX, Extent, IndexError, IndexHead, Label, Partition, TapeFile};

/// Digests that LTFS indexes may state, the strongest first, as names of extended attributes.
const DIGESTS: [(&str, Algorithm); 4] = [
    ("ltfs.hash.sha512sum", Algorithm::Sha512),
    ("ltfs.hash.sha256sum", Algorithm::Sha256),
    ("ltfs.hash.sha1sum", Algorithm::Sha1),
    ("ltfs.hash.md5sum", Algorithm::Md5),
];

/// The largest length of a file that is believed: 8 PiB.
const BYTES_MAX: u64 = 1 << 53;

/// Reads the label of a volume.
///
/// # Errors
/// [`IndexError`].
pub fn read_label(xml: impl BufRead) -> Result<Label, IndexError> {
    let mut nodes = Nodes::new(xml, "ltfslabel");
    let (mut uuid, mut block_bytes) = (None, None);
    while let Some(node) = nodes.next()? {
        match node {
            Node::Close { depth: 1, name, text, .. } if name == "volumeuuid" => uuid = Some(text),
            Node::Close { depth: 1, name, text, .. } if name == "blocksize" => block_bytes = positive(&text),
            _ => {}
        }
    }
    let of = || "the label".to_owned();
    Ok(Label { uuid: filled(uuid, "volumeuuid", of)?, block_bytes: block_bytes.ok_or_else(|| missing("blocksize", of))? })
}

/// Reads an index, and passes each file to `each` until it returns false. Symbolic links and empty
/// folders are left out. Returns what the index says of its volume.
///
/// # Errors
/// [`IndexError`]. `each` may have received files before.
pub fn read_index(xml: impl BufRead, each: &mut dyn FnMut(TapeFile) -> bool) -> Result<IndexHead, IndexError> {
    let mut nodes = Nodes::new(xml, "ltfsindex");
    let (mut uuid, mut generation) = (None, None);
    let mut folders = Folders::default();
    while let Some(node) = nodes.next()? {
        match node {
            Node::Close { depth: 1, name, text, .. } if name == "volumeuuid" => uuid = Some(text),
            Node::Close { depth: 1, name, text, .. } if name == "generationnumber" => generation = text.trim().parse().ok(),
            Node::Open { name, .. } => folders.open(&name)?,
            Node::Close { name, text, parent, .. } => {
                if let Some(file) = folders.close(&parent, &name, text)?
                    && !each(file)
                {
                    break;
                }
            }
        }
    }
    let of = || "the index".to_owned();
    Ok(IndexHead { uuid: filled(uuid, "volumeuuid", of)?, generation: generation.ok_or_else(|| missing("generationnumber", of))? })
}

fn positive(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&number| number > 0)
}

fn missing(element: &'static str, of: impl Fn() -> String) -> IndexError {
    IndexError::Element { element, of: of() }
}

fn filled(text: Option<String>, element: &'static str, of: impl Fn() -> String) -> Result<String, IndexError> {
    text.filter(|text| !text.is_empty()).ok_or_else(|| missing(element, of))
}

/// The folders and the file around the place that is being read.
#[derive(Default)]
struct Folders {
    /// The names of open folders, the volume's root first. `None` until the name was read.
    open: Vec<Option<String>>,
    file: Option<Building>,
}

/// A file that is being read.
#[derive(Default)]
struct Building {
    name: Option<String>,
    bytes: Option<u64>,
    is_link: bool,
    extents: Vec<Extent>,
    extent: BuildingExtent,
    attribute: Option<String>,
    digests: Vec<(usize, Digest)>,
}

#[derive(Default)]
struct BuildingExtent {
    partition: Option<Partition>,
    block: Option<u64>,
    offset: Option<u64>,
    bytes: Option<u64>,
    file_offset: Option<u64>,
}

impl Folders {
    fn open(&mut self, name: &str) -> Result<(), IndexError> {
        match name {
            "directory" if self.file.is_none() => {
                self.open.push(None);
                if self.open.len() > DEPTH_MAX { Err(IndexError::Depth) } else { Ok(()) }
            }
            "file" if self.file.is_none() && !self.open.is_empty() => {
                self.file = Some(Building::default());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Handles the end of an element. Returns a file that is complete.
    fn close(&mut self, parent: &str, name: &str, text: String) -> Result<Option<TapeFile>, IndexError> {
        let Some(file) = &mut self.file else {
            match (parent, name) {
                ("directory", "name") => {
                    if let Some(open) = self.open.last_mut() {
                        *open = Some(text);
                    }
                }
                (_, "directory") => {
                    self.open.pop();
                }
                _ => {}
            }
            return Ok(None);
        };
        let number = || text.trim().parse::<u64>().ok();
        match (parent, name) {
            ("file", "name") => file.name = Some(text),
            ("file", "length") => file.bytes = number().filter(|&bytes| bytes <= BYTES_MAX),
            ("file", "symlink") => file.is_link = true,
            ("extent", "partition") => {
                file.extent.partition = [Partition::A, Partition::B].into_iter().find(|partition| partition.letter() == text.trim());
            }
            ("extent", "startblock") => file.extent.block = number(),
            ("extent", "byteoffset") => file.extent.offset = number(),
            ("extent", "bytecount") => file.extent.bytes = number(),
            ("extent", "fileoffset") => file.extent.file_offset = number(),
            ("extentinfo", "extent") => {
                let extent = std::mem::take(&mut file.extent);
                let of = || format!("an extent of {:?}", file.name.as_deref().unwrap_or_default());
                file.extents.push(extent.complete().map_err(|element| missing(element, of))?);
            }
            ("xattr", "key") => file.attribute = Some(text),
            ("xattr", "value") => {
                let attribute = file.attribute.take();
                let known = DIGESTS.iter().position(|(key, _)| attribute.as_deref() == Some(key));
                let digest = known.and_then(|rank| Some((rank, Digest::from_hex(DIGESTS[rank].1, text.trim())?)));
                file.digests.extend(digest);
            }
            (_, "file") => return self.file.take().map_or(Ok(None), |file| self.complete(file)),
            _ => {}
        }
        Ok(None)
    }

    /// A file with its path; `None` for a symbolic link.
    fn complete(&self, file: Building) -> Result<Option<TapeFile>, IndexError> {
        if file.is_link {
            return Ok(None);
        }
        let name = filled(file.name, "name", || "a file".to_owned())?;
        let bytes = file.bytes.ok_or_else(|| missing("length", || format!("{name:?}")))?;
        // The name of the root is the volume's.
        let folders = self.open[1..].iter().map(|folder| folder.clone().ok_or_else(|| missing("name", || "a folder".to_owned())));
        let parts = folders.chain([Ok(name)]).collect::<Result<Vec<String>, _>>()?;
        if let Some(bad) = parts.iter().find(|part| part.is_empty() || *part == "." || *part == ".." || part.contains(['/', '\0'])) {
            return Err(IndexError::Name(bad.clone()));
        }
        let digest = file.digests.into_iter().min_by_key(|(rank, _)| *rank).map(|(_, digest)| digest);
        TapeFile { path: parts.join("/"), bytes, extents: file.extents, digest }.checked().map(Some)
    }
}

impl BuildingExtent {
    fn complete(self) -> Result<Extent, &'static str> {
        Ok(Extent {
            partition: self.partition.ok_or("partition")?,
            block: self.block.ok_or("startblock")?,
            offset: self.offset.ok_or("byteoffset")?,
            bytes: self.bytes.ok_or("bytecount")?,
            file_offset: self.file_offset.ok_or("fileoffset")?,
        })
    }
}

/// The beginning or the end of an element.
enum Node {
    Open { name: String },
    Close { depth: usize, parent: String, name: String, text: String },
}

/// The elements of a document.
struct Nodes<R> {
    reader: Reader<R>,
    buffer: Vec<u8>,
    root: &'static str,
    /// The names of open elements, and whether their text is percent-encoded.
    path: Vec<(String, bool)>,
    text: String,
    /// The end of an empty element comes next.
    closes: bool,
    has_ended: bool,
}

impl<R: BufRead> Nodes<R> {
    fn new(xml: R, root: &'static str) -> Self {
        Self {
            reader: Reader::from_reader(xml),
            buffer: Vec::new(),
            root,
            path: Vec::new(),
            text: String::new(),
            closes: false,
            has_ended: false,
        }
    }

    /// The next node; `None` at the end of the document.
    fn next(&mut self) -> Result<Option<Node>, IndexError> {
        if std::mem::take(&mut self.closes) {
            return self.close().map(Some);
        }
        loop {
            self.buffer.clear();
            let event = self.reader.read_event_into(&mut self.buffer).map_err(malformed)?;
            match event {
                Event::Start(element) => {
                    let opened = opened(&element)?;
                    return self.open(opened).map(Some);
                }
                Event::Empty(element) => {
                    let opened = opened(&element)?;
                    self.closes = true;
                    return self.open(opened).map(Some);
                }
                Event::Text(part) => self.text.push_str(&part),
                Event::CData(part) => self.text.push_str(&part),
                Event::GeneralRef(reference) => {
                    let resolved = match reference.resolve_char_ref().map_err(malformed)? {
                        Some(character) => Some(character),
                        None => match &*reference {
                            "amp" => Some('&'),
                            "lt" => Some('<'),
                            "gt" => Some('>'),
                            "quot" => Some('"'),
                            "apos" => Some('\''),
                            _ => None,
                        },
                    };
                    self.text.push(resolved.ok_or_else(|| malformed("an unknown entity"))?);
                }
                Event::End(_) => return self.close().map(Some),
                Event::Eof if self.has_ended => return Ok(None),
                Event::Eof => return Err(malformed("it ends early")),
                _ => {}
            }
        }
    }

    fn open(&mut self, (name, is_encoded): (String, bool)) -> Result<Node, IndexError> {
        if self.path.is_empty() && (self.has_ended || name != self.root) {
            return Err(IndexError::Root(self.root));
        }
        self.text.clear();
        self.path.push((name.clone(), is_encoded));
        Ok(Node::Open { name })
    }

    fn close(&mut self) -> Result<Node, IndexError> {
        let (name, is_encoded) = self.path.pop().ok_or_else(|| malformed("an element ends that has not begun"))?;
        let mut text = std::mem::take(&mut self.text);
        if is_encoded {
            text = percent_decode_str(&text).decode_utf8().map_err(|_| IndexError::Name(text.clone()))?.into_owned();
        }
        self.has_ended = self.path.is_empty();
        let parent = self.path.last().map(|(name, _)| name.clone()).unwrap_or_default();
        Ok(Node::Close { depth: self.path.len(), parent, name, text })
    }
}

fn opened(element: &BytesStart<'_>) -> Result<(String, bool), IndexError> {
    let attribute = element.try_get_attribute("percentencoded").map_err(malformed)?;
    Ok((element.local_name().as_ref().to_owned(), attribute.is_some_and(|attribute| matches!(&*attribute.value, "true" | "1"))))
}

fn malformed(problem: impl std::fmt::Display) -> IndexError {
    IndexError::Malformed(problem.to_string())
}
