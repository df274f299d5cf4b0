-- The key store, version 1. It is for SQLite only: sqlite.rs explains why rows of key_slot never move.

CREATE TABLE archive (
    one INTEGER PRIMARY KEY,
    id BLOB NOT NULL
);

-- Slots are appended in order. Later they are only overwritten in place.
CREATE TABLE key_slot (
    slot INTEGER PRIMARY KEY,
    -- Version identifier (16), wrapped key (40), CRC-64 over both and the slot (8). All zeros: free.
    content BLOB NOT NULL
);

CREATE TABLE slot_of (
    id BLOB NOT NULL PRIMARY KEY,
    slot INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE free_slot (
    slot INTEGER PRIMARY KEY
);

CREATE TABLE counter (
    one INTEGER PRIMARY KEY,
    keys INTEGER NOT NULL,
    next_slot INTEGER NOT NULL
);

INSERT INTO counter (one, keys, next_slot) VALUES (1, 0, 1);
