//! Content in AWS's chunks, on its way to the framework, which gathers each chunk whole before it passes any of it on.
//!
//! Some clients send all of their content as one chunk, of gigabytes. Chunks without signatures are cut into small ones here; of those with signatures,
//! which are over the whole, large ones are refused.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Chunks up to this size go on as they are.
const SMALL: u64 = 256 << 10;
/// The largest chunk with a signature: clients send 64 KiB to 1 MiB.
pub(crate) const SIGNED_MAX: u64 = 4 << 20;
/// The longest head of a chunk; the framework refuses those.
const HEAD_MAX: usize = 1_024;

/// A chunk with a signature that is too large.
#[derive(Debug, thiserror::Error)]
#[error("ChunkTooLarge: a signed chunk of {0} bytes")]
pub(crate) struct TooLarge(u64);

/// Where in the chunks a body is.
#[derive(Debug)]
enum At {
    /// In a chunk's head, of which so much has come.
    Head(BytesMut),
    /// In its content, and whether it is cut up.
    Content { left: u64, cut: bool },
    /// In the end of the line behind it.
    End { left: usize, cut: bool },
    /// Behind the last chunk, or in something that the framework refuses.
    Behind,
}

/// Chunks as they come, and as they go on.
#[derive(Debug)]
pub(crate) struct Chunks {
    at: At,
    /// Bytes of the chunk that the framework is gathering.
    gathered: u64,
}

impl Chunks {
    pub(crate) fn new() -> Self {
        Self { at: At::Head(BytesMut::new()), gathered: 0 }
    }

    /// Bytes that the framework holds of a chunk that it gathers.
    pub(crate) fn gathered(&self) -> u64 {
        self.gathered
    }

    /// Takes the next piece of the body, and adds what goes on to `out`.
    pub(crate) fn take(&mut self, mut piece: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), TooLarge> {
        while !piece.is_empty() {
            match &mut self.at {
                At::Head(head) => {
                    let end = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |at| at + 1);
                    head.extend_from_slice(&piece.split_to(end));
                    if head.ends_with(b"\n") || head.len() > HEAD_MAX {
                        let head = std::mem::take(head).freeze();
                        // The chunk before went on when its end came.
                        self.gathered = 0;
                        self.at = begin(head, out)?;
                    }
                }
                At::Content { left, cut } => {
                    let now = piece.split_to((*left).min(piece.len() as u64) as usize);
                    *left -= now.len() as u64;
                    let (left, cut) = (*left, *cut);
                    if cut {
                        out.extend([Bytes::from(format!("{:x}\r\n", now.len())), now, Bytes::from_static(b"\r\n")]);
                    } else {
                        self.gathered += now.len() as u64;
                        out.push_back(now);
                    }
                    if left == 0 {
                        self.at = At::End { left: 2, cut };
                    }
                }
                At::End { left, cut } => {
                    let now = piece.split_to((*left).min(piece.len()));
                    let expected = &b"\r\n"[2 - *left..][..now.len()];
                    *left -= now.len();
                    // Where something else stands, it goes on, and is refused.
                    if !*cut || &now[..] != expected {
                        out.push_back(now);
                    }
                    if *left == 0 {
                        self.at = At::Head(BytesMut::new());
                    }
                }
                At::Behind => out.push_back(std::mem::take(&mut piece)),
            }
        }
        Ok(())
    }

    /// At the end of the body: what is left of a head that was cut short.
    pub(crate) fn end(&mut self) -> Option<Bytes> {
        match &mut self.at {
            At::Head(head) if !head.is_empty() => Some(std::mem::take(head).freeze()),
            _ => None,
        }
    }
}

/// What comes behind a head.
fn begin(head: Bytes, out: &mut VecDeque<Bytes>) -> Result<At, TooLarge> {
    let digits = head.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = std::str::from_utf8(&head[..digits]).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    let is_bare = head[digits..] == *b"\r\n";
    match size {
        Some(size) if size > SMALL && is_bare => return Ok(At::Content { left: size, cut: true }),
        Some(size) if size > SIGNED_MAX => return Err(TooLarge(size)),
        _ => {}
    }
    out.push_back(head);
    Ok(match size {
        Some(size) if size > 0 => At::Content { left: size, cut: false },
        _ => At::Behind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes on of a body that comes in pieces of so many bytes.
    fn through(body: &[u8], step: usize) -> Result<Vec<u8>, TooLarge> {
        let (mut chunks, mut out) = (Chunks::new(), VecDeque::new());
        for piece in body.chunks(step) {
            chunks.take(Bytes::copy_from_slice(piece), &mut out)?;
        }
        out.extend(chunks.end());
        Ok(out.into_iter().flatten().collect())
    }

    /// The content of chunks, the sizes of these, and what is behind the last.
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
    fn a_large_chunk_without_a_signature_goes_on_in_small_ones() {
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
    fn small_and_signed_chunks_and_what_is_none_go_on_as_they_are() {
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
    fn what_stands_where_a_line_should_end_is_not_passed_over() {
        let mut body = format!("{:x}\r\n", SMALL + 1).into_bytes();
        body.resize(body.len() + SMALL as usize + 1, b'x');
        body.extend_from_slice(b"XX0\r\n\r\n");
        let found = through(&body, 10_000).expect("taken");
        assert!(found.ends_with(b"\r\nXX0\r\n\r\n"));
    }

    #[test]
    fn a_large_chunk_with_a_signature_is_refused() {
        let head = format!("{:x};chunk-signature={}\r\n", SIGNED_MAX + 1, "a".repeat(64));
        assert!(through(head.as_bytes(), 10).is_err());
        let head = format!("{SIGNED_MAX:x};chunk-signature={}\r\n", "a".repeat(64));
        assert_eq!(through(head.as_bytes(), 10).expect("taken"), head.as_bytes());
    }
}
