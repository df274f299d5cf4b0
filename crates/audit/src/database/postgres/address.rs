//! Addresses of databases: `postgres://user@host:port/database?option=value&…`.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

use super::super::DatabaseError;
use super::session::Fault;

/// What the address of a database may say.
const OPTIONS: &str = "host, password, passfile, sslmode or sslrootcert";
const PORT: u16 = 5432;
/// Bytes that a file with passwords may have.
const PASSWORDS_MAX: u64 = 1 << 20;

/// Why the address of a database is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what is wrong, with its fields")]
pub enum AddressProblem {
    #[error("it must have the form postgres://user@host/database")]
    Form,
    #[error("it contains a password, which other users could see: use PGPASSWORD, PGPASSFILE, or ?password=env:NAME or file:PATH")]
    Password,
    #[error("it names no user: postgres://user@host/database")]
    NoUser,
    #[error("it names no database: postgres://user@host/database")]
    NoDatabase,
    #[error("{0:?} is no port")]
    Port(String),
    #[error("it contains a %-sequence that isn't UTF-8, or a NUL character")]
    Encoding,
    #[error("there is no option {0:?}; options are {OPTIONS}")]
    Option(String),
    #[error("it has two options {0}")]
    Twice(String),
    #[error("sslmode={0} is not supported: use verify-full, or disable on a network that you trust")]
    SslMode(String),
    #[error("a password is named, not given: ?password=env:NAME or ?password=file:PATH")]
    GivenPassword,
    #[error("{what}: {why}")]
    Unusable { what: String, why: String },
}

/// How the way to the server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// Not at all: the server is on this machine, or the operator said so.
    Plain,
    /// TLS, with the server's name and certificate verified.
    Verified,
}

/// Where a database is, and as whom to use it. Passwords are looked up for each connection and not
/// kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerAddress {
    user: String,
    pub(super) host: Host,
    port: u16,
    database: String,
    password: Option<String>,
    passfile: Option<PathBuf>,
    pub(super) protection: Protection,
    pub(super) authorities: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// A name or an address.
    Tcp(String),
    /// The folder of the server's socket.
    Unix(PathBuf),
}

impl ServerAddress {
    /// Reads an address.
    pub(super) fn parse(url: &str) -> Result<Self, DatabaseError> {
        Self::read(url).map_err(|problem| DatabaseError::Address { problem })
    }

    fn read(url: &str) -> Result<Self, AddressProblem> {
        let rest = rest(url).ok_or(AddressProblem::Form)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') {
            return Err(AddressProblem::Password);
        }
        let (user, database) = (decoded(user)?, decoded(database)?);
        let mut address = Self {
            user,
            host: Host::Tcp(String::new()),
            port: PORT,
            database,
            password: None,
            passfile: None,
            protection: Protection::Verified,
            authorities: None,
        };
        let (mut folder, mut mode) = (None, None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| AddressProblem::Option(option.to_owned()))?;
            let value = decoded(value)?;
            let slot = match name {
                "host" => &mut folder,
                "sslmode" => &mut mode,
                "password" if value.starts_with("env:") || value.starts_with("file:") => &mut address.password,
                "password" => return Err(AddressProblem::GivenPassword),
                "passfile" => {
                    if address.passfile.replace(value.into()).is_some() {
                        return Err(AddressProblem::Twice(name.to_owned()));
                    }
                    continue;
                }
                "sslrootcert" => &mut address.authorities,
                _ => return Err(AddressProblem::Option(name.to_owned())),
            };
            if slot.replace(value).is_some() {
                return Err(AddressProblem::Twice(name.to_owned()));
            }
        }
        let (host, port) = split_port(host)?;
        address.port = port.unwrap_or(PORT);
        let host = folder.map_or_else(|| decoded(host), Ok)?;
        address.host = match host.as_str() {
            "" => Host::Tcp("localhost".to_owned()),
            folder if folder.starts_with('/') => Host::Unix(folder.into()),
            _ => Host::Tcp(host),
        };
        address.protection = match mode.as_deref() {
            Some("disable") => Protection::Plain,
            Some("verify-full") if matches!(address.host, Host::Tcp(_)) => Protection::Verified,
            None if address.is_local() => Protection::Plain,
            None => Protection::Verified,
            Some(other) => return Err(AddressProblem::SslMode(other.to_owned())),
        };
        if address.user.is_empty() {
            return Err(AddressProblem::NoUser);
        }
        if address.database.is_empty() {
            return Err(AddressProblem::NoDatabase);
        }
        Ok(address)
    }

    /// True if nothing leaves this machine on the way to the server.
    fn is_local(&self) -> bool {
        match &self.host {
            Host::Unix(_) => true,
            Host::Tcp(host) => host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        }
    }

    /// The settings of a new connection, with the password.
    pub(super) fn config(&self) -> Result<tokio_postgres::Config, Fault> {
        let mut config = tokio_postgres::Config::new();
        config.user(&self.user).dbname(&self.database).port(self.port).application_name("fulgurite audit");
        match &self.host {
            Host::Tcp(host) => config.host(host),
            Host::Unix(folder) => config.host_path(folder),
        };
        config.ssl_mode(if self.protection == Protection::Plain { SslMode::Disable } else { SslMode::Require });
        config.keepalives_idle(Duration::from_secs(30)).keepalives_interval(Duration::from_secs(10)).keepalives_retries(3);
        config.tcp_user_timeout(Duration::from_secs(60));
        let password = self.secret().map_err(|problem| Fault::Database(DatabaseError::Address { problem }))?;
        if let Some(password) = password {
            config.password(password);
        }
        Ok(config)
    }

    fn secret(&self) -> Result<Option<String>, AddressProblem> {
        if let Some(named) = &self.password {
            let unusable = |why: String| AddressProblem::Unusable { what: format!("password={named}"), why };
            let password = match named.split_once(':') {
                Some(("env", name)) => std::env::var(name).map_err(|error| unusable(error.to_string()))?,
                Some((_, path)) => {
                    let text = text(Path::new(path)).map_err(|error| unusable(error.to_string()))?;
                    // Editors end files with a line end, which belongs to no password.
                    text.trim_end_matches(['\n', '\r']).to_owned()
                }
                None => return Err(AddressProblem::GivenPassword),
            };
            return if password.is_empty() { Err(unusable("it is empty".to_owned())) } else { Ok(Some(password)) };
        }
        if let Some(password) = std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty()) {
            return Ok(Some(password));
        }
        let path = self.passfile.clone().or_else(|| std::env::var_os("PGPASSFILE").map(PathBuf::from));
        let (path, must_exist) = match (path, std::env::var_os("HOME")) {
            (Some(path), _) => (path, true),
            (None, Some(home)) => (Path::new(&home).join(".pgpass"), false),
            (None, None) => return Ok(None),
        };
        match text(&path) {
            Ok(text) => Ok(self.password_in(&text)),
            Err(_) if !must_exist => Ok(None),
            Err(error) => Err(AddressProblem::Unusable { what: format!("passfile {}", path.display()), why: error.to_string() }),
        }
    }

    /// Finds the password in lines of `host:port:database:user:password`, with `*` for any, as
    /// PostgreSQL's own programs do.
    fn password_in(&self, text: &str) -> Option<String> {
        let host = match &self.host {
            Host::Tcp(host) => host.clone(),
            Host::Unix(_) => "localhost".to_owned(),
        };
        let port = self.port.to_string();
        let wanted = [host.as_str(), port.as_str(), &self.database, &self.user];
        text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let fields = fields(line);
            let [given @ .., password] = &fields[..] else { return None };
            let fits = given.len() == wanted.len() && given.iter().zip(wanted).all(|(given, wanted)| given == "*" || given == wanted);
            fits.then(|| password.clone())
        })
    }
}

/// Without a password.
impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Tcp(host) if host.contains(':') => write!(f, "postgres://{}@[{host}]:{}/{}", self.user, self.port, self.database),
            Host::Tcp(host) => write!(f, "postgres://{}@{host}:{}/{}", self.user, self.port, self.database),
            Host::Unix(folder) => write!(f, "postgres://{}@:{}/{}?host={}", self.user, self.port, self.database, folder.display()),
        }
    }
}

/// What follows the scheme of a database's address; `None` for any other text.
pub(super) fn rest(url: &str) -> Option<&str> {
    url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))
}

fn decoded(text: &str) -> Result<String, AddressProblem> {
    let text: Cow<'_, str> = percent_decode_str(text).decode_utf8().map_err(|_| AddressProblem::Encoding)?;
    if text.contains('\0') { Err(AddressProblem::Encoding) } else { Ok(text.into_owned()) }
}

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
fn split_port(host: &str) -> Result<(&str, Option<u16>), AddressProblem> {
    let (host, port) = match host.strip_prefix('[') {
        Some(bracketed) => {
            let (address, port) = bracketed.split_once(']').ok_or(AddressProblem::Form)?;
            (address, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or(AddressProblem::Form)?) })
        }
        None => host.split_once(':').map_or((host, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(|port| port.parse().ok().filter(|port| *port != 0).ok_or_else(|| AddressProblem::Port(port.to_owned())));
    Ok((host, port.transpose()?))
}

/// Splits a line of a password file: a backslash takes the next character as it is. The last of the
/// five fields ends with the line.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ':' if fields.len() < 5 => fields.push(String::new()),
            character => {
                let plain = if character == '\\' { characters.next() } else { Some(character) };
                if let (Some(plain), Some(field)) = (plain, fields.last_mut()) {
                    field.push(plain);
                }
            }
        }
    }
    fields
}

fn text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(PASSWORDS_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_where_who_and_how() {
        let of = |url: &str| ServerAddress::read(url).expect(url);
        let address = of("postgres://fix%40y@db.example.org/audit");
        assert_eq!((address.user.as_str(), address.database.as_str(), address.port), ("fix@y", "audit", 5432));
        assert_eq!((&address.host, address.protection), (&Host::Tcp("db.example.org".into()), Protection::Verified));
        assert_eq!(of("postgresql://u@127.0.0.1:5433/a").protection, Protection::Plain);
        assert_eq!(of("postgres://u@localhost/a?sslmode=verify-full&sslrootcert=/ca.pem").authorities.as_deref(), Some("/ca.pem"));
        assert_eq!(of("postgres://u@db/a?sslmode=disable").protection, Protection::Plain);
        let ipv6 = of("postgres://u@[::1]:7/a");
        assert_eq!((&ipv6.host, ipv6.port, ipv6.protection), (&Host::Tcp("::1".into()), 7, Protection::Plain));
        let unix = of("postgres://u@/a?host=/run/postgresql");
        assert_eq!((&unix.host, unix.protection), (&Host::Unix("/run/postgresql".into()), Protection::Plain));
        for address in [address, ipv6, unix] {
            let again = of(&address.to_string().replace("fix@y", "fix%40y"));
            assert_eq!((again.host, again.port, again.database), (address.host, address.port, address.database));
        }
    }

    #[test]
    fn unusable_addresses_say_why_and_repeat_no_password() {
        let cases = [
            ("mysql://u@h/d", AddressProblem::Form),
            ("postgres://u:s3cret@h/d", AddressProblem::Password),
            ("postgres://u@h/d?password=s3cret", AddressProblem::GivenPassword),
            ("postgres://h/d", AddressProblem::NoUser),
            ("postgres://u@h", AddressProblem::NoDatabase),
            ("postgres://u@h:0/d", AddressProblem::Port("0".into())),
            ("postgres://u@h:99999/d", AddressProblem::Port("99999".into())),
            ("postgres://u@[::1/d", AddressProblem::Form),
            ("postgres://u@h/%FF", AddressProblem::Encoding),
            ("postgres://u@h/a%00b", AddressProblem::Encoding),
            ("postgres://u@h/d?sslmode=require", AddressProblem::SslMode("require".into())),
            ("postgres://u@/d?host=/run&sslmode=verify-full", AddressProblem::SslMode("verify-full".into())),
            ("postgres://u@h/d?options=x", AddressProblem::Option("options".into())),
            ("postgres://u@h/d?sslmode=disable&sslmode=disable", AddressProblem::Twice("sslmode".into())),
            ("postgres://u@h/d?passfile=a&passfile=b", AddressProblem::Twice("passfile".into())),
        ];
        for (url, problem) in cases {
            let found = ServerAddress::read(url).expect_err(url);
            assert_eq!(found, problem, "{url}");
            assert!(!found.to_string().contains("s3cret"), "{found}");
        }
    }

    #[test]
    fn password_files_are_read_as_by_postgresql() {
        let address = ServerAddress::read("postgres://u@db:5433/a").expect("an address");
        let text = "# comment\nother:*:*:*:1\ndb:5432:*:*:2\nshort:line\ndb:5433:a:u:p\\:a:ss\n*:*:*:*:late\n";
        assert_eq!(address.password_in(text).as_deref(), Some("p:a:ss"));
        assert_eq!(address.password_in("*:*:*:v:x\n"), None);
        let unix = ServerAddress::read("postgres://u@/a?host=/run").expect("an address");
        assert_eq!(unix.password_in("localhost:5432:a:u:secret").as_deref(), Some("secret"));
    }

    #[test]
    fn passwords_come_from_named_files_and_are_never_shown() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("password");
        let address = |option: &str| ServerAddress::read(&format!("postgres://u@db/a?{option}={}", path.display())).expect("an address");
        let named = address("password=file:").secret();
        assert!(matches!(named, Err(AddressProblem::GivenPassword | AddressProblem::Unusable { .. })), "{named:?}");
        std::fs::write(&path, "s3cret\n").expect("a file");
        let named = ServerAddress::read(&format!("postgres://u@db/a?password=file:{}", path.display())).expect("an address");
        assert_eq!(named.secret(), Ok(Some("s3cret".to_owned())));
        assert!(!format!("{named} {named:?}").contains("s3cret"));
        let config = format!("{:?}", named.config().expect("usable"));
        assert!(!config.contains("s3cret"), "{config}");
        std::fs::write(&path, "").expect("a file");
        assert!(named.secret().is_err());
    }
}
