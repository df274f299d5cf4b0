-- What reading showed of each copy, beyond the columns of earlier versions. Where all new columns of a row are NULL, they add nothing to
-- row_check, so rows of earlier versions stay as they are. Times are in seconds since 1970.
--
-- platter: verified is when the platter was last read in full or found missing. intact: when it was last read in full without damage, if that
-- was not at verified. bad_headers: damaged copies of the header at verified. unreadable: when the system refused to read some of it, if that
-- was after verified. repaired: when it was last rewritten; repaired_state: the state it was found in before (1 sound, 2 elsewhere, 3 absent,
-- 4 unreadable, 5 missing, 6 damaged); repaired_sectors: the sectors that it had lost.
ALTER TABLE platter ADD COLUMN intact BIGINT;
ALTER TABLE platter ADD COLUMN bad_headers BIGINT;
ALTER TABLE platter ADD COLUMN unreadable BIGINT;
ALTER TABLE platter ADD COLUMN repaired BIGINT;
ALTER TABLE platter ADD COLUMN repaired_state BIGINT;
ALTER TABLE platter ADD COLUMN repaired_sectors BIGINT;

-- staged, in the row of a version's record (part 0): verified is when all of the version's bytes in staging were last read and matched their
-- checksums; damaged is when some of them last did not, if that was after verified.
ALTER TABLE staged ADD COLUMN verified BIGINT;
ALTER TABLE staged ADD COLUMN damaged BIGINT;
