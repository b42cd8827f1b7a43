-- name: meta
SELECT epoch, seq, pruned, generation, leases, began FROM meta WHERE id = 1;

-- name: found
INSERT INTO meta (id, epoch, seq, pruned) VALUES (1, :epoch, 0, 0);

-- name: keep
UPDATE meta SET epoch = :epoch, seq = :seq, pruned = :pruned, generation = :generation, leases = :leases, began = :began WHERE id = 1;

-- name: append
INSERT INTO events (seq, time, type, body) VALUES (:seq, :time, :type, :body);

-- name: since
SELECT seq, body FROM events WHERE seq > :seq ORDER BY seq LIMIT :limit;

-- name: oldest
SELECT seq, time FROM events ORDER BY seq LIMIT :limit;

-- name: drop
DELETE FROM events WHERE seq <= :seq;

-- name: lease
SELECT id, body FROM leases WHERE id = :id;

-- name: lease_of_request
SELECT id, body FROM leases WHERE request = :request AND request <> '';

-- name: live
SELECT id, body FROM leases WHERE ended IS NULL ORDER BY number;

-- name: ended
SELECT id, body FROM leases WHERE ended IS NOT NULL AND number < :after ORDER BY number DESC LIMIT :limit;

-- name: new_lease
INSERT INTO leases (number, id, request, ended, body) VALUES (:number, :id, :request, :ended, :body);

-- name: keep_lease
UPDATE leases SET request = :request, ended = :ended, body = :body WHERE number = :number AND id = :id;

-- name: claimed
SELECT resource FROM claims WHERE lease = :lease;

-- name: claim
INSERT INTO claims (resource, lease) SELECT value, :lease FROM json_each(:resources);

-- name: unclaim
DELETE FROM claims WHERE resource = :resource AND lease = :lease;

-- name: journal
SELECT n, state, note, step, found FROM journal WHERE lease = :lease ORDER BY n;

-- name: entry
SELECT n FROM journal WHERE lease = :lease AND n = :n;

-- name: begin
INSERT INTO journal (lease, n, state, note, step, found) VALUES (:lease, :n, :state, :note, :step, :found);

-- name: mark
UPDATE journal SET state = :state, note = :note WHERE lease = :lease AND n = :n;

-- name: job
SELECT id, body FROM jobs WHERE id = :id;

-- name: job_of_request
SELECT id, body FROM jobs WHERE request = :request AND request <> '';

-- name: open_jobs
SELECT id, body FROM jobs WHERE ended IS NULL ORDER BY id;

-- name: jobs_of
SELECT id, body FROM jobs WHERE lease = :lease ORDER BY id;

-- name: jobs_quiet
SELECT id, body FROM jobs WHERE watch <= :before ORDER BY watch, id LIMIT :limit;

-- name: ended_jobs
SELECT id, body FROM jobs WHERE ended IS NOT NULL AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: newest_ended_jobs
SELECT id, body FROM jobs WHERE ended IS NOT NULL ORDER BY id DESC LIMIT :limit;

-- name: put_job
INSERT INTO jobs (id, request, lease, ended, watch, body) VALUES (:id, :request, :lease, :ended, :watch, :body)
ON CONFLICT (id) DO UPDATE SET request = excluded.request, lease = excluded.lease, ended = excluded.ended, watch = excluded.watch, body = excluded.body;

-- name: last_point
SELECT max(n) FROM points WHERE job = :job AND name = :name;

-- name: add_point
INSERT INTO points (job, name, n, elapsed, value) VALUES (:job, :name, :n, :elapsed, :value);

-- name: drop_points
DELETE FROM points WHERE job = :job AND name = :name AND n <= :n;

-- name: next_name
SELECT min(name) FROM points WHERE job = :job AND name > :name;

-- name: points
SELECT elapsed, value FROM points WHERE job = :job AND name = :name ORDER BY n DESC LIMIT :limit;

-- name: fence
SELECT body FROM fence WHERE id = 1;

-- name: put_fence
INSERT INTO fence (id, body) VALUES (1, :body) ON CONFLICT (id) DO UPDATE SET body = excluded.body;

-- name: drop_fence
DELETE FROM fence WHERE id = 1;

-- name: old_leases
SELECT id FROM leases WHERE ended < :before ORDER BY ended LIMIT :limit;

-- name: old_jobs
SELECT id FROM jobs WHERE ended < :before ORDER BY ended LIMIT :limit;

-- name: drop_lease
DELETE FROM leases WHERE id = :id;

-- name: drop_journal
DELETE FROM journal WHERE lease = :id;

-- name: drop_job
DELETE FROM jobs WHERE id = :id;

-- name: drop_points_of
DELETE FROM points WHERE job = :id;

-- name: all_leases
SELECT body FROM leases;

-- name: all_jobs
SELECT body FROM jobs;

-- name: all_events
SELECT body FROM events;

-- name: all_steps
SELECT step FROM journal;

-- name: all_founds
SELECT found FROM journal;
