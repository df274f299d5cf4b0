-- The newest copy in the archive at the time when the operator decided to use this file without it.
ALTER TABLE copy ADD COLUMN set_aside BLOB;
