-- Quotas of accounts that have others than the settings say. NULL is what the settings say.
CREATE TABLE quota (
    account TEXT PRIMARY KEY REFERENCES account (name),
    -- Restores that may be open at once.
    open INTEGER,
    -- Bytes that may be asked for in a day.
    bytes_a_day INTEGER
) WITHOUT ROWID;

CREATE TRIGGER quota_inserted AFTER INSERT ON quota BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER quota_updated AFTER UPDATE ON quota BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER quota_deleted AFTER DELETE ON quota BEGIN UPDATE copy SET changes = changes + 1; END;

-- What an account has asked for on the last day that it did: restores that end are forgotten, and would be asked for again.
CREATE TABLE restored (
    account TEXT PRIMARY KEY,
    -- Days since 1970, UTC.
    day INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- Accounts take turns within a tier.
CREATE INDEX restore_by_turn ON restore (tier, account, due) WHERE done IS NULL;
