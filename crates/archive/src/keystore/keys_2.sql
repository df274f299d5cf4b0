-- Which keys no exported copy has.

-- Keys ever inserted. Those of a file of version 1 count as inserted after the last export.
ALTER TABLE counter ADD COLUMN inserted INTEGER NOT NULL DEFAULT 0;
UPDATE counter SET inserted = keys;

-- The last export; no row before the first.
CREATE TABLE export (
    one INTEGER PRIMARY KEY,
    -- When it was complete, in milliseconds since 1970.
    at INTEGER NOT NULL,
    -- Keys inserted before it began.
    inserted INTEGER NOT NULL
);
