-- Finds the null version of a name (Catalogue::null_version) among any number of others, by the beginning of its map of attributes: the key
-- "null" without bytes, after "etag" if that is present, because shorter keys come first. The index omits versions with number 1, so that
-- names that were put once take no space in it: the first version of a name can be found without the index.
--
-- The expression is SQLite's. Another engine needs one of its own, or a column.
CREATE INDEX version_null ON version (name) WHERE number > 1 AND substr(attributes, CASE WHEN substr(attributes, 1, 1) < X'B8' THEN 2 WHEN substr(attributes, 1, 1) = X'B8' THEN 3 ELSE 4 END + CASE WHEN substr(attributes, CASE WHEN substr(attributes, 1, 1) < X'B8' THEN 2 WHEN substr(attributes, 1, 1) = X'B8' THEN 3 ELSE 4 END, 6) = X'646574616758' THEN 7 + unicode(substr(attributes, 6 + CASE WHEN substr(attributes, 1, 1) < X'B8' THEN 2 WHEN substr(attributes, 1, 1) = X'B8' THEN 3 ELSE 4 END, 1)) ELSE 0 END, 6) = X'646E756C6C40';
