-- Finds the null version of a name (see version_null in the program) among any number of others, by what the map of attributes begins with: "null"
-- with no bytes, behind "etag" if there is one, since shorter keys come first. A version with number 1 is the last of its name, and found as such; so
-- names that were put once take no room here.
--
-- The expression is SQLite's. Another engine needs one of its own, or a column.
CREATE INDEX version_null ON version (name) WHERE number > 1 AND substr(attributes, CASE WHEN substr(attributes, 1, 1) < X'B8' THEN 2 WHEN substr(attributes, 1, 1) = X'B8' THEN 3 ELSE 4 END + CASE WHEN substr(attributes, CASE WHEN substr(attributes, 1, 1) < X'B8' THEN 2 WHEN substr(attributes, 1, 1) = X'B8' THEN 3 ELSE 4 END, 6) = X'646574616758' THEN 7 + unicode(substr(attributes, 6 + CASE WHEN substr(attributes, 1, 1) < X'B8' THEN 2 WHEN substr(attributes, 1, 1) = X'B8' THEN 3 ELSE 4 END, 1)) ELSE 0 END, 6) = X'646E756C6C40';
