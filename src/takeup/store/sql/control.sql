-- The control table: its view, what of it can be claimed now, and the claim of one named task.

-- name: control_rows
SELECT url, iteration, stage, status, task_state, is_claimed, worker_id, lease_until AS lease_until_at, updated_at,
  job_id, pipeline, generation, error
FROM pipeline_control
WHERE pipeline = :pipeline AND job_id > :after AND (CAST(:stage AS TEXT) IS NULL OR stage = :stage)
  AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND (CAST(:task_state AS TEXT) IS NULL OR task_state = :task_state)
ORDER BY job_id LIMIT :limit_count;

-- name: control_row
SELECT url, iteration, stage, status, task_state, is_claimed, worker_id, lease_until AS lease_until_at, updated_at,
  job_id, pipeline, generation, error
FROM pipeline_control
WHERE job_id = (SELECT id FROM jobs WHERE subject = :subject ORDER BY generation DESC LIMIT 1);

-- name: claimable_tasks
-- READY and due, or held by a lease that is over; most urgent first, as a claim would take them.
SELECT t.id AS task_id, t.job_id, t.stage, j.spec
FROM tasks t JOIN jobs j ON j.id = t.job_id
WHERE t.lane_id IN (SELECT id FROM lanes WHERE pipeline = :pipeline AND (CAST(:stage AS TEXT) IS NULL OR stage = :stage))
  AND t.control = 'READY' AND t.job_control = 'READY' AND j.subject IS NOT NULL
  AND ((t.status = 'READY' AND t.available_at <= {start} AND t.attempt < t.max_attempts)
    OR (t.status = 'RUNNING' AND t.lease_expires_at <= {start} AND t.attempt < t.max_attempts))
ORDER BY t.priority DESC, t.available_at, t.id LIMIT :limit_count;

-- name: claimable_tasks_of
SELECT t.id AS task_id, t.job_id, t.stage, j.spec
FROM tasks t JOIN jobs j ON j.id = t.job_id JOIN job_stages s ON s.job_id = t.job_id AND s.stage = t.stage
WHERE j.live_subject = :subject AND t.control = 'READY' AND t.job_control = 'READY' AND t.attempt < t.max_attempts
  AND ((t.status = 'READY' AND t.available_at <= {start}) OR (t.status = 'RUNNING' AND t.lease_expires_at <= {start}))
ORDER BY s.position, t.id LIMIT :limit_count;

-- name: known_subjects
SELECT subject FROM jobs WHERE subject {among s(subject text)}
UNION
SELECT subject FROM jobs_archive WHERE subject {among s(subject text)};

-- name: tasks_of_stages
SELECT t.id, t.status, t.epoch FROM {rows g(job_id text, stage text)} JOIN tasks t ON t.job_id = g.job_id AND t.stage = g.stage
ORDER BY t.id;

-- name: task_to_claim
SELECT t.id, t.job_id, t.lane_id, t.epoch, t.phase, t.lease_owner, t.nonce_hash, t.attempt, t.max_attempts,
  CASE WHEN t.status = 'READY' AND t.available_at <= {now} AND t.attempt < t.max_attempts THEN 1 ELSE 0 END AS is_due,
  CASE WHEN t.status = 'RUNNING' AND t.lease_expires_at <= {now} THEN 1 ELSE 0 END AS is_overdue
FROM tasks t
WHERE t.id = :task_id AND t.control = 'READY' AND t.job_control = 'READY' {lock};

-- name: seat_of_worker
-- The slots of a worker that may claim in this lane, and each of those it uses.
SELECT w.slots, r.lease_slot FROM workers w
JOIN worker_lanes l ON l.worker_id = w.id AND l.lane_id = :lane_id
LEFT JOIN tasks r ON r.status = 'RUNNING' AND r.lease_owner = w.id
WHERE w.id = :worker_id AND w.status = 'active' AND NOT w.disabled AND w.quarantined_at IS NULL;

-- name: claim_known
SELECT request_id FROM claims WHERE request_id = :request_id;

-- name: claim_task
UPDATE tasks SET status = 'RUNNING', attempt = attempt + 1, epoch = epoch + 1, lease_owner = :worker_id,
  lease_slot = :slot, nonce_hash = :nonce_hash, lease_expires_at = {after lease_s}, claimed_at = {now},
  claim_request = :request_id, started_at = COALESCE(started_at, {now}), progress_at = {now},
  progress_percent = 0, progress_note = NULL
WHERE tasks.id = :task_id AND {guard} status = 'READY' AND control = 'READY' AND job_control = 'READY'
  AND available_at <= {now} AND attempt < max_attempts {end}
RETURNING tasks.id, job_id, pipeline, stage, segment, generation, attempt, max_attempts, priority, lease_s,
  lease_expires_at, parameters, epoch, tasks.nonce_hash
  {one , (SELECT spec FROM jobs WHERE id = job_id) AS spec, (SELECT subject FROM jobs WHERE id = job_id) AS subject|};
