-- Old uploads are looked for every few seconds.
CREATE INDEX upload_by_age ON upload (created);
