-- Versions that exist but can't be listed, because their record can't be opened or their bytes are gone. A rebuild records them, so that
-- they are never treated as removed. why: 0 no key, 1 unreadable record, 2 incomplete, 3 gone, 4 unreadable file table (id is the
-- platter's), 5 store that a rebuild could not read (name is the store's).
CREATE TABLE unlisted (
    id BYTEA NOT NULL PRIMARY KEY,
    why BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    name BYTEA,
    number BIGINT,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;

-- Finds the highest number of a name, so that a put never takes the number of an unlisted version. Rows with reason 5 are left out: their
-- names are not those of objects.
CREATE INDEX unlisted_by_name ON unlisted (name, number DESC) WHERE name IS NOT NULL AND why <> 5;

-- The staging segments that hold parts of unlisted versions, and must therefore stay.
CREATE TABLE unlisted_segment (
    id BYTEA NOT NULL,
    segment BIGINT NOT NULL,
    row_check BIGINT NOT NULL,
    PRIMARY KEY (id, segment)
) /*sqlite WITHOUT ROWID*/;

-- Platters that the catalogue ignores, for example because their set was never finished and no version needs it.
CREATE TABLE left_out (
    platter BYTEA NOT NULL PRIMARY KEY,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;

-- The end of the acknowledged part of a segment. A crash can leave more after it, which the next opening acknowledges or cuts off. So an
-- unacknowledged version can't reappear later under a number that another version has by then.
CREATE TABLE segment_end (
    number BIGINT PRIMARY KEY,
    end_offset BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

-- A row means that the staging folder carries its mark. A folder without a mark is then not accepted as staging: its disk isn't mounted.
CREATE TABLE staging_mark (
    one BIGINT PRIMARY KEY
);

-- Finds one version of a name that has thousands. Identifiers begin with their time, so new versions are appended to the index.
CREATE INDEX version_by_id ON version (id);
