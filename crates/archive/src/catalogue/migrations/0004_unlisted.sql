-- Versions that exist but can't be listed, because their record can't be opened or their bytes are gone. A rebuild records them, so that
-- none is ever taken for removed. why: 0 no key, 1 unreadable record, 2 incomplete, 3 gone, 4 unreadable file table (id is the platter's),
-- 5 store that a rebuild could not look into (name is the store's).
CREATE TABLE unlisted (
    id BYTEA NOT NULL PRIMARY KEY,
    why BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    name BYTEA,
    number BIGINT,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;

-- Finds the highest number of a name, so that a put never takes one that an unlisted version has. The name of an unseen store is no object's.
CREATE INDEX unlisted_by_name ON unlisted (name, number DESC) WHERE name IS NOT NULL AND why <> 5;

-- The staging segments that hold what is left of them, which must stay.
CREATE TABLE unlisted_segment (
    id BYTEA NOT NULL,
    segment BIGINT NOT NULL,
    row_check BIGINT NOT NULL,
    PRIMARY KEY (id, segment)
) /*sqlite WITHOUT ROWID*/;

-- Platters that a rebuild found and left out, because their set was never finished and nothing needs it.
CREATE TABLE left_out (
    platter BYTEA NOT NULL PRIMARY KEY,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;

-- Where what is acknowledged of a segment ends. A crash can leave more behind it, which the next opening acknowledges or cuts off; so a
-- version that was never acknowledged can't come back one day under a number that another has by then.
CREATE TABLE segment_end (
    number BIGINT PRIMARY KEY,
    end_offset BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

-- A row says that the folder of staging was marked, so that one without a mark is not it: its disk
-- isn't mounted.
CREATE TABLE staging_mark (
    one BIGINT PRIMARY KEY
);

-- Finds one version of a name that has thousands. Identifiers begin with their time, so new ones come last.
CREATE INDEX version_by_id ON version (id);
