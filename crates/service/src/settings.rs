//! Settings of the service: `service.toml` in the archive's folder. The first start creates the
//! file, with defaults and comments.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::state::Quota;

/// Minimum length of a token of the dashboard.
const TOKEN_BYTES_MIN: usize = 16;

/// The name of the settings file.
pub const FILE: &str = "service.toml";

/// The contents of a new `service.toml`: every default, with a comment.
const DEFAULT: &str = r#"# Settings of `fulgurite serve`. A setting that is left out has the value shown here.

# The address and port to listen on. Other machines can connect only if the address isn't a loopback
# address; set up [tls] in that case.
listen = "127.0.0.1:9000"

# The region that clients must name in requests.
region = "us-east-1"

# With domain = "s3.example.org", requests to bucket.s3.example.org (on any port) address that bucket.
# Without a domain, the bucket is the first segment of the path.
# domain = "s3.example.org"

# Memory limit of the whole server, in MiB. It includes the memory for writing platters
# (limits.memory_mib in fulgurite.toml) and everything that clients can make the server allocate. If
# `connections` would need more than half of the memory left for clients, the server accepts fewer
# connections.
memory_mib = 1664

# Maximum number of connections: in total, and per address (an IPv4 address or an IPv6 /64 network).
# At the limit, the server closes the connections that have been idle longest to admit new ones.
# connections_per_address = 0 turns the limit per address off: use it behind a proxy, where all
# connections come from one address.
connections = 1024
connections_per_address = 512

# Clients that send this bearer token can read the Prometheus metrics at /-/metrics. Without a token,
# only this machine can read them, by the name localhost or a loopback address, and not through a proxy.
# metrics_token = "…"

# The certificate and key (PEM) turn TLS on. Relative paths start at this folder. The server looks for
# changes of both files each minute.
# [tls]
# certificate = "certificate.pem"
# key = "key.pem"

[dashboard]
# Pages for people at /-/dashboard. They show names, sizes and health of all objects, to browsers that
# send the token.
enabled = true

# The token: 16 or more letters, digits, "-" and "_". Without one, each start makes a new one and
# prints a link with it.
# token = "…"

[staging]
# Maximum MiB of content in staging. The server writes a set early when staging is three-quarters full
# or a put doesn't fit. Such a put gets 503 SlowDown; the client should retry. An object larger than
# the limit is accepted when staging is empty. staging.limit_mib in fulgurite.toml limits the segment
# files on disk, for commands and the server alike; objects larger than that limit are always refused.
# If both are set, both apply. Whether or not they are set, puts leave 256 MiB of the disk free.
# limit_mib = 65536

[background]
# Staged objects are written to platters when they fill a set, or when the oldest has been staged for
# this many hours.
flush_after_hours = 24

# Multipart uploads that aren't completed within this many days are aborted.
abandon_uploads_after_days = 30

[scrub]
# Each platter is read and verified in full once in this many days, the one verified longest ago first
# and at an even pace. What is staged is verified once a day.
# 0 turns this off: then only `fulgurite verify` and `fulgurite scrub` verify platters.
every_days = 30

# Maximum read rate of the scrub, in MiB/s. It is halved while clients make requests.
mib_per_s = 20

# Rewrite platters that are damaged, or missing from a store that is present. Platters on absent or
# unreadable stores are never rewritten.
repair = true

[restores]
# Limits per account, unless `fulgurite accounts quota` sets others: open restores, and GiB requested
# per day (UTC). A disk that reads 120 MB/s reads 9.4 TiB a day.
open_per_account = 10000
gib_a_day_per_account = 10240

[library]
# A robotic library with emulated shuttles and drives: restores wait until shuttles have brought the
# platters to drives. "none": no library, restores read the stores one after another. "early": 20
# shuttles and 20 drives. Anything else names a file with a library's settings
# (docs/library-settings.md), relative to the archive's folder.
layout = "none"

# How many times as fast as real time the library runs: 1 to 100000.
time_scale = 1

# Write a journal of each run to the folder library of the archive, for `fulgurite twin replay` and
# `fulgurite twin watch`. 3 restores a second make 2.6 million lines a day at time_scale = 1. The
# journals of the last 10 runs are kept.
journal = false

# A journal ends when it has this many MiB; the library goes on without one.
journal_mib = 1024

[traces]
# A file for traces of restores, relative to the archive's folder: one line of JSON for each restore
# that ends, in the format of OpenTelemetry (OTLP). "": no traces.
file = ""
"#;

/// The settings of the service. [`Default`] gives the values in a new `service.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// The region that clients must name in requests.
    pub region: String,
    /// A domain whose subdomains address buckets.
    pub domain: Option<String>,
    /// Memory limit of the whole server, in MiB.
    pub memory_mib: u64,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of open connections per address; 0 is no limit.
    pub connections_per_address: usize,
    /// The bearer token for `/-/metrics`. Without one, only this machine can read them, by a
    /// loopback address or `localhost`.
    pub metrics_token: Option<String>,
    /// Certificate and key for TLS.
    pub tls: Option<Tls>,
    /// Pages for people.
    pub dashboard: Dashboard,
    /// Limit on staged content.
    pub staging: Staging,
    /// Background jobs.
    pub background: Background,
    /// How the server verifies platters.
    pub scrub: Scrub,
    /// Default limits of an account's restores.
    pub restores: Restores,
    /// The robotic library.
    pub library: Library,
    /// Traces of restores.
    pub traces: Traces,
}

/// Traces of restores.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Traces {
    /// The file, relative to the archive's folder; empty for none.
    pub file: String,
}

/// The robotic library.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Library {
    /// `none`, `early`, or a file with settings of a library.
    pub layout: String,
    /// How many times as fast as real time it runs.
    pub time_scale: NonZeroU32,
    /// Whether it writes journals.
    pub journal: bool,
    /// The greatest length of a journal, in MiB.
    pub journal_mib: NonZeroU32,
}

/// About ten days of 3 restores a second, in real time.
const JOURNAL_MIB: NonZeroU32 = NonZeroU32::new(1024).expect("it isn't 0");

impl Default for Library {
    fn default() -> Self {
        Self { layout: "none".to_owned(), time_scale: NonZeroU32::MIN, journal: false, journal_mib: JOURNAL_MIB }
    }
}

/// TLS certificate and key files (PEM). Relative paths start at the archive's folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain: the server's certificate, then intermediate ones.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

/// The dashboard: pages for people.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dashboard {
    /// Whether it is served.
    pub enabled: bool,
    /// The token that browsers must send. Without one, each start makes a new one.
    pub token: Option<DashboardToken>,
}

impl Default for Dashboard {
    fn default() -> Self {
        Self { enabled: true, token: None }
    }
}

/// A token that is hard to guess.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DashboardToken(String);

impl DashboardToken {
    /// The token itself, a secret.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DashboardToken {
    type Error = WeakToken;

    fn try_from(token: String) -> Result<Self, WeakToken> {
        let is_good =
            token.len() >= TOKEN_BYTES_MIN && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if is_good { Ok(Self(token)) } else { Err(WeakToken) }
    }
}

/// A token that is too short, or that links and headers can't carry.
#[derive(Debug, thiserror::Error)]
#[error("a token of the dashboard needs {TOKEN_BYTES_MIN} or more letters, digits, `-` and `_`")]
pub struct WeakToken;

impl fmt::Debug for DashboardToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardToken").finish_non_exhaustive()
    }
}

/// Limit on staged content.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Staging {
    /// Maximum MiB of content that may wait to be written to platters. Without it, the disk and the
    /// archive's `staging.limit_mib` are the limits.
    pub limit_mib: Option<u64>,
}

impl Staging {
    /// Maximum bytes of content that may wait to be written to platters.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_mib.map(|mib| mib.saturating_mul(1 << 20))
    }
}

/// Background jobs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// Hours after which a staged object is written to platters, even if it doesn't fill a set.
    pub flush_after_hours: u64,
    /// Days after which an incomplete multipart upload is aborted.
    pub abandon_uploads_after_days: u64,
}

/// How the server verifies platters on its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scrub {
    /// Days after which a platter is verified again; 0 turns this off.
    pub every_days: u64,
    /// Maximum read rate, in MiB/s.
    pub mib_per_s: u64,
    /// Whether damaged or missing platters are rewritten.
    pub repair: bool,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { every_days: 30, mib_per_s: 20, repair: true }
    }
}

/// Default limits of an account without a quota of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Restores {
    /// Maximum number of open restores.
    pub open_per_account: u64,
    /// Maximum GiB requested per day.
    pub gib_a_day_per_account: u64,
}

impl Default for Restores {
    fn default() -> Self {
        Self { open_per_account: 10_000, gib_a_day_per_account: 10_240 }
    }
}

impl Restores {
    /// The limits as a quota, in bytes.
    #[must_use]
    pub fn quota(&self) -> Quota {
        Quota { open: self.open_per_account, bytes_a_day: self.gib_a_day_per_account.saturating_mul(1 << 30) }
    }
}

impl Default for Background {
    fn default() -> Self {
        Self { flush_after_hours: 24, abandon_uploads_after_days: 30 }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9_000)),
            region: "us-east-1".to_owned(),
            domain: None,
            memory_mib: 1_664,
            connections: 1_024,
            connections_per_address: 512,
            metrics_token: None,
            tls: None,
            dashboard: Dashboard::default(),
            staging: Staging::default(),
            background: Background::default(),
            scrub: Scrub::default(),
            restores: Restores::default(),
            library: Library::default(),
            traces: Traces::default(),
        }
    }
}

impl Background {
    /// Time after which a staged object is written to platters, even if it doesn't fill a set.
    #[must_use]
    pub fn flush_after(&self) -> Duration {
        Duration::from_secs(self.flush_after_hours.saturating_mul(3_600))
    }
}

/// Why the settings can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file can't be read or created.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file isn't valid TOML, or has an unknown or invalid setting.
    #[error("{path}: {source}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
}

impl Settings {
    /// Reads the settings of the archive in `home`. Returns the defaults if the file is missing.
    ///
    /// # Errors
    /// [`SettingsError`] if the file can't be read or parsed.
    pub fn read(home: &Path) -> Result<Self, SettingsError> {
        let path = home.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(SettingsError::Io { path, source }),
        };
        toml::from_str(&text).map_err(|source| SettingsError::Wrong { path, source: Box::new(source) })
    }

    /// If the settings file is missing, creates it with the defaults.
    ///
    /// # Errors
    /// [`SettingsError`] if the file can't be created.
    pub fn make_if_missing(home: &Path) -> Result<(), SettingsError> {
        let path = home.join(FILE);
        let made = match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make(home, &path),
            other => other.map(drop),
        };
        made.map_err(|source| SettingsError::Io { path, source })
    }
}

/// Creates the file atomically. Only the owner may read it, since it may hold a token.
fn make(home: &Path, path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let fresh = home.join(format!("{FILE}.new"));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(DEFAULT.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_holds_the_defaults() {
        assert_eq!(toml::from_str::<Settings>(DEFAULT).expect("settings"), Settings::default());
    }

    #[test]
    fn a_new_file_mentions_every_setting() {
        for section in ["", "[tls]", "[dashboard]", "[staging]", "[background]", "[scrub]", "[restores]", "[library]"] {
            let error = toml::from_str::<Settings>(&format!("{section}\nno_such_setting = 0")).expect_err("an unknown setting");
            // The message lists the settings: "unknown field `a`, expected one of `b`, `c`".
            let settings: Vec<&str> = error.message().split('`').skip(3).step_by(2).collect();
            assert!(!settings.is_empty(), "{error}");
            for setting in settings {
                let (value, header) = (format!("{setting} = "), format!("[{setting}]"));
                let mut lines = DEFAULT.lines().map(|line| line.trim_start_matches("# "));
                assert!(lines.any(|line| line.starts_with(&value) || line == header), "{section} {setting} is missing");
            }
        }
    }
}
