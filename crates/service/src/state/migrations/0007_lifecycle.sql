-- Lifecycle rules of a bucket, as JSON.
ALTER TABLE bucket ADD COLUMN lifecycle TEXT;
