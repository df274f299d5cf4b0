//! Writes a report's file so that readers see the old one or the new one, never a part.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A report's file could not be written. An earlier file of that name is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("the report {} could not be written; an earlier one is unchanged", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Writes a file under another name in the same folder, and renames it. The umask applies to it as
/// to any new file, so that a web server or a collector with another user can read it.
///
/// # Errors
/// If the folder doesn't exist or refuses the file.
pub fn write(path: &Path, content: &str) -> Result<(), WriteError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Collectors read files by the end of their name, and must not find this one.
    let written = tempfile::Builder::new()
        .prefix(".fulgurite-report-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|error| error.error)
        });
    written.map(drop).map_err(|source| WriteError { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_replaces_the_earlier_one_whole_and_others_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.prom");
        write(&path, "first, and longer\n").unwrap();
        write(&path, "second\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        // A file that any program creates, for comparison: both follow the umask.
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
    }

    #[test]
    fn a_report_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent").join("audit.prom");
        assert!(write(&path, "x").unwrap_err().to_string().contains("audit.prom"));
    }
}
