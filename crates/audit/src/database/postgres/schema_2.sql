-- Version 2 of the tables of an audit on PostgreSQL: what was removed. Events of removed copies
-- stay.
SET LOCAL search_path = fulgurite_audit;

CREATE TABLE removed_copies (
    file bigint NOT NULL,
    -- As it was. If the copy comes back, another one voids checks that began before the removal.
    due_at bigint NOT NULL,
    last_event bigint NOT NULL,
    node smallint NOT NULL,
    location text COLLATE "C",
    PRIMARY KEY (file, node)
);

CREATE TABLE removed_nodes (
    node smallint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    place text NOT NULL,
    at bigint NOT NULL,
    reason text NOT NULL
);

UPDATE about SET version = 2;
