-- In table unlisted, why has two meanings more: 5 is any place that a rebuild could not look into (number 0 a store, 1 the folder of
-- staging, 2 places that nobody named), and 6 a version of which only some was found while there were such places.

-- Segments that were released: everything in them was on verified platters or removed. One that turns up again is an old copy, and
-- nothing in it is news. Neighbours share a row: the numbers from first_number to last_number.
CREATE TABLE released (
    last_number BIGINT PRIMARY KEY,
    first_number BIGINT NOT NULL,
    row_check BIGINT NOT NULL
);

-- Removals whose tombstones are on platters, and of which set. A set that is given up or lost takes its tombstones with it; they are
-- staged again then, or what they removed would come back.
CREATE TABLE archived_tombstone (
    id BYTEA NOT NULL PRIMARY KEY,
    set_id BYTEA NOT NULL,
    row_check BIGINT NOT NULL
) /*sqlite WITHOUT ROWID*/;
