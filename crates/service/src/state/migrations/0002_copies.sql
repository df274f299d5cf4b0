-- The copy of what is here that lies in the archive as an object, and what changed since it was put.

CREATE TABLE copy (
    one INTEGER PRIMARY KEY,
    -- Changes of the tables that are copied, and how many of them the newest copy has.
    changes INTEGER NOT NULL,
    copied INTEGER NOT NULL,
    -- The copy of this file that the next one takes the place of; NULL before the first.
    version BLOB,
    -- One that was being put when this was written last; NULL if that was recorded as the version.
    begun BLOB
);

-- What a file of before holds was never copied.
INSERT INTO copy (one, changes, copied) VALUES (1, 1, 0);

CREATE TRIGGER account_inserted AFTER INSERT ON account BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER account_updated AFTER UPDATE ON account BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER account_deleted AFTER DELETE ON account BEGIN UPDATE copy SET changes = changes + 1; END;

CREATE TRIGGER bucket_inserted AFTER INSERT ON bucket BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER bucket_updated AFTER UPDATE ON bucket BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER bucket_deleted AFTER DELETE ON bucket BEGIN UPDATE copy SET changes = changes + 1; END;

CREATE TRIGGER version_state_inserted AFTER INSERT ON version_state BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER version_state_updated AFTER UPDATE ON version_state BEGIN UPDATE copy SET changes = changes + 1; END;
CREATE TRIGGER version_state_deleted AFTER DELETE ON version_state BEGIN UPDATE copy SET changes = changes + 1; END;
