-- What the platters of a set are made of: 1 glass; NULL is disk.
--
-- A row without a medium has the row_check it had before, so rows of earlier versions stay as they are.
ALTER TABLE platter_set ADD COLUMN medium BIGINT;
