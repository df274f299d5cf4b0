-- The attributes of a version: the map of docs/format.md, byte for byte; NULL if there are none.
--
-- Missing attributes add nothing to row_check, so the checksums of rows of version 1 stay correct.
ALTER TABLE version ADD COLUMN attributes BYTEA;
