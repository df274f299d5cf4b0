//! Limits the size of AWS chunks before they reach the framework, which buffers each chunk whole.
//!
//! Some clients send all their content as one chunk of gigabytes. This filter splits large unsigned
//! chunks. A signature covers a whole chunk, so the filter rejects large signed ones.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Unsigned chunks up to this size pass unchanged.
const UNSPLIT_BYTES_MAX: u64 = 256 << 10;
/// Maximum size of a signed chunk: clients send 64 KiB to 1 MiB.
pub(crate) const SIGNED_BYTES_MAX: u64 = 4 << 20;
/// Maximum length of a chunk's header; the framework rejects longer ones.
const HEAD_BYTES_MAX: usize = 1_024;

/// A signed chunk is too large.
#[derive(Debug, thiserror::Error)]
#[error("ChunkTooLarge: a signed chunk of {0} bytes")]
pub(crate) struct ChunkTooLarge(u64);

/// Position in the chunks.
#[derive(Debug)]
enum Position {
    /// In a chunk's header; holds the bytes received so far.
    Head(BytesMut),
    /// In a chunk's content; `is_split` is true if the chunk is being split.
    Content { left: u64, is_split: bool },
    /// In the line end after a chunk's content.
    LineEnd { left: usize, is_split: bool },
    /// After the last chunk, or in malformed input, which the framework rejects.
    AfterLast,
}

/// The chunk filter of a body.
#[derive(Debug)]
pub(crate) struct ChunkSplitter {
    position: Position,
    /// Bytes of the current chunk that the framework is buffering.
    buffered_bytes: u64,
}

impl ChunkSplitter {
    pub(crate) fn new() -> Self {
        Self { position: Position::Head(BytesMut::new()), buffered_bytes: 0 }
    }

    /// Bytes that the framework buffers of the current chunk.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes
    }

    /// Processes the next piece of the body and appends the output to `out`.
    pub(crate) fn push(&mut self, mut piece: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), ChunkTooLarge> {
        while !piece.is_empty() {
            match &mut self.position {
                Position::Head(head) => {
                    let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
                    head.extend_from_slice(&piece.split_to(end));
                    if head.ends_with(b"\n") || head.len() > HEAD_BYTES_MAX {
                        let head = std::mem::take(head).freeze();
                        // The framework passed the previous chunk on at its end.
                        self.buffered_bytes = 0;
                        self.position = parse_head(head, out)?;
                    }
                }
                Position::Content { left, is_split } => {
                    let now = piece.split_to((*left).min(piece.len() as u64) as usize);
                    *left -= now.len() as u64;
                    let (left, is_split) = (*left, *is_split);
                    if is_split {
                        out.extend([Bytes::from(format!("{:x}\r\n", now.len())), now, Bytes::from_static(b"\r\n")]);
                    } else {
                        self.buffered_bytes += now.len() as u64;
                        out.push_back(now);
                    }
                    if left == 0 {
                        self.position = Position::LineEnd { left: 2, is_split };
                    }
                }
                Position::LineEnd { left, is_split } => {
                    let now = piece.split_to((*left).min(piece.len()));
                    let expected = &b"\r\n"[2 - *left..][..now.len()];
                    *left -= now.len();
                    // Passes anything but a line end on, so that the framework rejects it.
                    if !*is_split || &now[..] != expected {
                        out.push_back(now);
                    }
                    if *left == 0 {
                        self.position = Position::Head(BytesMut::new());
                    }
                }
                Position::AfterLast => out.push_back(std::mem::take(&mut piece)),
            }
        }
        Ok(())
    }

    /// At the end of the body: returns the rest of an incomplete header.
    pub(crate) fn end(&mut self) -> Option<Bytes> {
        match &mut self.position {
            Position::Head(head) if !head.is_empty() => Some(std::mem::take(head).freeze()),
            _ => None,
        }
    }
}

/// Decides by a chunk's header how to treat what follows.
fn parse_head(head: Bytes, out: &mut VecDeque<Bytes>) -> Result<Position, ChunkTooLarge> {
    let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = std::str::from_utf8(&head[..digits]).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    let is_bare = head[digits..] == *b"\r\n";
    match size {
        Some(size) if size > UNSPLIT_BYTES_MAX && is_bare => return Ok(Position::Content { left: size, is_split: true }),
        Some(size) if size > SIGNED_BYTES_MAX => return Err(ChunkTooLarge(size)),
        _ => {}
    }
    out.push_back(head);
    Ok(match size {
        Some(size) if size > 0 => Position::Content { left: size, is_split: false },
        _ => Position::AfterLast,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a body through in pieces of `step` bytes.
    fn through(body: &[u8], step: usize) -> Result<Vec<u8>, ChunkTooLarge> {
        let (mut chunks, mut out) = (ChunkSplitter::new(), VecDeque::new());
        for piece in body.chunks(step) {
            chunks.push(Bytes::copy_from_slice(piece), &mut out)?;
        }
        out.extend(chunks.end());
        Ok(out.into_iter().flatten().collect())
    }

    /// The content of the chunks, their sizes, and the bytes after the last one.
    fn read(mut body: &[u8]) -> (Vec<u8>, Vec<usize>, Vec<u8>) {
        let (mut content, mut sizes) = (Vec::new(), Vec::new());
        loop {
            let end = body.windows(2).position(|two| two == b"\r\n").expect("a head");
            let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).expect("text"), 16).expect("a size");
            body = &body[end + 2..];
            if size == 0 {
                return (content, sizes, body.to_vec());
            }
            sizes.push(size);
            content.extend_from_slice(&body[..size]);
            assert_eq!(&body[size..size + 2], b"\r\n");
            body = &body[size + 2..];
        }
    }

    #[test]
    fn a_large_unsigned_chunk_is_split() {
        let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7 + at / 253) as u8).collect();
        let mut body = format!("{:x}\r\n", content.len()).into_bytes();
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        for step in [1, 7, 4_096, 65_536, body.len()] {
            let (found, sizes, behind) = read(&through(&body, step).expect("taken"));
            assert!(found == [&content[..], b"hello"].concat(), "pieces of {step}");
            assert!(sizes.iter().all(|size| *size <= step.max(5)), "pieces of {step}");
            assert_eq!(behind, b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        }
    }

    #[test]
    fn small_signed_and_malformed_chunks_pass_unchanged() {
        let signed = format!("4;chunk-signature={0}\r\nbody\r\n0;chunk-signature={0}\r\n\r\n", "a".repeat(64));
        for body in [&b"4\r\nbody\r\n0\r\n\r\n"[..], signed.as_bytes(), b"zz\r\nbody", b"", b"5", b"4\r\nbodyXX0\r\n\r\n", b"0\r\nrest\r\n"]
        {
            for step in [1, 3, 1_000] {
                assert_eq!(through(body, step).expect("taken"), body, "{}", String::from_utf8_lossy(body));
            }
        }
        let endless = vec![b'1'; 5_000];
        assert_eq!(through(&endless, 100).expect("taken"), endless);
    }

    #[test]
    fn a_missing_line_end_is_passed_on() {
        let mut body = format!("{:x}\r\n", UNSPLIT_BYTES_MAX + 1).into_bytes();
        body.resize(body.len() + UNSPLIT_BYTES_MAX as usize + 1, b'x');
        body.extend_from_slice(b"XX0\r\n\r\n");
        let found = through(&body, 10_000).expect("taken");
        assert!(found.ends_with(b"\r\nXX0\r\n\r\n"));
    }

    #[test]
    fn a_large_signed_chunk_is_refused() {
        let head = format!("{:x};chunk-signature={}\r\n", SIGNED_BYTES_MAX + 1, "a".repeat(64));
        assert!(through(head.as_bytes(), 10).is_err());
        let head = format!("{SIGNED_BYTES_MAX:x};chunk-signature={}\r\n", "a".repeat(64));
        assert_eq!(through(head.as_bytes(), 10).expect("taken"), head.as_bytes());
    }
}
