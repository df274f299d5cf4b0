-- Version 2 of the tables of an audit: what was removed, and which imports are unfinished. Events
-- of removed copies stay.

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

-- Imports that were not completed. One that `holds_checks` is the first one, without the index of
-- names: the next import starts over.
CREATE TABLE imports (
    import INTEGER PRIMARY KEY AUTOINCREMENT,
    began_at INTEGER NOT NULL,
    source TEXT NOT NULL,
    holds_checks INTEGER NOT NULL
);
INSERT INTO imports (began_at, source, holds_checks) SELECT started_at, 'an inventory', 1 FROM unfinished_import;
DROP TABLE unfinished_import;
