//! Warns if root changes the archive of another user.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fulgurite_archive::archive::KEYS_FILE;

use crate::diagnostics;

/// Prints a note if root is about to make files in an archive whose files belong to another user,
/// who couldn't read them. This isn't refused: on some file systems, files of root belong to
/// another user, or all files to one.
pub(crate) fn note_if_root_changes(home: &Path) {
    let Ok(owner) = home.join(KEYS_FILE).metadata().map(|keys| keys.uid()) else { return };
    if let Some(text) = text(rustix::process::geteuid().as_raw(), owner, home) {
        diagnostics::note(&text);
    }
}

fn text(user: u32, owner: u32, home: &Path) -> Option<String> {
    (user == 0 && owner != 0).then(|| {
        format!(
            "the archive in {} belongs to user {owner}, who can't read what root writes: run commands as that user, such as with `sudo -u \
             '#{owner}'`. `chown` gives the files that root made back",
            home.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_is_warned_and_only_of_archives_of_other_users() {
        let warned = |user, owner| text(user, owner, Path::new("/srv/archive")).is_some();
        assert_eq!([warned(0, 1000), warned(0, 0), warned(1000, 1000), warned(1000, 0)], [true, false, false, false]);
    }
}
