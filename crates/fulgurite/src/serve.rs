//! The commands `serve` and `accounts`: the archive over S3.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use fulgurite_archive::{Access, Archive, check_decode_device, check_decode_folder, settings};
use fulgurite_service::memory::{BLOCKING_THREADS, worker_threads};
use fulgurite_service::server::{Listener, Server};
use fulgurite_service::settings::Settings;
use fulgurite_service::state::{self, ExistingState, NewKey, OwnQuota, Recovered, State, StateError};
use fulgurite_service::unclaimed_folders::without_bucket;
use serde_json::json;

use crate::args::{Accounts, Serve};
use crate::diagnostics;
use crate::heap;
use crate::log;
use crate::nested_stores;
use crate::setup::{create_home, default_shape, new_settings, parse_stores};
use crate::signals::StopSignals;
use crate::text::{count, time};
use crate::{Outcome, Session, current_folder};

const FIRST_ACCOUNT: &str = "main";
const GIB: u64 = 1 << 30;
/// Interval at which free memory is returned to the system.
const TRIM_PERIOD: Duration = Duration::from_secs(5);
/// Maximum number of folders without a bucket that a note names.
const NAMED_FOLDERS_MAX: usize = 10;
/// Files that the server has open in addition to its connections: databases, segments, platters,
/// parts.
const OTHER_OPEN_FILES: u64 = 2_048;

/// Where the server listens.
struct Endpoint<'a> {
    url: &'a str,
    region: &'a str,
    /// The dashboard's link, with its token if that was made at this start.
    dashboard: Option<String>,
}

/// A key that was just created, and its account.
struct IssuedKey {
    account: String,
    /// Whether the account was created with it.
    is_first: bool,
    key: NewKey,
}

pub(crate) fn serve(session: &Session, serve: &Serve) -> Result<Outcome> {
    let folder = session.home().or_else(|_| current_folder())?;
    let is_new = !folder.join(settings::FILE).exists();
    if is_new && serve.existing {
        bail!("no archive in {}: is its disk mounted? Without --existing, `serve` would create an archive there", folder.display());
    }
    let mut settings = Settings::read(&folder)?;
    if let Some(listen) = serve.listen {
        settings.listen = listen;
    }
    Server::check_certificate(&folder, &settings)?;
    let events = Arc::default();
    log::begin(serve.log_json || session.json, &events);
    raise_open_files(settings.connections);
    heap::few_arenas();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(worker_threads())
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("the server's threads can't be started")?;
    // A server that already runs for this archive holds its lock, and most likely the port. The
    // error about the lock says more, so the lock comes first. A new archive is created only if the
    // address can be used.
    let existing = if is_new { None } else { Some(Archive::open(&create_home(&folder)?, Access::Write)?) };
    match &existing {
        Some(archive) => check_stores(archive, &serve.stores)?,
        None => nested_stores::check(&folder, &[], &parse_stores(&serve.stores)?)?,
    }
    let listener = runtime.block_on(Listener::bind(settings.listen))?;
    let archive = Arc::new(match existing {
        Some(archive) => archive,
        None => create_archive(&create_home(&folder)?, &serve.stores)?,
    });
    let home = archive.home().to_owned();
    Settings::make_if_missing(&home)?;
    note_decoding(&archive);
    let recovered = recover(&archive, serve)?;
    runtime.block_on(async {
        // Registered before the server announces its address, so that a client that stops it right
        // away stops it gracefully.
        let mut signals = StopSignals::new()?;
        let region = settings.region.clone();
        let served = archive.clone();
        let server = Server::open(listener, archive, settings, events)?;
        report_unclaimed_folders(server.state(), recovered.is_some())?;
        // Last, because a key can be shown only once: nothing can fail between here and
        // `print_endpoint`.
        let issued = issue_key(server.state(), recovered.is_some())?;
        let endpoint = format!("{}://{}", if server.is_tls() { "https" } else { "http" }, server.address());
        if !server.address().ip().is_loopback() && !server.is_tls() {
            tracing::warn!("other machines can reach {endpoint}, and connections are not encrypted: see [tls] in the settings");
        }
        let dashboard = server.dashboard_link().map(|path| format!("{endpoint}{path}"));
        let endpoint = Endpoint { url: &endpoint, region: &region, dashboard };
        let not_shown = print_endpoint(session, &home, is_new, &endpoint, issued.as_ref(), recovered);
        if let Some((issued, error)) = issued.as_ref().zip(not_shown) {
            return Err(withdraw(server.state(), issued, &error));
        }
        tokio::spawn(async {
            loop {
                tokio::time::sleep(TRIM_PERIOD).await;
                // This may take some milliseconds.
                let _ = tokio::task::spawn_blocking(heap::trim).await;
            }
        });
        server.serve(async move { signals.recv().await }).await?;
        // What can be saved is saved again when the archive is closed, right after this.
        served.check_in_place()?;
        Ok(Outcome::Good)
    })
}

/// Says if glass is decoded with less than the settings name. Nothing waits for that: a driver or a
/// remote folder may hang.
fn note_decoding(archive: &Archive) {
    let (home, settings) = (archive.home().to_owned(), archive.settings().decode.clone());
    std::thread::spawn(move || {
        if let Err(error) = check_decode_device(&settings) {
            diagnostics::note(&format!("glass is decoded on the CPU: {error}"));
        }
        if let Some((_, Err(error))) = check_decode_folder(&home, &settings) {
            diagnostics::note(&format!("glass is decoded without workers: {error}"));
        }
    });
}

/// Raises the limit on open files from its default to the maximum that the system allows.
fn raise_open_files(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Some systems report no maximum, and reject values above their actual one.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let needed = connections as u64 + OTHER_OPEN_FILES;
    if let Some(open) = getrlimit(Resource::Nofile).current.or(current).filter(|open| *open < needed) {
        tracing::warn!(open, needed, "the system allows fewer open files than the configured connections may need (`ulimit -n`)");
    }
}

/// Fails if an archive lacks a store that was given: objects would be less safe than the operator
/// expects. A restart may name those that the archive was created with.
fn check_stores(archive: &Archive, stores: &[String]) -> Result<()> {
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let known: Vec<PathBuf> = archive.settings().stores.iter().map(|store| real(archive.home().join(&store.path))).collect();
    for store in parse_stores(stores)? {
        if !known.contains(&real(store.path.clone())) {
            bail!(
                "the archive in {} exists already and has no store in {}; --store is for a new archive. `fulgurite store add` adds a store",
                archive.home().display(),
                store.path.display()
            );
        }
    }
    Ok(())
}

/// Creates an archive with the stores given, or with three folders in its own.
fn create_archive(home: &Path, stores: &[String]) -> Result<Archive> {
    let default_stores: Vec<String> = (1..=3).map(|number| home.join(format!("platters/d{number}")).display().to_string()).collect();
    let parsed = parse_stores(if stores.is_empty() { &default_stores } else { stores })?;
    let shape = default_shape(parsed.len());
    Archive::init(home, &new_settings(parsed, shape, fulgurite_archive::settings::MediumSettings::default(), None, true))?;
    if stores.is_empty() {
        diagnostics::note(&format!(
            "created an archive in {}, with three folders for platters on this one disk. Losing the disk would lose everything: \
             for data that matters, give a folder on each of several disks (--store).",
            home.display()
        ));
    }
    diagnostics::note("the archive can't be read without its keys. Keep a copy of them elsewhere: `fulgurite keys export`.");
    Ok(Archive::open(home, Access::Write)?)
}

/// Recovers a lost service state from its backup in the archive, unless `without_copy` is set, and
/// prints notes on the result. With `without_newer_copy`, a state that is older than the backup is
/// used.
fn recover(archive: &Archive, serve: &Serve) -> Result<Option<Recovered>> {
    let without_copy = serve.without_copy;
    let file = archive.home().join(state::FILE);
    let backup_time = |ms: i64| time(ms.div_euclid(1_000));
    let backup = match state::find(archive)? {
        ExistingState::File if serve.without_newer_copy => {
            if let Some(newer) = state::set_newer_backup_aside(archive)? {
                diagnostics::note(&format!(
                    "{} is used although it is older than the state backup of {} UTC. The backup is kept: \
                     `fulgurite get --version {} {} FILE` restores it.",
                    file.display(),
                    backup_time(newer.record.created_ms as i64),
                    newer.record.version,
                    state::BACKUP_NAME
                ));
            }
            return Ok(None);
        }
        ExistingState::File | ExistingState::Nothing => return Ok(None),
        ExistingState::Backup(backup) => backup,
        ExistingState::LostWithoutBackup if without_copy => {
            state::begin_without_backup(archive)?;
            diagnostics::note(&format!("{} was missing and starts empty. The archive has no state backup.", file.display()));
            return Ok(None);
        }
        ExistingState::LostWithoutBackup => return Err(StateError::lost_without_backup(archive).into()),
        ExistingState::Unlisted(_) if without_copy => {
            state::begin_without_backup(archive)?;
            diagnostics::note(&format!(
                "{} was missing and starts empty. The archive may have a state backup that can't be listed.",
                file.display()
            ));
            return Ok(None);
        }
        ExistingState::Unlisted(gaps) => return Err(StateError::may_be_unlisted(archive, &gaps).into()),
    };
    if without_copy {
        state::begin_without_backup(archive)?;
        diagnostics::note(&format!(
            "{} was missing and starts empty, ignoring the state backup of {} UTC. The backup is kept: \
             `fulgurite get {} FILE` restores it.",
            file.display(),
            backup_time(backup.record.created_ms as i64),
            state::BACKUP_NAME
        ));
        return Ok(None);
    }
    let recovered = state::recover(archive, &backup)?;
    let Recovered { backup_ms, counts, with_disabled_rules } = recovered;
    diagnostics::note(&format!(
        "{} was missing. It was recovered from the state backup of {} UTC: {}, {}, and the later changes to {}.",
        file.display(),
        backup_time(backup_ms),
        count(counts.accounts, "account"),
        count(counts.buckets, "bucket"),
        count(counts.versions, "version"),
    ));
    diagnostics::note(
        "changes after that time are missing: accounts, buckets and their settings, tags, retention, legal holds. \
         Incomplete multipart uploads and restores have to be started again. Earlier keys no longer work; `fulgurite accounts key NAME` creates a new key for an account.",
    );
    if with_disabled_rules > 0 {
        diagnostics::note(&format!(
            "the lifecycle rules of {} are disabled: since the backup, they may have been changed, or versions put under a legal hold. \
             Check them and put them again.",
            count(with_disabled_rules, "bucket")
        ));
    }
    Ok(Some(recovered))
}

/// Issues a key at the first start, which creates the first account, and after a recovery, since
/// backups contain no keys: then for an admin account, preferably the first account.
fn issue_key(state: &State, is_recovered: bool) -> Result<Option<IssuedKey>> {
    let accounts = state.accounts()?;
    if accounts.is_empty() {
        return Ok(Some(IssuedKey { account: FIRST_ACCOUNT.to_owned(), is_first: true, key: state.add_account(FIRST_ACCOUNT, true)? }));
    }
    if !is_recovered {
        // A start that recovered the accounts may have failed before it could show a key.
        if accounts.iter().all(|(_, keys)| keys.is_empty()) {
            diagnostics::note("no account has a key, so only public buckets can be used; `fulgurite accounts key NAME` creates a key.");
        }
        return Ok(None);
    }
    let admins = || accounts.iter().map(|(account, _)| account).filter(|account| account.admin);
    match admins().find(|account| account.name == FIRST_ACCOUNT).or_else(|| admins().next()) {
        Some(account) => Ok(Some(IssuedKey { account: account.name.clone(), is_first: false, key: state.add_key(&account.name)? })),
        None => {
            diagnostics::note(
                "no account is an admin, so no key was created; `fulgurite accounts add NAME --admin` creates an admin account.",
            );
            Ok(None)
        }
    }
}

/// Prints the top-level folders without a bucket, if buckets may have been lost.
fn report_unclaimed_folders(state: &State, is_recovered: bool) -> Result<()> {
    if !is_recovered && !state.buckets(None)?.is_empty() {
        return Ok(());
    }
    let mut folders = without_bucket(state, NAMED_FOLDERS_MAX + 1)?;
    if folders.is_empty() {
        return Ok(());
    }
    let more = if folders.len() > NAMED_FOLDERS_MAX { ", and more" } else { "" };
    folders.truncate(NAMED_FOLDERS_MAX);
    diagnostics::note(&format!(
        "these folders of the archive have no bucket: {1}{more}. If an admin creates a bucket of that name (`aws s3 mb s3://{0}`), \
         the content of the folder becomes its objects; `fulgurite accounts give-bucket {0} NAME` then gives it to another account. \
         If the bucket kept versions before, enable versioning before putting anything.",
        folders[0],
        folders.join(", "),
    ));
    Ok(())
}

/// Prints how to reach the server. The secret of a new key is shown here and never again.
fn print_endpoint(
    session: &Session,
    home: &Path,
    is_new: bool,
    endpoint: &Endpoint<'_>,
    issued: Option<&IssuedKey>,
    recovered: Option<Recovered>,
) -> Option<io::Error> {
    let Endpoint { url, region, dashboard } = endpoint;
    session.answer(|| {
        let mut answer = json!({ "endpoint": url, "region": region, "archive": home, "new": is_new });
        if let Some(dashboard) = dashboard {
            answer["dashboard"] = json!(dashboard);
        }
        if let Some(IssuedKey { account, key, .. }) = issued {
            answer["account"] = json!(account);
            answer["access_key"] = json!(key.access_key);
            answer["secret_key"] = json!(key.secret_key);
        }
        if let Some(Recovered { backup_ms, counts, with_disabled_rules }) = recovered {
            answer["recovered"] = json!(counts);
            answer["recovered"]["copied_ms"] = json!(backup_ms);
            answer["recovered"]["buckets_with_disabled_rules"] = json!(with_disabled_rules);
        }
        answer
    });
    if session.json {
        return session.print_error.take();
    }
    if let Some(IssuedKey { account, is_first: _, key: NewKey { access_key, secret_key } }) = issued {
        session.print(format_args!(
            "The account `{account}` has this key. Its secret is shown once. To use it in a shell:\n\n\
             export AWS_ENDPOINT_URL={url}\nexport AWS_DEFAULT_REGION={region}\nexport AWS_ACCESS_KEY_ID={access_key}\nexport AWS_SECRET_ACCESS_KEY={secret_key}\n\n\
             aws s3 mb s3://photos\naws s3 cp moon.tif s3://photos/\n"
        ));
    }
    // A reader may have enough now that it has the key.
    let not_shown = session.print_error.take();
    if let Some(dashboard) = dashboard {
        session.print(format_args!("Dashboard: {dashboard}"));
    }
    session.print(format_args!("Serving {} at {url}; Ctrl-C stops it.", home.display()));
    not_shown
}

pub(crate) fn accounts(session: &Session, accounts: &Accounts) -> Result<Outcome> {
    // This works while a server runs: the server notices changes within a second.
    let state = State::open(Arc::new(session.open(Access::Read)?))?;
    match accounts {
        Accounts::Add { name, admin } => {
            let issued = IssuedKey { account: name.clone(), is_first: true, key: state.add_account(name, *admin)? };
            show_key(session, &issued);
            keep_if_shown(session, &state, &issued)?;
        }
        Accounts::Key { name } => {
            let issued = IssuedKey { account: name.clone(), is_first: false, key: state.add_key(name)? };
            show_key(session, &issued);
            keep_if_shown(session, &state, &issued)?;
        }
        Accounts::Revoke { key } => {
            state.revoke_key(key)?;
            session.say(&format!("The key {key} no longer works."));
        }
        Accounts::Quota { name, open, gib_a_day, .. } => {
            // A limit that isn't given falls back to the settings.
            let own = OwnQuota { open: *open, bytes_a_day: gib_a_day.map(|gib| gib.saturating_mul(GIB)) };
            state.set_quota(name, own)?;
            session.say(&format!("{name}: {}", show_quota(own)));
        }
        Accounts::GiveBucket { bucket, name } => {
            state.give_bucket(bucket, name)?;
            session.say(&format!("The bucket {bucket} now belongs to {name}."));
        }
        Accounts::List => list(session, &state)?,
    }
    Ok(Outcome::Good)
}

fn list(session: &Session, state: &State) -> Result<()> {
    let (all, quotas) = (state.accounts()?, state.quotas()?);
    session.answer(|| {
        let listed = all.iter().map(|(account, keys)| {
            let own = quotas.get(&account.name).copied().unwrap_or_default();
            let quota = json!({ "open": own.open, "gib_a_day": own.bytes_a_day.map(|bytes| bytes / GIB) });
            json!({ "account": account.name, "id": account.id, "admin": account.admin, "access_keys": keys, "quota": quota })
        });
        listed.collect()
    });
    for (account, keys) in &all {
        let quota = quotas.get(&account.name).map(|own| format!("  {}", show_quota(*own))).unwrap_or_default();
        session.show(&format!("{}{}  {}{quota}", account.name, if account.admin { " (admin)" } else { "" }, keys.join(" ")));
    }
    Ok(())
}

/// The quotas of an account that override the settings.
fn show_quota(own: OwnQuota) -> String {
    let open = own.open.map(|open| format!("up to {open} restores open at once"));
    let bytes = own.bytes_a_day.map(|bytes| format!("up to {} GiB restored a day", bytes / GIB));
    let limits: Vec<String> = open.into_iter().chain(bytes).collect();
    if limits.is_empty() { "quotas of the settings".to_owned() } else { limits.join(", ") }
}

fn show_key(session: &Session, issued: &IssuedKey) {
    let IssuedKey { account, key, .. } = issued;
    session.answer(|| json!({ "account": account, "access_key": key.access_key, "secret_key": key.secret_key }));
    session.show(&format!("account     {account}\naccess key  {}\nsecret key  {}   (shown once)", key.access_key, key.secret_key));
}

fn keep_if_shown(session: &Session, state: &State, issued: &IssuedKey) -> Result<()> {
    session.print_error.take().map_or(Ok(()), |error| Err(withdraw(state, issued, &error)))
}

/// Withdraws a key, and the account that was created with it, because standard output didn't take
/// its secret. Returns the error of the command.
fn withdraw(state: &State, issued: &IssuedKey, error: &io::Error) -> anyhow::Error {
    let IssuedKey { account, is_first, key } = issued;
    let (undone, what) = match is_first {
        true => (state.undo_account(account), format!("account {account} was not created")),
        false => (state.revoke_key(&key.access_key), format!("the key {} was revoked", key.access_key)),
    };
    // Only the text of the error: a broken pipe would count as success.
    match undone {
        Ok(()) => anyhow!("standard output: {error}. The secret of the new key could not be shown, so {what}"),
        Err(kept) => Error::new(kept).context(format!("standard output: {error}. The secret of the key {} was not shown", key.access_key)),
    }
}
