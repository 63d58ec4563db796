-- Finished jobs leave the hot tables together with everything that belongs to them; what is left of messages and of
-- workers that are gone for good leaves later.

-- name: archive_patience [postgres]
-- A job may have 100,000 tasks and its log many more rows; nobody waits for them.
SELECT set_config('statement_timeout', :patience_ms, TRUE);

-- name: archive_patience
SELECT :patience_ms AS patience_ms;

-- name: archive_jobs [postgres]
-- whole
WITH picked AS MATERIALIZED (
  SELECT id FROM jobs WHERE status IN ({job.final}) AND finished_at < (SELECT {before :older_than_s})
  ORDER BY finished_at, id LIMIT :limit_count FOR UPDATE SKIP LOCKED
), gone_tasks AS (DELETE FROM tasks WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_stages AS (DELETE FROM job_stages WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_needs AS (DELETE FROM task_deps WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_audit AS (DELETE FROM audit WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_artifacts AS (DELETE FROM artifacts WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_logs AS (DELETE FROM job_logs WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_steps AS (DELETE FROM execution_steps WHERE job_id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
gone_jobs AS (DELETE FROM jobs WHERE id = ANY (ARRAY(SELECT id FROM picked)) RETURNING *),
kept_tasks AS (INSERT INTO tasks_archive SELECT * FROM gone_tasks),
kept_stages AS (INSERT INTO job_stages_archive SELECT * FROM gone_stages),
kept_needs AS (INSERT INTO task_deps_archive SELECT * FROM gone_needs),
kept_audit AS (INSERT INTO audit_archive SELECT * FROM gone_audit),
kept_artifacts AS (INSERT INTO artifacts_archive SELECT * FROM gone_artifacts),
kept_logs AS (INSERT INTO job_logs_archive SELECT * FROM gone_logs),
kept_steps AS (INSERT INTO execution_steps_archive SELECT * FROM gone_steps),
kept_jobs AS (INSERT INTO jobs_archive SELECT * FROM gone_jobs)
SELECT id, TRUE AS whole FROM gone_jobs;

-- name: archive_jobs
SELECT id FROM jobs WHERE status IN ({job.final}) AND finished_at < (SELECT {before :older_than_s})
ORDER BY finished_at, id LIMIT :limit_count;

-- name: copy_jobs
INSERT INTO jobs_archive SELECT * FROM jobs WHERE id {among j(job_id text)};
-- name: copy_stages
INSERT INTO job_stages_archive SELECT * FROM job_stages WHERE job_id {among j(job_id text)};
-- name: copy_needs
INSERT INTO task_deps_archive SELECT * FROM task_deps WHERE job_id {among j(job_id text)};
-- name: copy_tasks
INSERT INTO tasks_archive SELECT * FROM tasks WHERE job_id {among j(job_id text)};
-- name: copy_audit
INSERT INTO audit_archive SELECT * FROM audit WHERE job_id {among j(job_id text)};
-- name: copy_artifacts
INSERT INTO artifacts_archive SELECT * FROM artifacts WHERE job_id {among j(job_id text)};
-- name: copy_logs
INSERT INTO job_logs_archive SELECT * FROM job_logs WHERE job_id {among j(job_id text)};
-- name: copy_steps
INSERT INTO execution_steps_archive SELECT * FROM execution_steps WHERE job_id {among j(job_id text)};
-- name: drop_logs
DELETE FROM job_logs WHERE job_id {among j(job_id text)};
-- name: drop_steps
DELETE FROM execution_steps WHERE job_id {among j(job_id text)};
-- name: drop_artifacts
DELETE FROM artifacts WHERE job_id {among j(job_id text)};
-- name: drop_audit
DELETE FROM audit WHERE job_id {among j(job_id text)};
-- name: drop_tasks
DELETE FROM tasks WHERE job_id {among j(job_id text)};
-- name: drop_needs
DELETE FROM task_deps WHERE job_id {among j(job_id text)};
-- name: drop_stages
DELETE FROM job_stages WHERE job_id {among j(job_id text)};
-- name: drop_jobs
DELETE FROM jobs WHERE id {among j(job_id text)};

-- name: old_messages
-- As long as its job is here, a message is what proves that the job was announced.
SELECT id FROM outbox WHERE status = :status AND finished_at IS NOT NULL AND finished_at < (SELECT {before :older_than_s})
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = outbox.subject)
ORDER BY finished_at, id LIMIT :limit_count {skip_locked};
-- name: copy_message_log
INSERT INTO audit_archive SELECT * FROM audit WHERE job_id IS NULL AND message_id {among g(message_id bigint)};
-- name: drop_message_log
DELETE FROM audit WHERE job_id IS NULL AND message_id {among g(message_id bigint)};
-- name: drop_messages
DELETE FROM outbox WHERE id {among g(message_id bigint)};

-- name: old_workers
-- One that was switched off or quarantined stays known, or it could register again as if nothing had been.
SELECT id FROM workers WHERE status = 'offline' AND NOT disabled AND quarantined_at IS NULL
  AND COALESCE(last_heartbeat_at, registered_at) < {before :older_than_s}
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.status = 'RUNNING' AND t.lease_owner = workers.id)
ORDER BY id LIMIT :limit_count {skip_locked};
-- name: copy_worker_log
INSERT INTO audit_archive SELECT * FROM audit
WHERE job_id IS NULL AND message_id IS NULL AND worker_id {among g(worker_id text)};
-- name: drop_worker_log
DELETE FROM audit WHERE job_id IS NULL AND message_id IS NULL AND worker_id {among g(worker_id text)};
-- name: drop_old_lanes
DELETE FROM worker_lanes WHERE worker_id {among g(worker_id text)};
-- name: drop_workers
DELETE FROM workers WHERE id {among g(worker_id text)};

-- name: add_months [postgres]
SELECT takeup_add_months(:month_count) AS made;

-- name: add_months
SELECT 0 AS made, :month_count AS month_count;
