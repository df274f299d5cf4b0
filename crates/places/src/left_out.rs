//! What a listing of files leaves out.

/// Numbers of things that are not listed, because they are no files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Symbolic links.
    pub links: u64,
    /// Folders without entries.
    pub empty_folders: u64,
    /// Pipes, sockets and devices.
    pub special: u64,
    /// Entries of folders with the names of unfinished writes, `.fulgurite-part-…`.
    pub parts: u64,
    /// Versions of objects that are not the newest ones, deletion markers included.
    pub older_versions: u64,
}

impl LeftOut {
    /// What is left out, such as "3 symbolic links, 1 empty folder"; empty if nothing is.
    #[must_use]
    pub fn text(&self) -> String {
        let counts = [
            (self.links, "symbolic link", "symbolic links"),
            (self.empty_folders, "empty folder", "empty folders"),
            (self.special, "special file", "special files"),
            (
                self.parts,
                "entry with the name of an unfinished write (.fulgurite-part-…)",
                "entries with names of unfinished writes (.fulgurite-part-…)",
            ),
            (self.older_versions, "older version of an object", "older versions of objects"),
        ];
        let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
        counts.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many })).collect::<Vec<_>>().join(", ")
    }
}
