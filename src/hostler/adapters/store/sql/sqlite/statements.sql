-- name: meta
SELECT epoch, seq, pruned FROM meta WHERE id = 1;

-- name: found
INSERT INTO meta (id, epoch, seq, pruned) VALUES (1, :epoch, 0, 0);

-- name: take
UPDATE meta SET seq = seq + :count WHERE id = 1;

-- name: append
INSERT INTO events (seq, time, type, body) VALUES (:seq, :time, :type, :body);

-- name: since
SELECT seq, body FROM events WHERE seq > :seq ORDER BY seq LIMIT :limit;

-- name: oldest
SELECT seq, time FROM events ORDER BY seq LIMIT :limit;

-- name: drop
DELETE FROM events WHERE seq <= :seq;

-- name: pruned
UPDATE meta SET pruned = :seq WHERE id = 1;
