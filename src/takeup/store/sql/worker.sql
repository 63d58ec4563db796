-- Workers and which lanes of work each may serve.

-- name: worker_by_id
SELECT w.*, (SELECT COUNT(*) FROM tasks t WHERE t.status = 'RUNNING' AND t.lease_owner = w.id) AS load
FROM workers w WHERE w.id = :worker_id;

-- name: workers_page
SELECT w.*, (SELECT COUNT(*) FROM tasks t WHERE t.status = 'RUNNING' AND t.lease_owner = w.id) AS load
FROM workers w WHERE w.id > :after ORDER BY w.id LIMIT :limit_count;

-- name: worker_counts
SELECT status, COUNT(*) AS worker_count FROM workers GROUP BY status;

-- name: workers_for_change
SELECT id, status, disabled, quarantined_at, capabilities, stages, processes FROM workers WHERE id {among g(worker_id text)} ORDER BY id {lock};

-- name: workers_abilities
SELECT id, capabilities, stages FROM workers;

-- name: add_worker
INSERT INTO workers (id, name, kind, status, slots, capabilities, stages, metadata, processes, incarnation, registered_at)
VALUES (:worker_id, :name, :kind, 'active', :slots, :capabilities, :stages, :metadata, :processes, 1, {now});

-- name: enrol_worker
-- Known, but no process of it has begun yet.
INSERT INTO workers (id, name, kind, status, slots, capabilities, stages, metadata, incarnation, registered_at)
VALUES (:worker_id, :name, :kind, 'offline', :slots, :capabilities, :stages, :metadata, 0, {now});

-- name: register_again
UPDATE workers SET name = :name, kind = :kind, status = 'active', slots = :slots, capabilities = :capabilities,
  stages = :stages, metadata = :metadata, processes = :processes,
  incarnation = incarnation + 1, registered_at = {now}, last_heartbeat_at = NULL
WHERE id = :worker_id AND NOT disabled;

-- name: cut_leases
-- Who registers again is a new process: what its predecessor held is over now, not only when its time is up.
UPDATE tasks SET lease_expires_at = {now}
WHERE status = 'RUNNING' AND lease_owner = :worker_id AND lease_expires_at > {now}
RETURNING id, nonce_hash;

-- name: all_lanes
SELECT id, pipeline, stage, requires, prefers FROM lanes;

-- name: lanes_of_workers
SELECT worker_id, lane_id FROM worker_lanes WHERE worker_id {among g(worker_id text)};

-- name: drop_worker_lanes
DELETE FROM worker_lanes WHERE worker_id = :worker_id;

-- name: add_worker_lanes
INSERT INTO worker_lanes (worker_id, lane_id, preferred)
SELECT worker_id, lane_id, preferred FROM {rows g(worker_id text, lane_id bigint, preferred bool)} WHERE 1 = 1
ON CONFLICT DO NOTHING;

-- name: beat_workers
UPDATE workers SET last_heartbeat_at = {now}, status = CASE WHEN status = 'offline' THEN 'active' ELSE status END
WHERE id {among g(worker_id text)} AND NOT disabled
RETURNING id, status;

-- name: set_worker_status
UPDATE workers SET status = g.to_status FROM {rows g(worker_id text, from_status text, to_status text)}
WHERE workers.id = g.worker_id AND workers.status = g.from_status RETURNING workers.id;

-- name: silent_workers
SELECT id, status FROM workers
WHERE status IN ('active', 'draining') AND COALESCE(last_heartbeat_at, registered_at) < {before :threshold_s}
ORDER BY id LIMIT :limit_count {skip_locked};

-- name: lose_workers
-- The threshold is tested again in the statement that acts on it: a heartbeat in between keeps its worker.
UPDATE workers SET status = 'offline'
WHERE id {among g(worker_id text)} AND status IN ('active', 'draining')
  AND COALESCE(last_heartbeat_at, registered_at) < {before :threshold_s}
RETURNING id;

-- name: disable_workers
UPDATE workers SET disabled = {true} WHERE id {among g(worker_id text)};

-- name: enable_workers
-- Whoever lets a worker back says that it is well again: what it failed before is forgiven.
UPDATE workers SET disabled = {false}, quarantined_at = NULL, quarantine_reason = NULL, trusted_at = {now}
WHERE id {among g(worker_id text)};
