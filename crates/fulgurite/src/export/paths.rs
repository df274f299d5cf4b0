//! Names that objects can have and exported files can't.

/// Finds out why objects can't be files, one after the other, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Files whose names the last one begins with.
    open: Vec<String>,
}

impl Paths {
    /// Why a file can't be exported under a path; `None` if it can.
    pub(super) fn refuse(&mut self, path: &str) -> Option<String> {
        // What begins with one name comes in one piece in the order of names.
        while self.open.last().is_some_and(|open| !path.starts_with(open.as_str())) {
            self.open.pop();
        }
        let folder = self.open.iter().find(|open| path.as_bytes().get(open.len()) == Some(&b'/'));
        let why = if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            Some("it begins or ends with \"/\", or has a part that is empty, \".\" or \"..\"".to_owned())
        } else {
            folder.map(|file| format!("its folder would be {file:?}, which is a file"))
        };
        self.open.push(path.to_owned());
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_a_folder_can_contain_together_pass() {
        let mut names = vec!["a", "a!", "a!/b", "a-", "a/b", "a/b/c", "ab", "b/c", "b/c.", "b/c/d/e", "c/...", "~", ".x", "%2F"];
        names.extend(["/x", "x/", "a//b", "../x", "y/./z", "y/.."]);
        names.sort_unstable();
        let mut paths = Paths::default();
        let refused: Vec<&str> = names.iter().filter(|name| paths.refuse(name).is_some()).copied().collect();
        assert_eq!(refused, ["../x", "/x", "a!/b", "a//b", "a/b", "a/b/c", "b/c/d/e", "x/", "y/..", "y/./z"]);
    }
}
