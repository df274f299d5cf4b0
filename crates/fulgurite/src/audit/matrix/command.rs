//! The command by which a person can repeat a reading.

use std::path::Path;

use fulgurite_audit::node::Node;
use fulgurite_digest::Algorithm;

/// Repeats a download: prints its time and length. The URL is signed anew, since signatures expire
/// and are secrets.
pub(super) fn access(database: &Path, node: &Node, file: &str) -> String {
    let url = program(database, "url", node, file);
    format!("curl -sS -o /dev/null -w '%{{time_total}} s, %{{size_download}} bytes\\n' \"$({url})\"")
}

/// Repeats a reading of an audit: prints the digest and the time.
pub(super) fn audit(database: &Path, node: &Node, file: &str, location: &str, algorithm: Option<Algorithm>) -> String {
    let tool = tool(algorithm);
    match node.place.strip_prefix("folder:") {
        Some(folder) => format!("time {tool} {}", quoted(&format!("{}/{location}", folder.trim_end_matches('/')))),
        None => format!("time {} | {tool}", program(database, "read", node, file)),
    }
}

fn program(database: &Path, verb: &str, node: &Node, file: &str) -> String {
    let database = database.to_string_lossy();
    let database = if database == "audit.db" { String::new() } else { format!(" --database {}", quoted(&database)) };
    format!("fulgurite audit{database} {verb} -- {} {}", quoted(&node.name), quoted(file))
}

fn tool(algorithm: Option<Algorithm>) -> &'static str {
    match algorithm {
        Some(Algorithm::Md5) => "md5sum",
        Some(Algorithm::Sha1) => "sha1sum",
        Some(Algorithm::Sha224) => "sha224sum",
        Some(Algorithm::Sha256) | None => "sha256sum",
        Some(Algorithm::Sha384) => "sha384sum",
        Some(Algorithm::Sha512) => "sha512sum",
        Some(Algorithm::Sha512Of256) => "openssl dgst -sha512-256",
        Some(Algorithm::Blake2b160) => "b2sum -l 160",
        Some(Algorithm::Blake2b256) => "b2sum -l 256",
        Some(Algorithm::Blake2b384) => "b2sum -l 384",
        Some(Algorithm::Blake2b512) => "b2sum",
    }
}

/// A word for a POSIX shell.
pub(in super::super) fn quoted(word: &str) -> String {
    let is_plain =
        !word.is_empty() && !word.starts_with('-') && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:@+,".contains(&byte));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_audit::copy::NodeId;
    use fulgurite_audit::node::Medium;

    fn node(place: &str) -> Node {
        Node {
            id: NodeId(1),
            name: "n".into(),
            place: place.into(),
            options: Vec::new(),
            medium: Medium::Disk,
            rules: Medium::Disk.rules(),
            expected_time: None,
        }
    }

    #[test]
    fn words_come_through_a_shell_as_they_are() {
        for word in ["plain", "a b", "it's", "$(rm -rf x)", "`x`", "a\nb", "", "\\", "\"", "*", "~", "é"] {
            let said = std::process::Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().expect("a shell");
            assert_eq!(String::from_utf8(said.stdout).expect("text"), word);
        }
    }

    #[test]
    fn commands_name_the_copy_and_its_database() {
        let command = audit(Path::new("audit.db"), &node("folder:/mnt/it's"), "a b", "x/a b", Some(Algorithm::Md5));
        assert_eq!(command, r"time md5sum '/mnt/it'\''s/x/a b'");
        let command = audit(Path::new("/srv/a.db"), &node("sftp://h/p"), "a b", "x/a b", Some(Algorithm::Sha512));
        assert_eq!(command, "time fulgurite audit --database /srv/a.db read -- n 'a b' | sha512sum");
        let command = access(Path::new("audit.db"), &node("s3://b"), "a");
        assert_eq!(command, r#"curl -sS -o /dev/null -w '%{time_total} s, %{size_download} bytes\n' "$(fulgurite audit url -- n a)""#);
    }
}
