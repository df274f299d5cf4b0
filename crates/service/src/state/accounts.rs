//! Accounts and their access keys. Each secret key is derived from 32 bytes that are wrapped by the
//! archive's master key, so `service.db` alone doesn't allow anyone to sign requests.

use std::fmt;
use std::sync::Arc;

use fulgurite_format::{ObjectKey, WrappedKey};
use rusqlite::{Connection, Row, params};

use super::{State, StateError, hex, now_ms, query_all, query_one, random};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// Canonical ID in S3.
    pub id: String,
    /// Whether the account has full access to every bucket.
    pub admin: bool,
}

#[derive(Clone)]
pub(crate) struct AccountKey {
    pub(crate) account: Arc<Account>,
    pub(crate) secret: String,
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountKey").field("account", &self.account.name).finish_non_exhaustive()
    }
}

/// A new access key.
#[derive(Clone)]
pub struct NewKey {
    /// ID of the key.
    pub access_key: String,
    /// The secret key; it can't be retrieved later.
    pub secret_key: String,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

impl State {
    /// Creates an account with one access key.
    ///
    /// # Errors
    /// [`StateError::InvalidName`], [`StateError::AccountExists`], or an error of the database.
    pub fn add_account(&self, name: &str, admin: bool) -> Result<NewKey, StateError> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_good) {
            return Err(StateError::InvalidName(name.to_owned()));
        }
        let key = self.fresh_key();
        let id = hex(&random::<32>());
        let added = self.transact("add an account", |connection| {
            let statement = "INSERT INTO account (name, id, admin, created) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
            if connection.execute(statement, params![name, id, admin, now_ms()])? == 0 {
                return Ok(false);
            }
            insert(connection, name, &key.0, &key.1)?;
            Ok(true)
        })?;
        if added { Ok(key.0) } else { Err(StateError::AccountExists(name.to_owned())) }
    }

    /// Creates another access key for an account.
    ///
    /// # Errors
    /// [`StateError::NoAccount`], or an error of the database.
    pub fn add_key(&self, name: &str) -> Result<NewKey, StateError> {
        let key = self.fresh_key();
        self.transact_with_account("add a key", name, |connection| insert(connection, name, &key.0, &key.1))?;
        Ok(key.0)
    }

    /// Undoes [`add_account`](Self::add_account), for a key that couldn't be shown. The name is
    /// free again.
    ///
    /// # Errors
    /// An error of the database.
    pub fn undo_account(&self, name: &str) -> Result<(), StateError> {
        let undone = self.transact("undo an account", |connection| {
            connection.execute("DELETE FROM access_key WHERE account = ?1", [name])?;
            connection.execute("DELETE FROM account WHERE name = ?1", [name])
        });
        self.invalidate(|cache| {
            cache.keys.clear();
            cache.accounts.remove(name);
        });
        undone.map(drop)
    }

    /// Revokes an access key. A running server notices within a second.
    ///
    /// # Errors
    /// [`StateError::NoKey`], or an error of the database.
    pub fn revoke_key(&self, id: &str) -> Result<(), StateError> {
        let revoked = self.transact("revoke a key", |connection| {
            connection.execute("UPDATE access_key SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL", params![id, now_ms()])
        })?;
        self.invalidate(|cache| cache.keys.clear());
        if revoked == 1 { Ok(()) } else { Err(StateError::NoKey(id.to_owned())) }
    }

    /// All accounts, each with the IDs of its active keys.
    pub fn accounts(&self) -> Result<Vec<(Account, Vec<String>)>, StateError> {
        self.query("list accounts", |connection| {
            let accounts = query_all(connection, "SELECT name, id, admin FROM account ORDER BY name", [], read_account)?;
            let keys = "SELECT id FROM access_key WHERE account = ?1 AND revoked IS NULL ORDER BY created, id";
            let with_keys = |account: Account| Ok((account.clone(), query_all(connection, keys, [account.name], |row| row.get(0))?));
            accounts.into_iter().map(with_keys).collect()
        })
    }

    pub(crate) fn account(&self, name: &str) -> Result<Option<Arc<Account>>, StateError> {
        self.cached(
            |cache| cache.accounts.get(name).cloned(),
            |connection| account(connection, name),
            |cache, account| drop(cache.accounts.insert(name.to_owned(), account)),
        )
    }

    /// An active key by its ID.
    pub(crate) fn key(&self, id: &str) -> Result<Option<Arc<AccountKey>>, StateError> {
        let master_key = self.archive().master_key();
        self.cached(
            |cache| cache.keys.get(id).cloned(),
            |connection| {
                let statement = "SELECT account, wrapped FROM access_key WHERE id = ?1 AND revoked IS NULL";
                let found: Option<(String, [u8; 40])> = query_one(connection, statement, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
                let Some((name, wrapped)) = found else { return Ok(None) };
                let Some(account) = account(connection, &name)? else { return Ok(None) };
                // A key wrapped by another master key can't be unwrapped, and counts as missing.
                let secret = master_key.unwrap(&WrappedKey(wrapped)).ok().map(|key| secret(&key));
                Ok(secret.map(|secret| AccountKey { account: Arc::new(account), secret }))
            },
            |cache, key| drop(cache.keys.insert(id.to_owned(), key)),
        )
    }

    fn fresh_key(&self) -> (NewKey, WrappedKey) {
        let key = ObjectKey::new(random());
        // The same length as AWS access keys, since some clients check it.
        let access_key = format!("FU{}", &hex(&random::<9>()).to_uppercase());
        (NewKey { access_key, secret_key: secret(&key) }, self.archive().master_key().wrap(&key))
    }
}

/// The secret key: 30 of the bytes as 40 characters, the same length as AWS secret keys.
fn secret(key: &ObjectKey) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(&key.expose()[..30])
}

fn insert(connection: &Connection, account: &str, key: &NewKey, wrapped: &WrappedKey) -> rusqlite::Result<()> {
    let statement = "INSERT INTO access_key (id, account, wrapped, created) VALUES (?1, ?2, ?3, ?4)";
    connection.execute(statement, params![key.access_key, account, wrapped.0, now_ms()])?;
    Ok(())
}

pub(super) fn account(connection: &Connection, name: &str) -> rusqlite::Result<Option<Account>> {
    query_one(connection, "SELECT name, id, admin FROM account WHERE name = ?1", [name], read_account)
}

fn read_account(row: &Row<'_>) -> rusqlite::Result<Account> {
    Ok(Account { name: row.get(0)?, id: row.get(1)?, admin: row.get(2)? })
}
