-- What the history checker compares the log with: only the columns that it looks at, in pages or by job.

-- name: verify_workers
SELECT id, status, disabled, quarantined_at, slots, capabilities, stages, incarnation FROM workers;

-- name: verify_jobs
SELECT id, status, error FROM jobs WHERE id {among j(job_id text)};

-- name: verify_tasks
SELECT id, job_id, stage, segment, lane_id, max_attempts, lease_s, status, control, epoch, attempt, refunds, lease_owner,
  nonce_hash, lease_expires_at, error
FROM tasks WHERE job_id {among j(job_id text)};

-- name: verify_stages
SELECT job_id, stage, retry FROM job_stages WHERE job_id {among j(job_id text)};

-- name: verify_needs
SELECT job_id, stage, needs, per_segment FROM task_deps WHERE job_id {among j(job_id text)};

-- name: verify_job_ids
SELECT id FROM jobs WHERE id > :after ORDER BY id LIMIT :limit_count;

-- name: verify_messages
SELECT id, topic, subject, status FROM outbox WHERE id > :after ORDER BY id LIMIT :limit_count;

-- name: verify_artifacts
SELECT job_id, task_id, epoch, name, object_key, sha256, size_bytes FROM artifacts
WHERE (job_id, task_id, name) > (:job_id, :task_id, :name) ORDER BY job_id, task_id, name LIMIT :limit_count;

-- name: verify_log_size [sqlite]
-- Its numbers have no gaps, since a rolled-back transaction gives them back.
SELECT (SELECT COUNT(*) FROM audit) + (SELECT COUNT(*) FROM audit_archive) AS kept,
  COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0) AS written;

-- name: verify_log_size
SELECT 0 AS kept, 0 AS written;

-- name: archived_ids
SELECT id FROM jobs_archive WHERE id > :after ORDER BY id LIMIT :limit_count;

-- name: archived_jobs
SELECT id, status, error FROM jobs_archive WHERE id {among j(job_id text)};

-- name: archived_tasks
SELECT id, job_id, stage, segment, lane_id, max_attempts, lease_s, status, control, epoch, attempt, refunds, lease_owner,
  nonce_hash, lease_expires_at, error
FROM tasks_archive WHERE job_id {among j(job_id text)};

-- name: archived_stages
SELECT job_id, stage, retry FROM job_stages_archive WHERE job_id {among j(job_id text)};

-- name: archived_needs
SELECT job_id, stage, needs, per_segment FROM task_deps_archive WHERE job_id {among j(job_id text)};

-- name: archived_log
SELECT * FROM audit_archive WHERE job_id {among j(job_id text)} ORDER BY seq;
