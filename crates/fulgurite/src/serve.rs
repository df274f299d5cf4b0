//! The archive over S3: the server, and the accounts that may use it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings as ArchiveFile, StagingSettings};
use fulgurite_archive::{Access, Archive, settings};
use fulgurite_service::server::Server;
use fulgurite_service::settings::Settings;
use fulgurite_service::state::{NewKey, OwnQuota, State};
use serde_json::json;

use crate::args::{Accounts, Serve};
use crate::setup::{default_shape, store};
use crate::{Outcome, Session, open};

/// The account that the first start makes.
const FIRST_ACCOUNT: &str = "main";
const GIB: u64 = 1 << 30;

pub(crate) fn serve(session: &Session, serve: &Serve) -> Result<Outcome> {
    let home = home(session)?;
    let is_new = !home.join(settings::FILE).exists();
    if is_new {
        make(&home, serve)?;
    }
    let mut settings = Settings::read_or_make(&home)?;
    if let Some(listen) = serve.listen {
        settings.listen = listen;
    }
    log(serve.log_json);
    let archive = Arc::new(open(&home, Access::Write)?);
    let state = State::open(archive.clone())?;
    let key = if state.accounts()?.is_empty() { Some(state.add_account(FIRST_ACCOUNT, true)?) } else { None };
    drop(state);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("threads for the server")?;
    runtime.block_on(async {
        // Before anybody is told that it listens, so that a stop right then is a graceful one.
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).context("signals")?;
        let region = settings.region.clone();
        let server = Server::bind(archive, settings).await?;
        let endpoint = format!("{}://{}", if server.is_tls() { "https" } else { "http" }, server.address());
        if !server.address().ip().is_loopback() && !server.is_tls() {
            tracing::warn!(
                "other machines can reach {endpoint}, and what they send is not encrypted on its way: see [tls] in the settings"
            );
        }
        introduce(session, &home, is_new, &endpoint, &region, key.as_ref());
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        };
        server.serve(stop).await;
        Ok(Outcome::Good)
    })
}

/// The archive's folder: the one that is named, or found, or the current one.
fn home(session: &Session) -> Result<PathBuf> {
    let home = match session.home() {
        Ok(home) => home,
        Err(_) => std::env::current_dir().context("the current folder")?,
    };
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    home.canonicalize().with_context(|| home.display().to_string())
}

/// Makes an archive for whoever has none.
fn make(home: &Path, serve: &Serve) -> Result<()> {
    let beside: Vec<String> = (1..=3).map(|number| home.join(format!("platters/d{number}")).display().to_string()).collect();
    let given = if serve.stores.is_empty() { &beside } else { &serve.stores };
    let stores = given.iter().enumerate().map(|(index, text)| store(index, text)).collect::<Result<Vec<_>>>()?;
    let (information, redundancy) = default_shape(stores.len());
    let settings = ArchiveFile {
        archive: ArchiveSettings { id: fulgurite_archive::new_archive_id(), encrypt: true, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information, redundancy, platter_mib: 1_024 },
        stores,
    };
    Archive::init(home, &settings)?;
    if serve.stores.is_empty() {
        eprintln!(
            "note: made an archive in {}, with three folders for platters on this one disk. What takes the disk takes all of them: \
             for data that matters, give a folder on each of several disks (--store).",
            home.display()
        );
    }
    eprintln!("note: without its keys nobody can read an archive. Keep a copy of them elsewhere: `fulgurite keys export`.");
    Ok(())
}

/// Says how to reach the server: with the key's secret, if it was just made, and never again.
fn introduce(session: &Session, home: &Path, is_new: bool, endpoint: &str, region: &str, key: Option<&NewKey>) {
    if session.json {
        let mut answer = json!({ "endpoint": endpoint, "region": region, "archive": home, "new": is_new });
        if let Some(key) = key {
            answer["access_key"] = json!(key.access_key);
            answer["secret_key"] = json!(key.secret_key);
        }
        session.answer(&answer);
        return;
    }
    if let Some(NewKey { access_key, secret_key }) = key {
        session.print(format_args!(
            "The account `{FIRST_ACCOUNT}` has this key. Its secret is shown once. To use it in a shell:\n\n\
             export AWS_ENDPOINT_URL={endpoint}\nexport AWS_DEFAULT_REGION={region}\nexport AWS_ACCESS_KEY_ID={access_key}\nexport AWS_SECRET_ACCESS_KEY={secret_key}\n\n\
             aws s3 mb s3://photos\naws s3 cp moon.tif s3://photos/\n"
        ));
    }
    session.print(format_args!("Serving {} at {endpoint}; Ctrl-C stops it.", home.display()));
}

/// The log goes to standard error; `RUST_LOG` says how much of it.
fn log(json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        tracing_subscriber::EnvFilter::new("warn,fulgurite=info,fulgurite_service=info,s3s=off,fulgurite_service::server=warn")
    });
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log that is there already stays.
    let _ = if json { log.json().try_init() } else { log.try_init() };
}

pub(crate) fn accounts(session: &Session, accounts: &Accounts) -> Result<Outcome> {
    // Beside a server that runs: it notices within a second.
    let state = State::open(Arc::new(session.open(Access::Read)?))?;
    match accounts {
        Accounts::Add(add) => show_key(session, &add.name, &state.add_account(&add.name, add.admin)?),
        Accounts::Key(of) => show_key(session, &of.name, &state.add_key(&of.name)?),
        Accounts::Revoke(revoke) => {
            state.revoke_key(&revoke.key)?;
            session.say(&format!("{} signs nothing any more.", revoke.key));
        }
        Accounts::Quota(quota) => {
            // What isn't said again is as the settings say.
            let own = OwnQuota { open: quota.open, bytes_a_day: quota.gib_a_day.map(|gib| gib.saturating_mul(GIB)) };
            state.set_quota(&quota.name, own)?;
            session.say(&format!("{}: {}", quota.name, show_quota(own)));
        }
        Accounts::List => {
            let (all, quotas) = (state.accounts()?, state.quotas()?);
            if session.json {
                let listed = all.iter().map(|(account, keys)| {
                    let own = quotas.get(&account.name).copied().unwrap_or_default();
                    let quota = json!({ "open": own.open, "gib_a_day": own.bytes_a_day.map(|bytes| bytes / GIB) });
                    json!({ "account": account.name, "id": account.id, "admin": account.admin, "access_keys": keys, "quota": quota })
                });
                session.answer(&listed.collect());
            }
            for (account, keys) in &all {
                let quota = quotas.get(&account.name).map(|own| format!("  {}", show_quota(*own))).unwrap_or_default();
                session.say(&format!("{}{}  {}{quota}", account.name, if account.admin { " (admin)" } else { "" }, keys.join(" ")));
            }
        }
    }
    Ok(Outcome::Good)
}

/// What an account may have restored, where that is not what the settings say.
fn show_quota(own: OwnQuota) -> String {
    let open = own.open.map(|open| format!("up to {open} restores open at once"));
    let bytes = own.bytes_a_day.map(|bytes| format!("up to {} GiB restored a day", bytes / GIB));
    let said: Vec<String> = open.into_iter().chain(bytes).collect();
    if said.is_empty() { "restores as the settings say".to_owned() } else { said.join(", ") }
}

fn show_key(session: &Session, account: &str, key: &NewKey) {
    if session.json {
        session.answer(&json!({ "account": account, "access_key": key.access_key, "secret_key": key.secret_key }));
    }
    session.say(&format!("account     {account}\naccess key  {}\nsecret key  {}   (shown once)", key.access_key, key.secret_key));
}
