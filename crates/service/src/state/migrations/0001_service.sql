-- What the service knows beside the archive's catalogue. Times are milliseconds since 1970, names UTF-8.

CREATE TABLE archive (
    one INTEGER PRIMARY KEY,
    id BLOB NOT NULL
);

CREATE TABLE account (
    name TEXT PRIMARY KEY,
    -- S3's canonical identifier: 64 hexadecimal digits.
    id TEXT NOT NULL UNIQUE,
    -- Whether it may do everything in every bucket.
    admin INTEGER NOT NULL,
    created INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE access_key (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES account (name),
    -- 32 bytes under the archive's master key; the secret is made of them.
    wrapped BLOB NOT NULL,
    created INTEGER NOT NULL,
    revoked INTEGER
) WITHOUT ROWID;

CREATE TABLE bucket (
    name TEXT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES account (name),
    created INTEGER NOT NULL,
    -- 0 never versioned, 1 versioned, 2 suspended.
    versioning INTEGER NOT NULL,
    object_lock INTEGER NOT NULL,
    -- Default retention: mode, and days.
    retention_mode TEXT,
    retention_days INTEGER,
    -- As it was given, so that it comes back the same: whether the period was in years.
    retention_in_years INTEGER NOT NULL,
    policy TEXT,
    tags TEXT
) WITHOUT ROWID;

CREATE TABLE upload (
    id TEXT PRIMARY KEY,
    bucket TEXT NOT NULL,
    key TEXT NOT NULL,
    account TEXT NOT NULL,
    created INTEGER NOT NULL,
    checksum_algorithm TEXT,
    checksum_type TEXT,
    -- Attributes of the object to be, encoded as in a record.
    attributes BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX upload_in_order ON upload (bucket, key, id);

CREATE TABLE part (
    upload TEXT NOT NULL REFERENCES upload (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    -- Name of its file, and the version that its frames are sealed for.
    file BLOB NOT NULL,
    wrapped BLOB,
    size INTEGER NOT NULL,
    md5 BLOB NOT NULL,
    checksum TEXT,
    modified INTEGER NOT NULL,
    PRIMARY KEY (upload, number)
) WITHOUT ROWID;

-- What was said of a version after it was put; what was said with it stands in its attributes.
CREATE TABLE version_state (
    id BLOB PRIMARY KEY,
    tags TEXT,
    retention_mode TEXT,
    retention_until INTEGER,
    legal_hold INTEGER
) WITHOUT ROWID;

CREATE TABLE restore (
    id BLOB PRIMARY KEY,
    bucket TEXT NOT NULL,
    key TEXT NOT NULL,
    account TEXT NOT NULL,
    tier TEXT NOT NULL,
    days INTEGER NOT NULL,
    requested INTEGER NOT NULL,
    -- When it is to be done at the latest, by its tier.
    due INTEGER NOT NULL,
    -- When it was done, and until when it holds.
    done INTEGER,
    expires INTEGER
) WITHOUT ROWID;

CREATE INDEX restore_by_due ON restore (due) WHERE done IS NULL;
CREATE INDEX restore_by_expiry ON restore (expires) WHERE done IS NOT NULL;
