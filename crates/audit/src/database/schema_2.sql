-- Version 2 of the tables of an audit: what was removed. Events of removed copies stay.

CREATE TABLE removed_copies (
    file INTEGER NOT NULL,
    node INTEGER NOT NULL,
    -- As it was. If the copy comes back, another one voids checks that began before the removal.
    due_at INTEGER NOT NULL,
    last_event INTEGER NOT NULL,
    location TEXT,
    PRIMARY KEY (file, node)
) WITHOUT ROWID;

CREATE TABLE removed_nodes (
    node INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    place TEXT NOT NULL,
    at INTEGER NOT NULL,
    reason TEXT NOT NULL
);
