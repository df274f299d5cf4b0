-- What a bucket says of others: people without an account, and pages of other sites.

-- What is blocked of public access, if that was ever said: 1 new lists, 2 lists, 4 new policies, 8 policies.
ALTER TABLE bucket ADD COLUMN public_access INTEGER;
-- Rules for pages of other sites, as JSON.
ALTER TABLE bucket ADD COLUMN cors TEXT;
