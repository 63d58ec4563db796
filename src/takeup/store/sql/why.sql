-- What explains that a job does not run.

-- name: why_counts
SELECT stage, status, control, COUNT(*) AS task_count, SUM(progress_percent) AS percent_sum, MIN(available_at) AS available_at,
  MIN(ready_at) AS ready_at
FROM tasks WHERE job_id = :job_id GROUP BY stage, status, control;

-- name: why_running
SELECT id, stage, segment, status, attempt, max_attempts, lease_owner, claimed_at, lease_expires_at, available_at, progress_percent, error
FROM tasks WHERE job_id = :job_id AND status = 'RUNNING' ORDER BY claimed_at, id LIMIT :limit_count;

-- name: why_retrying
SELECT id, stage, segment, status, attempt, max_attempts, lease_owner, claimed_at, lease_expires_at, available_at, progress_percent, error
FROM tasks WHERE job_id = :job_id AND status = 'ERROR' ORDER BY available_at, id LIMIT :limit_count;

-- name: why_failed
SELECT id, stage, segment, status, attempt, max_attempts, lease_owner, claimed_at, lease_expires_at, available_at, progress_percent, error
FROM tasks WHERE job_id = :job_id AND status = 'FAILED' ORDER BY finished_at, id LIMIT :limit_count;

-- name: why_workers
SELECT w.id, w.status, w.disabled, w.quarantined_at, w.slots, w.capabilities, w.stages,
  (SELECT COUNT(*) FROM tasks t WHERE t.status = 'RUNNING' AND t.lease_owner = w.id) AS load
FROM workers w WHERE w.status <> 'offline' ORDER BY w.id LIMIT :limit_count;

-- name: why_offline
SELECT COUNT(*) AS worker_count FROM workers WHERE status = 'offline';

-- name: why_changed
-- The last thing that somebody did to the job.
SELECT event, actor, logged_at, reason FROM audit
WHERE job_id = :job_id AND actor = 'operator' AND event IN ('pause', 'resume', 'skip', 'cancel') ORDER BY seq DESC LIMIT 1;
