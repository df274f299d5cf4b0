//! Manifests, and fetch.txt: which lines they have.

use fulgurite_digest::{Algorithm, Digest};

use crate::declaration::Version;
use crate::finding::{PathRefusal, Problem};
use crate::path;

/// What a manifest lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// `manifest-….txt`: files in the payload folder.
    Payload,
    /// `tagmanifest-….txt`: other files.
    Tags,
}

/// A manifest of a bag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manifest {
    /// What it lists.
    pub scope: Scope,
    /// The algorithm's name in the file's name, such as `sha512`.
    pub algorithm_name: String,
    /// The algorithm, if this crate can compute it.
    pub algorithm: Option<Algorithm>,
    /// The file's name.
    pub name: String,
}

impl Manifest {
    /// `None` if the file name is not that of a manifest.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".txt")?;
        let (scope, algorithm_name) = match stem.strip_prefix("manifest-") {
            Some(algorithm) => (Scope::Payload, algorithm),
            None => (Scope::Tags, stem.strip_prefix("tagmanifest-")?),
        };
        Some(Self { scope, algorithm_name: algorithm_name.to_owned(), algorithm: algorithm_name.parse().ok(), name: name.to_owned() })
    }
}

/// The name of a manifest that this crate writes. Names of algorithms have no punctuation there.
///
/// Source: RFC 8493, section 2.4.
pub(crate) fn file_name(scope: Scope, algorithm: Algorithm) -> String {
    let prefix = match scope {
        Scope::Payload => "manifest",
        Scope::Tags => "tagmanifest",
    };
    // Python's hashlib calls BLAKE2b with 512 bits `blake2b`, and bagit-python knows no other.
    let algorithm = match algorithm {
        Algorithm::Blake2b512 => "blake2b".to_owned(),
        other => other.name().replace(['-', '/'], ""),
    };
    format!("{prefix}-{algorithm}.txt")
}

/// A line of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Decoded path.
    pub(crate) path: String,
    /// The path as it is listed, unless that is the same.
    pub(crate) listed: Option<String>,
    /// `None` if the algorithm is unknown.
    pub(crate) digest: Option<Digest>,
}

/// Reads a line of a manifest. `warn` receives what is unusual.
pub(crate) fn parse_line(
    text: &str,
    scope: Scope,
    algorithm: Option<Algorithm>,
    version: Version,
    warn: &mut dyn FnMut(Problem),
) -> Result<Line, Problem> {
    let (digits, rest) = text.split_once([' ', '\t']).ok_or(Problem::MalformedManifestLine)?;
    if digits.is_empty() {
        return Err(Problem::MalformedManifestLine);
    }
    // Of an unknown algorithm only the paths are of use.
    let read = |algorithm| {
        Digest::from_hex(algorithm, digits).ok_or_else(|| Problem::MalformedDigest {
            algorithm,
            // A digest has 128 digits at most; a report needs no more of what isn't one.
            digits: digits.chars().take(130).collect(),
        })
    };
    let digest = algorithm.map(read).transpose()?;
    let mut listed = rest.trim_start_matches([' ', '\t']);
    if let Some(rest) = listed.strip_prefix('*') {
        warn(Problem::Asterisk);
        listed = rest;
    }
    if let Some(rest) = listed.strip_prefix("./") {
        warn(Problem::DotSlash);
        listed = rest.trim_start_matches("./");
    }
    let (path, listed) = decode_path(listed, scope == Scope::Payload, version)?;
    Ok(Line { path, listed, digest })
}

fn decode_path(listed: &str, in_payload: bool, version: Version) -> Result<(String, Option<String>), Problem> {
    let refused = |reason: PathRefusal| Problem::RefusedPath { path: listed.chars().take(300).collect(), reason };
    let path = path::decode(listed, version);
    let check = if in_payload { path::check_payload } else { path::check };
    check(&path).map_err(refused)?;
    // The undecoded spelling is looked up too, unless no file can have it.
    let listed = (path != listed && check(listed).is_ok()).then(|| listed.to_owned());
    Ok((path, listed))
}

/// A line of fetch.txt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FetchLine {
    pub(crate) path: String,
    pub(crate) listed: Option<String>,
    pub(crate) url: String,
    pub(crate) bytes: Option<u64>,
}

/// Reads a line of fetch.txt.
///
/// Source: RFC 8493, section 2.2.3.
pub(crate) fn parse_fetch_line(text: &str, version: Version) -> Result<FetchLine, Problem> {
    let white = [' ', '\t'];
    let malformed = || Problem::MalformedFetchLine;
    let (url, rest) = text.split_once(white).ok_or_else(malformed)?;
    let (length, rest) = rest.trim_start_matches(white).split_once(white).ok_or_else(malformed)?;
    let bytes = match length {
        "-" => None,
        digits if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(digits.parse().map_err(|_| malformed())?),
        _ => return Err(malformed()),
    };
    if url.is_empty() || length.is_empty() {
        return Err(malformed());
    }
    let (path, listed) = decode_path(rest.trim_start_matches(white), true, version)?;
    Ok(FetchLine { path, listed, url: url.to_owned(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "900150983cd24fb0d6963f7d28e17f72";

    fn line(text: &str) -> (Result<String, Problem>, Vec<Problem>) {
        let mut warnings = Vec::new();
        let line = parse_line(text, Scope::Payload, Some(Algorithm::Md5), Version::V1_0, &mut |problem| warnings.push(problem));
        (line.map(|line| line.path), warnings)
    }

    #[test]
    fn names_of_manifests_are_recognized() {
        for (name, algorithm) in [
            ("manifest-md5.txt", Some(Algorithm::Md5)),
            ("manifest-sha512.txt", Some(Algorithm::Sha512)),
            ("manifest-SHA-256.txt", Some(Algorithm::Sha256)),
            ("manifest-blake2b.txt", Some(Algorithm::Blake2b512)),
            ("manifest-sha3512.txt", None),
        ] {
            let manifest = Manifest::of_name(name).unwrap();
            assert_eq!((manifest.scope, manifest.algorithm), (Scope::Payload, algorithm), "{name}");
        }
        assert_eq!(Manifest::of_name("tagmanifest-sha1.txt").unwrap().scope, Scope::Tags);
        for name in ["manifest.txt", "manifest-md5", "xmanifest-md5.txt", "bag-info.txt"] {
            assert_eq!(Manifest::of_name(name), None, "{name}");
        }
        for algorithm in Algorithm::ALL {
            let name = file_name(Scope::Tags, algorithm);
            assert_eq!(Manifest::of_name(&name).unwrap().algorithm, Some(algorithm), "{name}");
        }
    }

    #[test]
    fn lines_of_md5sum_are_read_with_warnings() {
        assert_eq!(line(&format!("{DIGEST}  data/a  b ")), (Ok("data/a  b ".into()), vec![]));
        assert_eq!(line(&format!("{DIGEST}\tdata/x")), (Ok("data/x".into()), vec![]));
        assert_eq!(line(&format!("{} *data/x", DIGEST.to_uppercase())), (Ok("data/x".into()), vec![Problem::Asterisk]));
        assert_eq!(line(&format!("{DIGEST}  ./data/x")), (Ok("data/x".into()), vec![Problem::DotSlash]));
        assert_eq!(line(&format!("{DIGEST} *./data/x")), (Ok("data/x".into()), vec![Problem::Asterisk, Problem::DotSlash]));
    }

    #[test]
    fn malformed_lines_are_refused() {
        for text in ["", DIGEST, &format!(" {DIGEST} data/x")] {
            assert_eq!(line(text).0, Err(Problem::MalformedManifestLine), "{text:?}");
        }
        for text in ["00 data/x", &format!("{DIGEST}0 data/x"), &format!("\\{DIGEST} data/x"), "é data/x"] {
            assert!(matches!(line(text).0, Err(Problem::MalformedDigest { .. })), "{text:?}");
        }
        for path in ["", "  ", "x", "../x", "data/../x", "data/%2e%2e/../x", "/data/x", "data\\x"] {
            assert!(matches!(line(&format!("{DIGEST} {path}")).0, Err(Problem::RefusedPath { .. })), "{path:?}");
        }
    }

    #[test]
    fn a_fetch_line_has_a_url_a_length_and_a_path_with_spaces() {
        let read = parse_fetch_line("https://a/b  12\tdata/a b%0A", Version::V1_0).unwrap();
        assert_eq!((read.url.as_str(), read.bytes, read.path.as_str()), ("https://a/b", Some(12), "data/a b\n"));
        assert_eq!(parse_fetch_line("https://a/b - data/x", Version::V1_0).unwrap().bytes, None);
        for text in ["", "u", "u 1", "u -1 data/x", "u +1 data/x", " 1 data/x", "u 99999999999999999999 data/x"] {
            assert_eq!(parse_fetch_line(text, Version::V1_0), Err(Problem::MalformedFetchLine), "{text:?}");
        }
        for path in ["x", "../../x", "data/../x", "~/x", "/x", "bagit.txt", "data/"] {
            let line = format!("https://a/b 1 {path}");
            assert!(matches!(parse_fetch_line(&line, Version::V1_0), Err(Problem::RefusedPath { .. })), "{path:?}");
        }
    }
}
