-- Counts of the rows in tables that nothing else counts, so that the damage check finds missing rows: archived_tombstone, left_out, released,
-- segment_end and unlisted. NULL until the next change after the migration, which counts them.
--
-- Missing counts add nothing to row_check, so the row of an earlier version stays as it is.
ALTER TABLE counter ADD COLUMN archived_tombstones BIGINT;
ALTER TABLE counter ADD COLUMN left_out BIGINT;
ALTER TABLE counter ADD COLUMN released BIGINT;
ALTER TABLE counter ADD COLUMN segment_ends BIGINT;
ALTER TABLE counter ADD COLUMN unlisted BIGINT;
