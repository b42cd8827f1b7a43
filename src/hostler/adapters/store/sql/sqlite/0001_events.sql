-- The event log (FEED-2).
--
-- `meta` has one row. `epoch` is this store's life: another one after it was made anew, restored or moved.
-- `seq` is the number of the last event, taken inside the writing transaction, so that the order of commits is
-- the order of numbers. `pruned` is the highest number that was dropped: a cursor below it cannot go on.
CREATE TABLE meta (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    epoch  TEXT    NOT NULL,
    seq    INTEGER NOT NULL,
    pruned INTEGER NOT NULL,
    CHECK (pruned <= seq)
);

-- `time` is RFC 3339 in UTC with milliseconds (TIME-1), so its order as text is its order in time.
-- `body` is the event's JSON form.
CREATE TABLE events (
    seq  INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL
);
