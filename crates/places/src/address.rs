//! Addresses: which place, and how to reach it, in a form that can be stored and shown.
//!
//! ```text
//! s3://bucket/prefix   endpoint=https://s3.example.org  access_key_id=AK  secret_access_key=env:KEY
//! scheme  path         options; those that are secret name a variable or a file
//! ```
//!
//! Paths are taken literally, not percent-decoded, except those of `https` and `webdav`, which
//! are parts of URLs.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

#[cfg(not(feature = "remote"))]
use super::Cause;
use super::deadlines::Deadlines;
#[cfg(feature = "remote")]
use super::secret;
use super::{Folder, Place, Refusal, Sftp};

/// Where a place is. Contains no secret, only the names of variables and files that do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub(super) kind: Kind,
    /// The part of the URL after the scheme.
    pub(super) path: String,
    pub(super) options: BTreeMap<String, String>,
    /// As it was given, for https and webdavs.
    scheme: &'static str,
}

/// Why a URL with options is no [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The URL has no known scheme.
    #[error("unknown kind of place {scheme:?}; known are /path, {}", Address::examples(false).join(", "))]
    Scheme {
        /// What stands for the scheme.
        scheme: String,
    },
    /// The rest of the URL is unusable.
    #[error("invalid place {url:?}: {problem}; expected {example}")]
    Url {
        /// The URL, without a password that it may have contained.
        url: String,
        /// What is wrong.
        problem: &'static str,
        /// A URL of this kind.
        example: &'static str,
    },
    /// This kind of place has no such option.
    #[error("{scheme} places have no option {option:?}; known are {}", known.join(", "))]
    UnknownOption {
        /// The kind of place.
        scheme: &'static str,
        /// The unknown option.
        option: String,
        /// All options of this kind of place.
        known: Vec<&'static str>,
    },
    /// An option is given twice.
    #[error("the option {option} is given twice")]
    Repeated {
        /// The option.
        option: &'static str,
    },
    /// A required option is missing.
    #[error("{scheme} places need {needed}")]
    MissingOption {
        /// The kind of place.
        scheme: &'static str,
        /// The missing option, or several of which one is needed.
        needed: &'static str,
    },
    /// A secret is given literally.
    #[error(
        "{option} is a secret and must not be given literally; put it into an environment variable \
         or a file, and write {option}=env:NAME or {option}=file:PATH"
    )]
    LiteralSecret {
        /// The option.
        option: &'static str,
    },
    /// A value can't be used.
    #[error("invalid value {value:?} of {option}: {problem}")]
    Value {
        /// The option.
        option: &'static str,
        /// Its value, or where it comes from.
        value: String,
        /// What is wrong.
        problem: &'static str,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    Sftp,
    S3,
    Azblob,
    Gcs,
    Swift,
    B2,
    Webdav,
    Web,
}

struct Scheme {
    name: &'static str,
    kind: Kind,
    example: &'static str,
}

const fn scheme(name: &'static str, kind: Kind, example: &'static str) -> Scheme {
    Scheme { name, kind, example }
}

const SCHEMES: [Scheme; 11] = [
    scheme("folder", Kind::Folder, "folder:/path"),
    scheme("s3", Kind::S3, "s3://bucket/prefix"),
    scheme("azblob", Kind::Azblob, "azblob://container/prefix"),
    scheme("gcs", Kind::Gcs, "gcs://bucket/prefix"),
    scheme("swift", Kind::Swift, "swift://container/prefix"),
    scheme("b2", Kind::B2, "b2://bucket/prefix"),
    scheme("sftp", Kind::Sftp, "sftp://user@host:port/path"),
    scheme("webdavs", Kind::Webdav, "webdavs://host/path"),
    scheme("webdav", Kind::Webdav, "webdav://host/path"),
    scheme("https", Kind::Web, "https://host/path"),
    scheme("http", Kind::Web, "http://host/path"),
];

const DEADLINES: [&str; 3] = ["connect_timeout", "first_byte_timeout", "stall_timeout"];

impl Kind {
    /// Options that anyone may see.
    fn plain(self) -> &'static [&'static str] {
        match self {
            Self::Folder => &["marker"],
            Self::Sftp => &["key", "known_hosts", "config", "marker"],
            Self::S3 => &[
                "endpoint",
                "region",
                "access_key_id",
                "anonymous",
                "credentials",
                "profile",
                "role_arn",
                "enable_virtual_host_style",
                "default_storage_class",
                "disable_list_objects_v2",
                "enable_request_payer",
            ],
            Self::Azblob => &["endpoint", "account_name", "anonymous"],
            Self::Gcs => &["endpoint", "credential_path", "anonymous", "credentials", "default_storage_class"],
            Self::Swift => &[
                "endpoint",
                "auth_url",
                "user",
                "username",
                "user_domain_name",
                "user_domain_id",
                "project_name",
                "project_id",
                "project_domain_name",
                "project_domain_id",
                "application_credential_id",
                "region",
                "interface",
                "credentials",
            ],
            Self::B2 => &["endpoint", "bucket_id", "application_key_id"],
            Self::Webdav | Self::Web => &["username"],
        }
    }

    fn secret(self) -> &'static [&'static str] {
        match self {
            Self::Folder | Self::Sftp => &[],
            Self::S3 => &["secret_access_key", "session_token"],
            Self::Azblob => &["account_key", "sas_token"],
            Self::Gcs => &["credential", "token"],
            Self::Swift => &["token", "key", "password", "application_credential_secret", "temp_url_key"],
            Self::B2 => &["application_key"],
            Self::Webdav | Self::Web => &["password", "token"],
        }
    }

    fn shared(self) -> impl Iterator<Item = &'static str> {
        let deadlines = if self == Self::Folder { &[][..] } else { &DEADLINES[..] };
        let tls = if matches!(self, Self::Folder | Self::Sftp) { &[][..] } else { &["ca_file"][..] };
        deadlines.iter().chain(tls).copied()
    }

    /// True if the option's value is the path of a file on this machine.
    fn is_path(self, option: &str) -> bool {
        match self {
            Self::Sftp => ["key", "known_hosts", "config"].contains(&option),
            Self::Gcs if option == "credential_path" => true,
            _ => option == "ca_file",
        }
    }

    fn options(self) -> Vec<&'static str> {
        self.plain().iter().chain(self.secret()).copied().chain(self.shared()).collect()
    }

    /// Groups of options of which one is required.
    fn needs(self) -> &'static [(&'static [&'static str], &'static str)] {
        match self {
            Self::S3 => &[(
                &["access_key_id", "anonymous", "credentials", "profile"],
                "access_key_id and secret_access_key, or credentials=environment, or profile, or anonymous=true",
            )],
            Self::Azblob => &[
                (&["account_name", "endpoint"], "account_name or endpoint"),
                (&["account_key", "sas_token", "anonymous"], "account_key, or sas_token, or anonymous=true"),
            ],
            Self::Gcs => &[(
                &["credential", "credential_path", "token", "credentials", "anonymous"],
                "credential_path, or credential, or token, or credentials=environment, or anonymous=true",
            )],
            Self::Swift => &[
                (
                    &["token", "key", "password", "application_credential_secret", "credentials"],
                    "application_credential_id and application_credential_secret, or username and password, or user and key \
                     (each with auth_url), or credentials=environment, or endpoint and token",
                ),
                (&["endpoint", "auth_url", "credentials"], "endpoint, the URL of the account, or auth_url"),
            ],
            Self::B2 => {
                &[(&["bucket_id"], "bucket_id"), (&["application_key_id"], "application_key_id"), (&["application_key"], "application_key")]
            }
            _ => &[],
        }
    }

    /// Options that need another one.
    fn pairs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::S3 => &[("access_key_id", "secret_access_key"), ("secret_access_key", "access_key_id")],
            Self::Azblob => &[("account_key", "account_name")],
            Self::Webdav | Self::Web => &[("password", "username")],
            Self::Swift => &[
                ("token", "endpoint"),
                ("user", "key"),
                ("key", "user"),
                ("key", "auth_url"),
                ("username", "password"),
                ("password", "username"),
                ("password", "auth_url"),
                ("application_credential_id", "application_credential_secret"),
                ("application_credential_secret", "application_credential_id"),
                ("application_credential_secret", "auth_url"),
            ],
            _ => &[],
        }
    }
}

impl Address {
    /// A URL of each kind of place; with `is_writable`, only of those that files can be written to.
    #[must_use]
    pub fn examples(is_writable: bool) -> Vec<&'static str> {
        SCHEMES.iter().filter(|scheme| !is_writable || scheme.kind != Kind::Web).map(|scheme| scheme.example).collect()
    }

    /// Reads a URL, or an absolute path of a folder, with options. Looks nothing up.
    ///
    /// # Errors
    /// [`AddressError`] says what is wrong, and what is expected.
    pub fn parse<'a>(url: &str, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, AddressError> {
        let (scheme, path) = match url.split_once(':') {
            _ if url.starts_with('/') => (&SCHEMES[0], url),
            Some((name, rest)) => match SCHEMES.iter().find(|scheme| scheme.name == name) {
                Some(scheme) if scheme.kind == Kind::Folder => (scheme, rest),
                Some(scheme) => {
                    let invalid =
                        AddressError::Url { url: without_password(url), problem: "the scheme needs \"://\"", example: scheme.example };
                    (scheme, rest.strip_prefix("//").ok_or(invalid)?)
                }
                None => return Err(AddressError::Scheme { scheme: name.chars().take(40).collect() }),
            },
            None => return Err(AddressError::Scheme { scheme: url.chars().take(40).collect() }),
        };
        let kind = scheme.kind;
        if let Some(problem) = problem(kind, path) {
            return Err(AddressError::Url { url: without_password(url), problem, example: scheme.example });
        }
        let mut read = BTreeMap::new();
        let known = kind.options();
        for (option, value) in options {
            let Some(option) = known.iter().copied().find(|known| *known == option) else {
                return Err(AddressError::UnknownOption { scheme: scheme.name, option: option.chars().take(40).collect(), known });
            };
            if kind.secret().contains(&option) && !is_reference(value) {
                return Err(AddressError::LiteralSecret { option });
            }
            let invalid = |problem| AddressError::Value { option, value: value.to_owned(), problem };
            if DEADLINES.contains(&option) && seconds(value).is_none() {
                return Err(invalid("use a number of seconds, such as 30 or 2.5"));
            }
            if (option == "anonymous" || option.starts_with("enable_") || option.starts_with("disable_"))
                && !["true", "false"].contains(&value)
            {
                return Err(invalid("use true or false"));
            }
            if option == "credentials" && value != "environment" {
                return Err(invalid("use environment"));
            }
            if option == "interface" && !["public", "internal", "admin"].contains(&value) {
                return Err(invalid("use public, internal or admin"));
            }
            if ["endpoint", "auth_url"].contains(&option) && !is_reference(value) && !is_endpoint(value) {
                return Err(invalid("use https://host or http://host:port, without user, password or query"));
            }
            if option == "marker" && super::location::check(value).is_err() {
                return Err(invalid("use the path of a file below the folder"));
            }
            if read.insert(option.to_owned(), value.to_owned()).is_some() {
                return Err(AddressError::Repeated { option });
            }
        }
        let given = |option: &str| read.get(option).is_some_and(|value| value != "false");
        let missing = kind.needs().iter().find(|(any, _)| !any.iter().any(|option| given(option)));
        if let Some((_, needed)) = missing {
            return Err(AddressError::MissingOption { scheme: scheme.name, needed });
        }
        if let Some((_, needed)) = kind.pairs().iter().find(|(has, needs)| given(has) && !given(needs)) {
            return Err(AddressError::MissingOption { scheme: scheme.name, needed });
        }
        if kind == Kind::Swift {
            let ways = ["token", "key", "password", "application_credential_secret"];
            let mut used = ways.into_iter().filter(|option| given(option));
            if let (Some(_), Some(option)) = (used.next(), used.next()) {
                let problem = "set only one of token, key, password and application_credential_secret";
                return Err(AddressError::Value { option, value: read[option].clone(), problem });
            }
        }
        Ok(Self { kind, path: path.to_owned(), options: read, scheme: scheme.name })
    }

    /// The URL, to be stored and given to [`Self::parse`] again, with [`Self::options`].
    #[must_use]
    pub fn url(&self) -> String {
        let separator = if self.kind == Kind::Folder { ":" } else { "://" };
        format!("{}{separator}{}", self.scheme, self.path)
    }

    /// The options, sorted by name. Secrets are named, not shown.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(option, value)| (option.as_str(), value.as_str()))
    }

    /// Makes relative paths of local files absolute in the options that `which` accepts, because
    /// an audit is run from any folder. This includes the files of secrets, but not the marker.
    ///
    /// # Errors
    /// If the current folder is unknown, or its path isn't UTF-8.
    pub fn make_paths_absolute(&mut self, which: impl Fn(&str) -> bool) -> io::Result<()> {
        for (option, value) in self.options.iter_mut().filter(|(option, _)| which(option)) {
            let (prefix, path) = match value.strip_prefix("file:") {
                Some(path) => ("file:", path),
                // OpenSSH expands these itself.
                None if self.kind == Kind::Sftp && (value == "none" || value.starts_with(['~', '%', '$'])) => continue,
                None if self.kind.is_path(option) && !value.starts_with("env:") => ("", value.as_str()),
                None => continue,
            };
            if path.is_empty() {
                continue;
            }
            let absolute = std::path::absolute(path)?;
            let absolute = absolute.to_str().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path isn't UTF-8"))?;
            *value = format!("{prefix}{absolute}");
        }
        Ok(())
    }

    /// The place at this address. Opens no connection, and looks up no secret.
    ///
    /// # Errors
    /// [`Cause::Unsupported`](super::Cause::Unsupported) if the program was built without support for this kind of place.
    pub fn place(&self) -> Result<Box<dyn Place>, Refusal> {
        match self.kind {
            Kind::Folder => {
                let folder = Folder::new(&self.path);
                match self.options.get("marker") {
                    Some(marker) => Ok(Box::new(folder.with_marker(marker)?)),
                    None => Ok(Box::new(folder)),
                }
            }
            Kind::Sftp => Ok(Box::new(Sftp::new(self)?)),
            #[cfg(feature = "remote")]
            _ => super::remote::place(self),
            #[cfg(not(feature = "remote"))]
            _ => {
                let detail = format!("this program was built without {} places; build it with the feature \"remote\"", self.scheme);
                Err(Refusal::new(Cause::Unsupported, detail))
            }
        }
    }

    #[cfg(feature = "remote")]
    /// An option with its reference looked up.
    pub(super) fn resolved(&self, option: &str) -> Result<Option<String>, Refusal> {
        self.options.get(option).map(|value| secret::resolve(option, value)).transpose()
    }

    #[cfg(feature = "remote")]
    pub(super) fn is_true(&self, option: &str) -> bool {
        self.options.get(option).is_some_and(|value| value == "true")
    }

    #[cfg(feature = "remote")]
    /// All secrets, looked up, so that they can be kept out of messages.
    pub(super) fn secrets(&self) -> Result<Vec<String>, Refusal> {
        self.kind.secret().iter().filter_map(|option| self.resolved(option).transpose()).collect()
    }

    pub(super) fn deadlines(&self) -> Deadlines {
        let default = Deadlines::default();
        let option = |name: &str, default| self.options.get(name).and_then(|value| seconds(value)).unwrap_or(default);
        Deadlines {
            connect: option(DEADLINES[0], default.connect),
            first_byte: option(DEADLINES[1], default.first_byte),
            between_bytes: option(DEADLINES[2], default.between_bytes),
        }
    }

    /// The host, bucket or container, and what follows it without slashes around it.
    pub(super) fn split(&self) -> (&str, &str) {
        let (first, rest) = self.path.split_once('/').unwrap_or((&self.path, ""));
        (first, rest.trim_matches('/'))
    }

    #[cfg(feature = "remote")]
    pub(super) fn scheme(&self) -> &'static str {
        self.scheme
    }
}

impl fmt::Display for Address {
    /// The URL, and the endpoint if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())?;
        match self.options.get("endpoint") {
            Some(endpoint) => write!(f, " at {endpoint}"),
            None => Ok(()),
        }
    }
}

/// True if a value names where a secret is.
fn is_reference(value: &str) -> bool {
    ["env:", "file:"].iter().any(|prefix| value.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
}

fn seconds(value: &str) -> Option<Duration> {
    // At most a day, at least a millisecond.
    let seconds: f64 = value.parse().ok()?;
    (0.001..=86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

pub(super) fn is_endpoint(value: &str) -> bool {
    let host = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/') && !host.contains(['@', '?', '#', ' ']))
}

/// What is wrong with the part of a URL after the scheme.
fn problem(kind: Kind, path: &str) -> Option<&'static str> {
    let first = path.split('/').next().unwrap_or_default();
    if path.contains(char::is_control) {
        return Some("it contains control characters");
    }
    match kind {
        Kind::Folder if !path.starts_with('/') => Some("the path must be absolute"),
        Kind::Folder => None,
        _ if first.is_empty() => Some("the host, bucket or container is missing"),
        Kind::Sftp => {
            let (user, host) = first.rsplit_once('@').unwrap_or(("u", first));
            if user.contains(':') {
                Some("it contains a password; SFTP uses keys, set key=PATH or an agent")
            } else if user.is_empty() || user.starts_with('-') || host.is_empty() || host.starts_with('-') {
                Some("the user or the host is unusable")
            } else if path.len() == first.len() {
                Some("the path is missing; use /~/ for the home folder")
            } else {
                None
            }
        }
        Kind::Webdav | Kind::Web if first.contains('@') => Some("it contains a user; set username and password as options"),
        Kind::Webdav | Kind::Web if path.contains(['?', '#']) => Some("it contains a query or a fragment"),
        Kind::Webdav | Kind::Web if path.contains([' ', '"', '<', '>', '\\', '^', '`', '{', '|', '}']) || !path.is_ascii() => {
            Some("it contains characters that URLs must encode as %XX")
        }
        Kind::Webdav | Kind::Web => None,
        _ if first.contains(['@', ':', '?', '#', ' ']) => Some("the bucket or container is unusable"),
        // Prefixes are joined with locations, so the same rules hold.
        _ => {
            let prefix = path[first.len()..].trim_matches('/');
            let invalid = !prefix.is_empty() && (super::location::check(prefix).is_err() || prefix != prefix.trim());
            invalid.then_some("the prefix contains empty parts, \".\" or \"..\", or spaces around it")
        }
    }
}

/// A URL as an error shows it: whatever precedes an "@" may be a password.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("//").map_or(("", url), |(scheme, rest)| (&url[..scheme.len() + 2], rest));
    let plain = rest.split(['?', '#']).next().unwrap_or_default();
    match plain.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}***@{host}"),
        None => format!("{scheme}{plain}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, options: &[(&str, &str)]) -> String {
        Address::parse(url, options.iter().copied()).expect_err(url).to_string()
    }

    #[test]
    fn addresses_survive_being_stored_and_read_again() {
        let key = [("access_key_id", "AK"), ("secret_access_key", "env:SECRET")];
        for (url, options) in [
            ("/mnt/a b", &[][..]),
            ("folder:/mnt/ü", &[("marker", "here.txt")]),
            ("s3://bucket", &key),
            ("s3://bucket/a/b%20c", &key),
            ("azblob://container/p", &[("account_name", "n"), ("account_key", "file:/k")]),
            ("gcs://bucket/p", &[("anonymous", "true")]),
            ("swift://container", &[("endpoint", "https://host/v1/AUTH_a"), ("token", "env:T"), ("stall_timeout", "0.5")]),
            (
                "swift://container",
                &[("auth_url", "https://host:5000/v3"), ("username", "u"), ("password", "env:P"), ("interface", "internal")],
            ),
            ("swift://container", &[("credentials", "environment"), ("region", "r")]),
            ("b2://bucket", &[("bucket_id", "i"), ("application_key_id", "k"), ("application_key", "env:K")]),
            ("sftp://user@host:2222/~/copies", &[("key", "/k")]),
            ("webdavs://host:8443/dav/p%20q", &[("username", "u"), ("password", "env:P")]),
            ("http://127.0.0.1:80/x", &[]),
        ] {
            let address = Address::parse(url, options.iter().copied()).unwrap_or_else(|error| panic!("{url}: {error}"));
            let again = Address::parse(&address.url(), address.options()).expect("its own form");
            assert_eq!(again, address);
            assert_eq!(address.options().count(), options.len());
        }
    }

    #[test]
    fn paths_of_local_files_become_absolute() {
        let here = std::env::current_dir().expect("a folder").to_str().expect("UTF-8").to_owned();
        let absolute = |url: &str, options: &[(&str, &str)]| {
            let mut address = Address::parse(url, options.iter().copied()).expect("valid");
            address.make_paths_absolute(|option| option != "stall_timeout").expect("absolute");
            address.options().map(|(_, value)| value.replace(&here, "HERE")).collect::<Vec<_>>()
        };
        let sftp = [("config", "none"), ("key", "ssh/key"), ("known_hosts", "~/known"), ("marker", "m")];
        assert_eq!(absolute("sftp://h/p", &sftp), ["none", "HERE/ssh/key", "~/known", "m"]);
        let s3 = [("access_key_id", "a"), ("ca_file", "ca.pem"), ("secret_access_key", "file:s"), ("session_token", "env:T")];
        assert_eq!(absolute("s3://b", &s3), ["a", "HERE/ca.pem", "file:HERE/s", "env:T"]);
        assert_eq!(absolute("gcs://b", &[("credential_path", "a/c"), ("token", "file:/t")]), ["HERE/a/c", "file:/t"]);
        let swift = [("auth_url", "https://h"), ("key", "file:k"), ("user", "u")];
        assert_eq!(absolute("swift://c", &swift), ["https://h", "file:HERE/k", "u"]);
        let mut left = Address::parse("sftp://h/p", [("key", "k")]).expect("valid");
        left.make_paths_absolute(|_| false).expect("nothing to do");
        assert_eq!(left.options().collect::<Vec<_>>(), [("key", "k")]);
    }

    #[test]
    fn literal_secrets_are_refused_and_not_repeated() {
        for (url, option) in [
            ("s3://b", "secret_access_key"),
            ("s3://b", "session_token"),
            ("azblob://c", "account_key"),
            ("azblob://c", "sas_token"),
            ("gcs://b", "credential"),
            ("gcs://b", "token"),
            ("swift://c", "token"),
            ("swift://c", "temp_url_key"),
            ("swift://c", "key"),
            ("swift://c", "password"),
            ("swift://c", "application_credential_secret"),
            ("b2://b", "application_key"),
            ("webdav://h", "password"),
            ("https://h", "token"),
        ] {
            let message = refused(url, &[(option, "hunter2")]);
            assert!(message.contains(&format!("{option}=env:NAME")) && !message.contains("hunter2"), "{message}");
            // An empty reference is a literal, too.
            assert!(refused(url, &[(option, "env:")]).contains("literally"));
        }
    }

    #[test]
    fn passwords_in_urls_are_refused_and_not_repeated() {
        for url in [
            "https://u:hunter2@host/",
            "webdav://u:hunter2@host/p",
            "sftp://u:hunter2@host/p",
            "s3://k:hunter2@bucket",
            "https://u:hunter2@h/?x",
        ] {
            let message = refused(url, &[]);
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn errors_name_what_is_known_and_what_is_missing() {
        let unknown = refused("ftp://host", &[]);
        assert!(["s3://", "sftp://", "folder:/", "\"ftp\""].iter().all(|part| unknown.contains(part)), "{unknown}");
        assert!(refused("copies", &[]).contains("known are /path"));
        let option = refused("s3://b", &[("acces_key", "x")]);
        assert!(option.contains("\"acces_key\"") && option.contains("access_key_id") && option.contains("ca_file"), "{option}");
        assert!(refused("s3://b", &[]).contains("need access_key_id"));
        assert!(refused("s3://b", &[("access_key_id", "x")]).contains("need secret_access_key"));
        assert!(refused("s3://b", &[("anonymous", "false")]).contains("need access_key_id"));
        assert!(refused("azblob://c", &[("sas_token", "env:S")]).contains("need account_name"));
        assert!(refused("swift://c", &[("token", "env:S")]).contains("need endpoint"));
        assert!(refused("swift://c", &[]).contains("application_credential_id and application_credential_secret"));
        assert!(refused("swift://c", &[("token", "env:S"), ("auth_url", "https://h")]).contains("need endpoint"));
        assert!(refused("swift://c", &[("user", "u"), ("key", "env:S")]).contains("need endpoint"));
        let keystone = [("auth_url", "https://h/v3"), ("password", "env:S")];
        assert!(refused("swift://c", &keystone).contains("need username"));
        assert!(
            refused("swift://c", &[&keystone[..], &[("username", "u"), ("token", "env:T"), ("endpoint", "https://h")]].concat())
                .contains("only one of")
        );
        assert!(refused("swift://c", &[("auth_url", "h:5000"), ("password", "env:S")]).contains("https://host"));
        assert!(refused("https://h", &[("password", "env:S")]).contains("need username"));
        assert!(refused("s3://b", &[("connect_timeout", "soon")]).contains("seconds"));
        assert!(refused("s3://b", &[("endpoint", "host:9000")]).contains("https://host"));
        assert!(refused("s3://b", &[("region", "a"), ("region", "b")]).contains("twice"));
    }

    #[test]
    fn unusable_urls_are_refused() {
        for url in [
            "folder:copies",
            "s3:bucket",
            "s3://",
            "s3:///key",
            "s3://b/a//c",
            "s3://b/../c",
            "s3://b/ c",
            "sftp://host",
            "sftp://-oProxyCommand=x/p",
        ] {
            refused(url, &[]);
        }
        for url in ["sftp://-lx@h/p", "sftp://@h/p", "https://h/a b", "https://h/?q", "webdav://h/#f", "https://h/\n", "https://h/ü"] {
            refused(url, &[]);
        }
    }

    #[test]
    fn deadlines_are_read() {
        let address = Address::parse("https://h", [("connect_timeout", "2"), ("stall_timeout", "0.25")]).expect("valid");
        let deadlines = address.deadlines();
        assert_eq!((deadlines.connect, deadlines.between_bytes), (Duration::from_secs(2), Duration::from_millis(250)));
        assert_eq!(deadlines.first_byte, Deadlines::default().first_byte);
        for value in ["0", "-1", "NaN", "inf", "1e9"] {
            refused("https://h", &[("first_byte_timeout", value)]);
        }
    }
}
