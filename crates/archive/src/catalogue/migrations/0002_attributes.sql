-- What whoever put an object says of it: the map of docs/format.md, byte for byte; NULL where there is none.
--
-- A row without attributes has the row_check it had before, so rows of version 1 stay as they are.
ALTER TABLE version ADD COLUMN attributes BYTEA;
