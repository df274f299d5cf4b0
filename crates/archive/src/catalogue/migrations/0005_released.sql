-- In table unlisted, why has more meanings: 5 is any place that a rebuild could not read (number 0: a store, 1: the staging folder,
-- 2: unknown places), and 6 is a version that can't be listed while there are such places, which may hold the rest of it or its tombstone.

-- Released segments: everything in them was on verified platters or removed. If one reappears, it is an old copy with nothing new in it.
-- Consecutive numbers share a row: those from first_number to last_number.
CREATE TABLE released (
    last_number BIGINT PRIMARY KEY,
    first_number BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

-- Removed versions whose tombstones are on platters, with the set of each. If a set is given up or lost, its tombstones are staged again:
-- otherwise the removed versions would come back.
CREATE TABLE archived_tombstone (
    id BYTEA NOT NULL PRIMARY KEY,
    set_id BYTEA NOT NULL,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;
