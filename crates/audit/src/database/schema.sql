-- Version 1 of the tables of an audit. Dates are seconds since 1970.

CREATE TABLE nodes (
    node INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    place TEXT NOT NULL,
    -- Lines of key=value, without secrets.
    options TEXT NOT NULL,
    medium INTEGER NOT NULL,
    interval_s INTEGER NOT NULL,
    method INTEGER NOT NULL,
    workers INTEGER NOT NULL,
    bytes_per_second INTEGER,
    files_per_second INTEGER,
    all_digests INTEGER NOT NULL,
    -- The expected time of a check; NULL if it is learned.
    base_s REAL,
    ns_per_byte REAL
);

CREATE TABLE files (
    file INTEGER PRIMARY KEY,
    -- XXH3 of the name. An index on names would take as much room as the names.
    name_hash INTEGER NOT NULL,
    name TEXT NOT NULL,
    bytes INTEGER,
    -- For each digest, a byte for the algorithm and the value.
    digests BLOB NOT NULL
);
CREATE INDEX files_by_name ON files (name_hash);

CREATE TABLE copies (
    node INTEGER NOT NULL,
    file INTEGER NOT NULL,
    state INTEGER NOT NULL,
    -- 0 for a new copy; 1 or 2, whichever it wasn't, after what it should contain was replaced; 3
    -- if its bytes must be read, whatever the node's method.
    due_at INTEGER NOT NULL,
    -- When all bytes were read and found right; NULL if never.
    verified_at INTEGER,
    last_event INTEGER,
    -- NULL if it is the file's name.
    location TEXT,
    PRIMARY KEY (node, file)
) WITHOUT ROWID;
CREATE INDEX copies_due ON copies (node, due_at);
-- Few copies are in these states, and reports list them. Not IN: SQLite would build a table of its
-- values for each change, and could not tell that a query for one state may use the index.
CREATE INDEX copies_troubled ON copies (state, node) WHERE state = 2 OR state = 3 OR state = 4 OR state = 5;

CREATE TABLE events (
    event INTEGER PRIMARY KEY,
    -- The event before it of the same copy.
    previous INTEGER,
    node INTEGER NOT NULL,
    file INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    method INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    stream_us INTEGER NOT NULL,
    detail TEXT
);
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END;

CREATE TABLE totals (
    node INTEGER NOT NULL,
    state INTEGER NOT NULL,
    copies INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (node, state)
) WITHOUT ROWID;

-- Copies by the day of their last verification; -1 for those never verified.
CREATE TABLE ages (
    node INTEGER NOT NULL,
    day INTEGER NOT NULL,
    copies INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (node, day)
) WITHOUT ROWID;

CREATE TABLE hours (
    hour INTEGER NOT NULL,
    node INTEGER NOT NULL,
    method INTEGER NOT NULL,
    state INTEGER NOT NULL,
    count INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    stream_us INTEGER NOT NULL,
    whole_us INTEGER NOT NULL,
    PRIMARY KEY (hour, node, method, state)
) WITHOUT ROWID;

CREATE TABLE detectors (
    node INTEGER NOT NULL,
    series INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (node, series)
) WITHOUT ROWID;

-- What detectors reported; few rows.
CREATE TABLE incidents (
    incident INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    series INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    since INTEGER NOT NULL,
    factor REAL,
    checks INTEGER NOT NULL,
    unanswered INTEGER NOT NULL
);

-- Copies that were found right, a few for each node; slots are used in turn.
CREATE TABLE witnesses (
    node INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    file INTEGER NOT NULL,
    PRIMARY KEY (node, slot)
) WITHOUT ROWID;

-- One row while the first inventory is imported without an index: what it added so far.
CREATE TABLE unfinished_import (started_at INTEGER NOT NULL);

-- The benchmark matrix. Few rows: known files x nodes x kinds of reading.
CREATE TABLE benchmarks (
    node INTEGER NOT NULL,
    file INTEGER NOT NULL,
    probe INTEGER NOT NULL,
    every_s INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    last_record INTEGER,
    PRIMARY KEY (node, file, probe)
) WITHOUT ROWID;

CREATE TABLE benchmark_records (
    record INTEGER PRIMARY KEY,
    node INTEGER NOT NULL,
    file INTEGER NOT NULL,
    probe INTEGER NOT NULL,
    at INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    measured_us INTEGER NOT NULL,
    -- NULL while the expected time is being learned.
    expected_s REAL,
    verdict INTEGER,
    detail TEXT
);
CREATE INDEX benchmark_records_by_time ON benchmark_records (at);
CREATE INDEX benchmark_records_by_series ON benchmark_records (node, probe);
CREATE TRIGGER benchmark_records_are_not_changed BEFORE UPDATE ON benchmark_records
BEGIN SELECT RAISE(ABORT, 'records of benchmarks are append-only'); END;
CREATE TRIGGER benchmark_records_are_not_removed BEFORE DELETE ON benchmark_records
BEGIN SELECT RAISE(ABORT, 'records of benchmarks are append-only'); END;

CREATE TABLE benchmark_times (
    node INTEGER NOT NULL,
    probe INTEGER NOT NULL,
    base_s REAL NOT NULL,
    ns_per_byte REAL NOT NULL,
    is_learned INTEGER NOT NULL,
    PRIMARY KEY (node, probe)
) WITHOUT ROWID;
