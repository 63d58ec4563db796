-- Taking work. On PostgreSQL the whole claim is one statement, so it is one round trip and one commit. What is leased
-- is answered in the order of a lease's fields, with epoch and nonce hash for its token.

-- name: claim_lanes
SELECT l.lane_id, w.slots,
  CASE WHEN l.preferred THEN 0 ELSE (
    SELECT CAST(COALESCE(SUM({greatest}(p.slots - (SELECT COUNT(*) FROM tasks r WHERE r.status = 'RUNNING' AND r.lease_owner = p.id), 0)), 0) AS BIGINT)
    FROM worker_lanes o JOIN workers p ON p.id = o.worker_id
    WHERE o.lane_id = l.lane_id AND o.preferred AND p.status = 'active' AND NOT p.disabled AND p.quarantined_at IS NULL
      AND COALESCE(p.last_heartbeat_at, p.registered_at) > {before :defer_s}
  ) END AS deferred_count
FROM worker_lanes l JOIN workers w ON w.id = l.worker_id
WHERE l.worker_id = :worker_id AND w.status = 'active' AND NOT w.disabled AND w.quarantined_at IS NULL
ORDER BY l.lane_id;

-- name: claim_lanes [postgres]
-- claim_tasks looks at the lanes itself

-- name: claim_slots
SELECT lease_slot FROM tasks WHERE status = 'RUNNING' AND lease_owner = :worker_id;

-- name: claim_slots [postgres]
-- claim_tasks counts the slots itself

-- name: claim_ledger
SELECT request_id FROM claims WHERE request_id = :request_id;

-- name: claim_ledger [postgres]
-- claim_tasks looks the request up itself

-- name: claim_candidates
SELECT t.id, t.lane_id, t.priority, t.available_at, t.phase, t.job_id, j.status AS job_status,
  CASE WHEN t.ready_at > {before :defer_s} THEN 1 ELSE 0 END AS is_fresh
FROM (
  SELECT * FROM tasks
  WHERE lane_id = :lane_id AND status = 'READY' AND control = 'READY' AND job_control = 'READY'
    AND available_at <= {start} AND attempt < max_attempts
  ORDER BY priority DESC, available_at, id LIMIT :limit_count
) t JOIN jobs j ON j.id = t.job_id
ORDER BY t.priority DESC, t.available_at, t.id;

-- name: claim_tasks
UPDATE tasks SET status = 'RUNNING', attempt = attempt + 1, epoch = epoch + 1, lease_owner = :worker_id,
  lease_slot = g.slot, nonce_hash = g.nonce_hash, lease_expires_at = {after lease_s}, claimed_at = {now},
  claim_request = :request_id, started_at = COALESCE(started_at, {now}), progress_at = {now},
  progress_percent = 0, progress_note = NULL
FROM {rows g(task_id bigint, slot bigint, nonce_hash hex)}
WHERE tasks.id = g.task_id AND status = 'READY'
RETURNING tasks.id, job_id, pipeline, stage, segment, generation, attempt, max_attempts, priority, lease_s,
  lease_expires_at, parameters, epoch, tasks.nonce_hash;

-- name: claim_tasks [postgres]
-- The gate lets copies of one request pass one after the other, so that all of them see the same leases. What stands in
-- `whole` is of no use; it calls the function once, after every task was moved. A lane is looked at from its bookmark on.
-- whole
WITH worker AS MATERIALIZED (
  SELECT w.slots_free, LEAST(:limit_count, cardinality(w.slots_free)) AS wanted_count,
    string_to_array(:hashes, ',') AS hashes, {now} AS moment
  FROM (
    SELECT {one CASE WHEN NOT EXISTS (SELECT 1 FROM tasks WHERE status = 'RUNNING' AND lease_owner = :worker_id)
        THEN ARRAY[1] ELSE takeup_free_slots(:worker_id, slots) END|takeup_free_slots(:worker_id, slots)} AS slots_free,
      pg_advisory_xact_lock(hashtextextended(:request_id, 0)) AS gate
    FROM workers WHERE id = :worker_id AND status = 'active' AND NOT disabled AND quarantined_at IS NULL {apart}
  ) w
), picked AS MATERIALIZED (
  SELECT c.id, {one 1|ROW_NUMBER() OVER (ORDER BY c.priority DESC, c.available_at, c.id)} AS place
  FROM (
    SELECT lane_id, CASE WHEN preferred THEN '{}' ELSE takeup_left_to_others(lane_id, {start}, :defer_s) END AS left_to_others
    FROM worker_lanes WHERE worker_id = :worker_id {apart}
  ) l LEFT JOIN unnest(string_to_array(:marked_lanes, ',')::BIGINT[], string_to_array(:marked_ranks, ',')::INTEGER[],
    string_to_array(:marked_times, ',')::TIMESTAMPTZ[], string_to_array(:marked_ids, ',')::BIGINT[])
    AS b(lane_id, rank, available_at, id) ON b.lane_id = l.lane_id
  CROSS JOIN LATERAL (
    SELECT t.id, t.priority, t.available_at FROM tasks t
    WHERE t.lane_id = l.lane_id AND t.status = 'READY' AND t.control = 'READY' AND t.job_control = 'READY'
      AND t.available_at <= {start} AND t.attempt < t.max_attempts AND t.id <> ALL (l.left_to_others)
      AND (-t.priority, t.available_at, t.id)
        > (COALESCE(b.rank, {before_first}), COALESCE(b.available_at, '-infinity'), COALESCE(b.id, 0))
    ORDER BY -t.priority, t.available_at, t.id LIMIT COALESCE((SELECT wanted_count FROM worker), 0) {skip_locked}
  ) c {one ORDER BY c.priority DESC, c.available_at, c.id LIMIT 1|}
), ledger AS (
  INSERT INTO claims (request_id, worker_id, claimed_at)
  SELECT :request_id, :worker_id, {now} FROM picked WHERE place = 1
  ON CONFLICT DO NOTHING RETURNING request_id
), moved AS (
  UPDATE tasks SET status = 'RUNNING', attempt = attempt + 1, epoch = epoch + 1, lease_owner = :worker_id,
    lease_slot = worker.slots_free[picked.place],
    nonce_hash = worker.hashes[picked.place],
    lease_expires_at = worker.moment + make_interval(secs => lease_s), claimed_at = worker.moment,
    claim_request = :request_id, started_at = COALESCE(started_at, worker.moment), progress_at = worker.moment,
    progress_percent = 0, progress_note = NULL
  FROM picked, worker
  WHERE tasks.id = picked.id AND picked.place <= worker.wanted_count AND {guard} tasks.status = 'READY' {end}
    AND EXISTS (SELECT 1 FROM ledger)
  RETURNING tasks.id, job_id, pipeline, stage, segment, generation, attempt, max_attempts, priority, epoch, nonce_hash,
    lease_s, lease_expires_at, claimed_at, parameters, available_at, phase, lane_id
), logged AS (
  INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, task_id, worker_id, generation,
    epoch, nonce_hash, attempt, lease_expires_at, available_at, request_id)
  SELECT claimed_at, 'task', 'claim', 'worker', 'READY', 'RUNNING', job_id, id, :worker_id, generation,
    epoch, nonce_hash, attempt, lease_expires_at, available_at, :request_id
  FROM moved
), furthest AS (
  SELECT DISTINCT ON (job_id) job_id, phase FROM moved ORDER BY job_id, {phase_rank phase} DESC
)
SELECT m.id, m.job_id, m.pipeline, m.stage, m.segment, m.generation, m.attempt, m.max_attempts, m.priority, m.lease_s,
  m.lease_expires_at, m.parameters, m.epoch, m.nonce_hash, {one b.spec, b.subject,|} m.lane_id, m.available_at, (
    SELECT {one |COUNT}(takeup_start_job(d.job_id, d.phase, :request_id, {now}))
    FROM {one moved|furthest} d JOIN jobs j ON j.id = d.job_id
    WHERE {phase_rank j.status} < {phase_rank d.phase}
  ) AS whole
FROM moved m {one JOIN jobs b ON b.id = m.job_id|};

-- name: add_claim
INSERT INTO claims (request_id, worker_id, claimed_at) VALUES (:request_id, :worker_id, {now});

-- name: claimed_before
-- alone
-- What a repeated request still holds; empty once its leases have ended.
SELECT t.id, t.job_id, t.pipeline, t.stage, t.segment, t.generation, t.attempt, t.max_attempts, t.priority, t.lease_s,
  t.lease_expires_at, t.parameters, t.epoch, t.nonce_hash{one , j.spec, j.subject|}
FROM tasks t {one JOIN jobs j ON j.id = t.job_id|}
WHERE t.status = 'RUNNING' AND t.lease_owner = :worker_id AND t.claim_request = :request_id;

-- name: forget_claims
DELETE FROM claims WHERE claimed_at < {before :older_than_s};
