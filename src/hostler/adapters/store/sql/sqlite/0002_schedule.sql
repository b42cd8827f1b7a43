-- Leases and jobs (LEASE-7, LEASE-8, JOB-1).
--
-- `generation` is the last fence number that was given out, `leases` the number of the last lease: both only
-- rise, whatever is pruned. `began` is the `seq` with which this epoch began: events up to it are those of the
-- epoch before.
ALTER TABLE meta ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN leases INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN began INTEGER NOT NULL DEFAULT 0;

-- `body` is the value whole, as JSON; the other columns are what it is found by. `ended` is RFC 3339 in UTC
-- with milliseconds, NULL while it is not over.
CREATE TABLE leases (
    number  INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL,
    ended   TEXT,
    body    TEXT NOT NULL
);
CREATE UNIQUE INDEX leases_request ON leases (request) WHERE request <> '';
CREATE INDEX leases_live ON leases (number) WHERE ended IS NULL;
CREATE INDEX leases_over ON leases (number) WHERE ended IS NOT NULL;
CREATE INDEX leases_ended ON leases (ended) WHERE ended IS NOT NULL;

-- A row is there while its lease holds: the key is what lets one party at a time have a resource.
CREATE TABLE claims (
    resource TEXT NOT NULL PRIMARY KEY,
    lease    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX claims_lease ON claims (lease);

CREATE TABLE journal (
    lease TEXT    NOT NULL,
    n     INTEGER NOT NULL CHECK (n > 0),
    state TEXT    NOT NULL,
    note  TEXT    NOT NULL,
    step  TEXT    NOT NULL,
    found TEXT    NOT NULL,
    PRIMARY KEY (lease, n)
) WITHOUT ROWID;

-- `watch` is the elapsed second at which somebody looks at it, NULL once it is over.
CREATE TABLE jobs (
    id      TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    lease   TEXT,
    ended   TEXT,
    watch   REAL,
    body    TEXT NOT NULL
);
CREATE UNIQUE INDEX jobs_request ON jobs (request) WHERE request <> '';
CREATE INDEX jobs_lease ON jobs (lease, id) WHERE lease IS NOT NULL;
CREATE INDEX jobs_watch ON jobs (watch, id) WHERE watch IS NOT NULL;
CREATE INDEX jobs_open ON jobs (id) WHERE ended IS NULL;
CREATE INDEX jobs_over ON jobs (id) WHERE ended IS NOT NULL;
CREATE INDEX jobs_ended ON jobs (ended) WHERE ended IS NOT NULL;

CREATE TABLE points (
    job     TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    elapsed REAL    NOT NULL,
    value   REAL    NOT NULL,
    PRIMARY KEY (job, name, n)
) WITHOUT ROWID;

CREATE TABLE fence (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT    NOT NULL
);
