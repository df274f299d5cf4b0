//! Standard output, whose reader may close it early, as `head` does.

use std::io::{self, StdoutLock, Write};

/// Standard output of this process. [`is_closed`] tells its errors from those of other pipes and
/// sockets.
pub(crate) struct StandardOutput(StdoutLock<'static>);

/// Locks standard output until the result is dropped.
pub(crate) fn standard_output() -> StandardOutput {
    StandardOutput(io::stdout().lock())
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(mark)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(mark)
    }
}

/// The reader of standard output has closed it.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of standard output has closed it")
    }
}

impl std::error::Error for Closed {}

fn mark(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { io::Error::new(error.kind(), Closed) } else { error }
}

/// Whether an error comes from standard output that was closed by its reader. That isn't a failure;
/// a connection that a database or a server closes is one.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let is_mark = |error: &io::Error| error.get_ref().is_some_and(|inner| inner.is::<Closed>());
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_mark))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn only_standard_output_counts_as_closed() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let database: anyhow::Result<()> = Err(broken()).context("can't connect to the database");
        assert!(!is_closed(&database.expect_err("an error")));
        let printed: anyhow::Result<()> = Err(mark(broken())).context("printing");
        assert!(is_closed(&printed.expect_err("an error")));
    }
}
