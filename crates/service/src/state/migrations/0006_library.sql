-- The robotic library, if the server has one. None of this is in the backup: without it, every platter is in its slot.

-- Sets have the same number as long as the library exists; it says which slots their platters have.
CREATE TABLE library_set (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE
);

CREATE TABLE library (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Its layout and the shape of its sets; with others it is set up anew.
    building TEXT NOT NULL,
    -- The slot of each platter it has room for, by number: 4 bytes each, little-endian.
    slots BLOB NOT NULL,
    -- Where its platters and shuttles were when this was written last.
    stock TEXT NOT NULL
);
