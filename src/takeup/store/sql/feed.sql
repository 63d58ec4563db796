-- What those who follow live are told from: the log after some place, and how jobs and workers stand.

-- name: log_frontier [postgres]
-- A row gets its number before others can see it. The id that is drawn here, after the look, is above those of all
-- transactions that were under way at it; once the oldest one is above it, nothing up to `newest` can come any more.
SELECT f.newest, CASE WHEN f.newest > :settled THEN CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT) END AS writer,
  CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS oldest
FROM (SELECT COALESCE(MAX(seq), 0) AS newest FROM audit) f;

-- name: log_frontier
-- The one writer commits in the order of the numbers.
SELECT COALESCE(MAX(seq), 0) AS newest, 0 AS writer, 1 AS oldest FROM audit;

-- name: log_settled
SELECT COALESCE(MAX(seq), 0) AS settled FROM audit WHERE logged_at < {before :settle_s};

-- name: jobs_of_subjects
SELECT id, subject FROM jobs WHERE subject {among s(subject text)} ORDER BY generation DESC, subject LIMIT :limit_count;

-- name: log_of_jobs
-- The inner rows are few and found by their jobs; numbers in the order of which all jobs stand would lead through all.
SELECT f.* FROM (
  SELECT seq, logged_at, event, to_status, job_id AS id, reason FROM audit
  WHERE job_id {among j(job_id text)} AND task_id IS NULL {apart}
) f WHERE f.seq > :after ORDER BY f.seq LIMIT :limit_count;

-- name: log_of_workers
SELECT f.* FROM (
  SELECT seq, logged_at, event, to_status, worker_id AS id, reason, job_id, message_id FROM audit WHERE seq > :after {apart}
) f WHERE f.job_id IS NULL AND f.message_id IS NULL AND f.id IS NOT NULL ORDER BY f.seq LIMIT :limit_count;

-- name: old_log_of_workers
-- For whoever was away for long: through the rows of workers alone, not through all that happened since.
SELECT f.* FROM (
  SELECT seq, logged_at, event, to_status, worker_id AS id, reason FROM audit
  WHERE job_id IS NULL AND message_id IS NULL AND worker_id IS NOT NULL {apart}
) f WHERE f.seq > :after ORDER BY f.seq LIMIT :limit_count;

-- name: watched_jobs
SELECT id, subject, generation, status, control, error, finished_at FROM jobs WHERE id {among j(job_id text)};

-- name: watched_stages
-- Counted first: no plan may begin with all tasks.
SELECT s.job_id, s.stage, s.position, s.phase, s.splitter, s.expanded_at, t.status, t.task_count, t.percent_sum,
  t.written_at, {now} AS now_at
FROM job_stages s LEFT JOIN (
  SELECT job_id, stage, status, COUNT(*) AS task_count, SUM(progress_percent) AS percent_sum,
    MAX(COALESCE(finished_at, progress_at, started_at)) AS written_at FROM tasks
  WHERE job_id {among j(job_id text)} GROUP BY job_id, stage, status
) t ON t.job_id = s.job_id AND t.stage = s.stage
WHERE s.job_id {among j(job_id text)} ORDER BY s.job_id, s.position;

-- name: watched_workers
SELECT w.id, w.name, w.status, w.disabled, w.quarantined_at, w.slots,
  (SELECT COUNT(*) FROM tasks t WHERE t.status = 'RUNNING' AND t.lease_owner = w.id) AS load
FROM workers w WHERE w.id > :after ORDER BY w.id LIMIT :limit_count;
