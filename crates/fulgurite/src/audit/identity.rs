//! Which place a node leads to, as far as its address tells.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fulgurite_archive::settings::{self, Settings};
use fulgurite_audit::node::Node;
use fulgurite_domain::ArchiveId;

use crate::archive_place::ArchivePlace;

/// Options that lead to the same files whatever their value: how the place is reached and in which
/// way the client signs in. Names of accounts aren't among them, because some servers show each
/// account other files.
const SAME_PLACE: [&str; 27] = [
    "access_key_id",
    "account_key",
    "anonymous",
    "application_credential_secret",
    "application_key",
    "application_key_id",
    "ca_file",
    "connect_timeout",
    "credential",
    "credential_path",
    "default_storage_class",
    "disable_list_objects_v2",
    "enable_virtual_host_style",
    "enable_request_payer",
    "first_byte_timeout",
    "key",
    "known_hosts",
    "marker",
    "password",
    "profile",
    "role_arn",
    "sas_token",
    "secret_access_key",
    "session_token",
    "stall_timeout",
    "temp_url_key",
    "token",
];

/// True if the settings of a node still lead to the place that they led to before.
pub(super) fn is_same_place(earlier: &Node, now: &Node) -> bool {
    if leading_options(earlier) != leading_options(now) {
        return false;
    }
    let real = |node: &Node| folder(node).and_then(|folder| std::fs::canonicalize(folder).ok());
    earlier.place.trim_end_matches('/') == now.place.trim_end_matches('/')
        || scheme(earlier) == scheme(now) && real(earlier).is_some_and(|earlier| Some(earlier) == real(now))
}

/// True if copies at one of these nodes are copies at the other. With `reads`, places on this
/// machine are compared by what their paths lead to; otherwise, only addresses are.
pub(super) fn has_same_copies(one: &Node, other: &Node, reads: bool) -> bool {
    if leading_options(one) != leading_options(other) {
        return false;
    }
    if one.place.trim_end_matches('/') == other.place.trim_end_matches('/') {
        return true;
    }
    reads && scheme(one) == scheme(other) && on_this_machine(one).is_some_and(|one| Some(one) == on_this_machine(other))
}

/// What tells a folder or an archive from others, whatever its name.
#[derive(PartialEq, Eq)]
enum OnThisMachine {
    /// Its device and number.
    Folder(u64, u64),
    Archive(ArchiveId),
}

fn on_this_machine(node: &Node) -> Option<OnThisMachine> {
    if let Some(home) = ArchivePlace::home_of(&node.place) {
        let settings = Settings::read(&home.join(settings::FILE)).ok()?;
        return Some(OnThisMachine::Archive(settings.archive.id));
    }
    let metadata = std::fs::metadata(folder(node)?).ok()?;
    Some(OnThisMachine::Folder(metadata.dev(), metadata.ino()))
}

fn leading_options(node: &Node) -> Vec<&(String, String)> {
    // Where the credentials are read, variables of Swift also name the account's address.
    let leads = |option: &str| !SAME_PLACE.contains(&option) && (option != "credentials" || scheme(node) == "swift");
    let mut options: Vec<_> = node.options.iter().filter(|(option, _)| leads(option)).collect();
    options.sort();
    options
}

fn scheme(node: &Node) -> &str {
    node.place.split(':').next().unwrap_or_default()
}

/// The folder on this machine that a place is.
fn folder(node: &Node) -> Option<PathBuf> {
    let folder = node.place.strip_prefix("folder:").map(Path::new);
    folder.or_else(|| ArchivePlace::home_of(&node.place)).map(Path::to_path_buf)
}

/// Where a node leads, for its history.
pub(super) fn described(node: &Node) -> String {
    let options: String = leading_options(node).iter().map(|(option, value)| format!(", {option}={value}")).collect();
    format!("{}{options}", node.place)
}

#[cfg(test)]
mod tests {
    use fulgurite_audit::copy::NodeId;
    use fulgurite_audit::node::Medium;

    use super::*;

    fn node(place: &str, options: &[(&str, &str)]) -> Node {
        Node {
            id: NodeId(1),
            name: "n".into(),
            place: place.into(),
            options: options.iter().map(|(option, value)| ((*option).into(), (*value).into())).collect(),
            medium: Medium::Disk,
            rules: Medium::Disk.rules(),
            expected_time: None,
        }
    }

    #[test]
    fn secrets_and_timeouts_lead_nowhere_else() {
        let bucket = |options: &[(&str, &str)]| node("s3://bucket/", options);
        let earlier = bucket(&[("endpoint", "https://a.example"), ("access_key_id", "A"), ("region", "x")]);
        let rotated = bucket(&[("endpoint", "https://a.example"), ("region", "x"), ("access_key_id", "B"), ("stall_timeout", "5")]);
        assert!(is_same_place(&earlier, &rotated));
        for other in [&[("endpoint", "https://b.example"), ("region", "x")][..], &[("region", "x")], &[]] {
            assert!(!is_same_place(&earlier, &bucket(other)), "{other:?}");
        }
        assert!(!is_same_place(&node("s3://bucket/", &[]), &node("s3://other/", &[])));
        assert!(!is_same_place(&node("webdavs://h/p", &[("username", "a")]), &node("webdavs://h/p", &[("username", "b")])));
    }

    #[test]
    fn a_folder_may_have_several_names() {
        let temporary = std::env::temp_dir().display().to_string();
        let named = |path: &str| node(&format!("folder:{path}"), &[]);
        assert!(is_same_place(&named(&temporary), &named(&format!("{temporary}/../{temporary}"))));
        assert!(!is_same_place(&named(&temporary), &named("/")));
        assert!(!is_same_place(&named("/absent/a"), &named("/absent/b")), "nothing shows that they are one");
        assert!(!is_same_place(&named(&temporary), &node(&format!("archive:{temporary}"), &[])));
    }
}
