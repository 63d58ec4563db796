-- Finished jobs leave the hot tables together with everything that belongs to them.

-- name: archive_jobs [postgres]
-- whole
WITH picked AS MATERIALIZED (
  SELECT id FROM jobs WHERE status IN ({job.final}) AND finished_at < (SELECT {before :older_than_s})
  ORDER BY finished_at, id LIMIT :limit_count FOR UPDATE SKIP LOCKED
), gone_tasks AS (DELETE FROM tasks WHERE job_id IN (SELECT id FROM picked) RETURNING *),
gone_stages AS (DELETE FROM job_stages WHERE job_id IN (SELECT id FROM picked) RETURNING *),
gone_needs AS (DELETE FROM task_deps WHERE job_id IN (SELECT id FROM picked) RETURNING *),
gone_audit AS (DELETE FROM audit WHERE job_id IN (SELECT id FROM picked) RETURNING *),
gone_artifacts AS (DELETE FROM artifacts WHERE job_id IN (SELECT id FROM picked) RETURNING *),
gone_jobs AS (DELETE FROM jobs WHERE id IN (SELECT id FROM picked) RETURNING *),
kept_tasks AS (INSERT INTO tasks_archive SELECT * FROM gone_tasks),
kept_stages AS (INSERT INTO job_stages_archive SELECT * FROM gone_stages),
kept_needs AS (INSERT INTO task_deps_archive SELECT * FROM gone_needs),
kept_audit AS (INSERT INTO audit_archive SELECT * FROM gone_audit),
kept_artifacts AS (INSERT INTO artifacts_archive SELECT * FROM gone_artifacts),
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
