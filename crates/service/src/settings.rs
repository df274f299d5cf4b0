//! Settings of the service: `service.toml` in the archive's folder, made with its defaults and comments by the first start.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::state::Quota;

/// The file's name.
pub const FILE: &str = "service.toml";

/// What the first start writes.
const DEFAULT: &str = r#"# Settings of `fulgurite serve`. A setting that isn't here has the value shown.

# Where to listen. Other machines reach it only if this isn't a loopback address; see [tls] then.
listen = "127.0.0.1:9000"

# The region that clients have to name.
region = "us-east-1"

# A domain whose subdomains are buckets: with "s3.example.org", bucket.s3.example.org is a bucket, on any port. Without it, buckets are the first part of paths.
# domain = "s3.example.org"

# The memory of the whole server, MiB: what writing platters may take (limits.memory_mib in fulgurite.toml) and all that clients can make it take. Where
# `connections` would take more than half of what is left of it for clients, there are fewer of them.
memory_mib = 1664

# Connections at once, and from one address (an IPv4 address, or an IPv6 /64). When there are as many, those that have been idle for longest are closed for
# new ones. 0 is no limit by address: for a server behind a proxy, from which all connections come.
connections = 1024
connections_per_address = 512

# Figures for Prometheus are at /-/metrics, for clients that send this as a bearer token. Without it,
# only this machine can read them: by the name localhost or a loopback address, and not through a proxy.
# metrics_token = "…"

# With these two, connections are TLS. Files in PEM; relative paths are from this folder. They are read when the server starts.
# [tls]
# certificate = "certificate.pem"
# key = "key.pem"

[staging]
# Most MiB of content that may wait in staging. When a put doesn't fit, a set is written at once, and the client is asked to try again (503 SlowDown).
# An object larger than this is accepted while nothing waits. staging.limit_mib in fulgurite.toml bounds the segment files on disk, for commands and the
# server alike, and no object may exceed it. If both are set, both apply. Without either, staging takes what its disk has, less 256 MiB.
# limit_mib = 65536

[background]
# What is staged is written to platters when there is enough for a set, or when the oldest of it has waited for so many hours.
flush_after_hours = 24

# Uploads in parts that were begun so many days ago and never completed are given up.
abandon_uploads_after_days = 30

[scrub]
# Every platter is read in full so often, the longest unverified first; with 0, only by `fulgurite verify` and `fulgurite scrub`.
every_days = 30

# At most so much is read in a second; while clients make requests, half of it.
mib_per_s = 20

# Whether damaged platters, and those missing from a store that is there, are written anew. Platters on absent or unreadable stores never are.
repair = true

[restores]
# What an account may ask for, unless `fulgurite accounts quota` says otherwise: restores that are open at once, and GiB in a day (UTC).
# 10 TiB are what one disk gives at 120 MB/s.
open_per_account = 10000
gib_a_day_per_account = 10240
"#;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The region that clients name.
    pub region: String,
    /// A domain whose subdomains are buckets.
    pub domain: Option<String>,
    /// Memory of the whole server, MiB.
    pub memory_mib: u64,
    /// Connections at once.
    pub connections: usize,
    /// Connections from one address; 0 for no limit.
    pub connections_per_address: usize,
    /// Who has this may read `/-/metrics`; without it, this machine may, by a loopback address or `localhost`.
    pub metrics_token: Option<String>,
    /// Certificate and key, for TLS.
    pub tls: Option<Tls>,
    /// How much may be staged.
    pub staging: Staging,
    /// What is done beside requests.
    pub background: Background,
    /// How platters are verified.
    pub scrub: Scrub,
    /// What an account may ask for.
    pub restores: Restores,
}

/// Files for TLS, in PEM. Relative paths are from the archive's folder.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate, and those between it and its authority's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How much may be staged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Staging {
    /// Most MiB of content that may wait to be written to platters; without it, what the disk and `staging.limit_mib` of the archive have room for.
    pub limit_mib: Option<u64>,
}

impl Staging {
    /// Most bytes that may wait to be written to platters.
    #[must_use]
    pub fn limit_bytes(&self) -> Option<u64> {
        self.limit_mib.map(|mib| mib.saturating_mul(1 << 20))
    }
}

/// What is done beside requests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// How long something stays staged at most, in hours.
    pub flush_after_hours: u64,
    /// After how many days uploads in parts are given up.
    pub abandon_uploads_after_days: u64,
}

/// How the server verifies platters by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scrub {
    /// Days after which a platter is verified again; 0 switches it off.
    pub every_days: u64,
    /// MiB that are read in a second at most.
    pub mib_per_s: u64,
    /// Whether platters that are damaged or missing are written anew.
    pub repair: bool,
}

impl Default for Scrub {
    fn default() -> Self {
        Self { every_days: 30, mib_per_s: 20, repair: true }
    }
}

/// What an account may ask for, unless it has a quota of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Restores {
    /// Restores that may be open at once.
    pub open_per_account: u64,
    /// GiB that may be asked for in a day.
    pub gib_a_day_per_account: u64,
}

impl Default for Restores {
    fn default() -> Self {
        Self { open_per_account: 10_000, gib_a_day_per_account: 10_240 }
    }
}

impl Restores {
    /// As the state counts it.
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
            staging: Staging::default(),
            background: Background::default(),
            scrub: Scrub::default(),
            restores: Restores::default(),
        }
    }
}

impl Background {
    /// How long something stays staged at most.
    #[must_use]
    pub fn flush_after(&self) -> Duration {
        Duration::from_secs(self.flush_after_hours.saturating_mul(3_600))
    }
}

/// Settings that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file can't be read or made.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file has something wrong in it.
    #[error("{path}: {source}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What and where.
        source: Box<toml::de::Error>,
    },
}

impl Settings {
    /// Reads the settings of the archive in `home`; makes the file if there is none.
    ///
    /// # Errors
    /// [`SettingsError`] says what is wrong where.
    pub fn read_or_make(home: &Path) -> Result<Self, SettingsError> {
        let path = home.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                make(home, &path).map_err(|source| SettingsError::Io { path: path.clone(), source })?;
                DEFAULT.to_owned()
            }
            Err(source) => return Err(SettingsError::Io { path, source }),
        };
        toml::from_str(&text).map_err(|source| SettingsError::Wrong { path, source: Box::new(source) })
    }
}

/// Makes the file, whole or not at all. It is the owner's alone, since a token may be written into it.
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
    fn the_file_that_is_made_says_what_the_defaults_are() {
        assert_eq!(toml::from_str::<Settings>(DEFAULT).expect("settings"), Settings::default());
    }
}
