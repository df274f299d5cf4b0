-- The catalogue, version 1.
--
-- Names are bytes, compared as bytes. Every row except that of archive ends with row_check, a CRC-32 over the table's name and the other
-- columns, which the program writes and checks. Checksums of 64 bits are stored as signed numbers with the same bits.

-- The archive that the catalogue belongs to.
CREATE TABLE archive (
    one BIGINT PRIMARY KEY,
    id BYTEA NOT NULL
);

-- Running counts, changed in the same transaction as the rows that they count. next_version only grows, so the key of a deleted version
-- never refers to another version.
CREATE TABLE counter (
    one BIGINT PRIMARY KEY,
    next_version BIGINT NOT NULL,
    objects BIGINT NOT NULL,
    versions BIGINT NOT NULL,
    content_bytes BIGINT NOT NULL,
    staged_versions BIGINT NOT NULL,
    staged_bytes BIGINT NOT NULL,
    tombstones BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

CREATE TABLE version (
    version BIGINT PRIMARY KEY,
    archived BIGINT NOT NULL,
    name BYTEA NOT NULL,
    number BIGINT NOT NULL,
    id BYTEA NOT NULL,
    kind BIGINT NOT NULL,
    sealed BIGINT NOT NULL,
    size BIGINT NOT NULL,
    sha256 BYTEA NOT NULL,
    modified_seconds BIGINT,
    modified_nanoseconds BIGINT,
    mode BIGINT,
    created_ms BIGINT NOT NULL,
    stored_bytes BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

-- The order of all listings, with staged versions before archived ones. So a put inserts its names into the small range of staged
-- versions, a flush reads that range in order, and a listing merges the two. The identifier orders versions that share a number: a
-- rebuild can find such versions.
CREATE UNIQUE INDEX version_in_order ON version (archived, name, number DESC, id DESC);

CREATE INDEX staged_by_age ON version (created_ms) WHERE archived = 0;

-- Places of staged versions in segments: part 0 is the record, further parts are the stored bytes in order.
CREATE TABLE staged (
    version BIGINT NOT NULL,
    part BIGINT NOT NULL,
    stored_offset BIGINT NOT NULL,
    segment BIGINT NOT NULL,
    segment_offset BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    crc64 BIGINT NOT NULL,
    row_check BIGINT NOT NULL,
    PRIMARY KEY (version, part)
) /*sqlite WITHOUT ROWID*/;

CREATE TABLE tombstone (
    id BYTEA NOT NULL PRIMARY KEY,
    segment BIGINT NOT NULL,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;

-- The number of rows of other tables that refer to a segment. A segment without a row here can be released.
CREATE TABLE segment (
    number BIGINT PRIMARY KEY,
    live BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

CREATE TABLE platter_set (
    number BIGINT PRIMARY KEY,
    id BYTEA NOT NULL UNIQUE,
    complete BIGINT NOT NULL,
    information BIGINT NOT NULL,
    redundancy BIGINT NOT NULL,
    sector_bytes BIGINT NOT NULL,
    track_information BIGINT NOT NULL,
    track_redundancy BIGINT NOT NULL,
    group_information BIGINT NOT NULL,
    group_redundancy BIGINT NOT NULL,
    information_tracks BIGINT NOT NULL,
    written BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

CREATE TABLE platter (
    number BIGINT PRIMARY KEY,
    id BYTEA NOT NULL UNIQUE,
    set_number BIGINT NOT NULL,
    set_position BIGINT NOT NULL,
    store TEXT NOT NULL,
    verified BIGINT,
    missing BIGINT NOT NULL,
    lost_sectors BIGINT NOT NULL,
    lost_tracks BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

CREATE UNIQUE INDEX platter_in_set ON platter (set_number, set_position);

-- Stored bytes on platters of complete sets. The extents of an archived version cover it without gaps or overlaps. A staged version can
-- have extents, too: those of its first shards.
CREATE TABLE extent (
    version BIGINT NOT NULL,
    object_offset BIGINT NOT NULL,
    platter BIGINT NOT NULL,
    shard BIGINT NOT NULL,
    platter_offset BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    row_check BIGINT NOT NULL,
    PRIMARY KEY (version, object_offset, platter)
) /*sqlite WITHOUT ROWID*/;

CREATE INDEX extent_on_platter ON extent (platter, version);
