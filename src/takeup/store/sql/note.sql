-- Log lines and commands: written by workers, read by people, never decided by.

-- name: add_logs
INSERT INTO job_logs (job_id, task_id, epoch, logged_at, level, stage, message, metadata)
SELECT g.job_id, g.task_id, g.epoch, {now}, g.level, g.stage, g.message, g.metadata
FROM {rows g(job_id text, task_id bigint, epoch bigint, level text, stage text, message text, metadata text)};

-- name: add_steps
INSERT INTO execution_steps (job_id, task_id, epoch, step_id, type, started_at, command)
SELECT g.job_id, g.task_id, g.epoch, g.step_id, g.type, {before g.ago_s}, g.command
FROM {rows g(job_id text, task_id bigint, epoch bigint, step_id text, type text, command text, ago_s double)}
RETURNING id, step_id, started_at;

-- name: end_steps
-- Found by its key and its time, which also names its partition.
UPDATE execution_steps SET completed_at = {before g.ago_s}, duration_ms = g.duration_ms, exit_code = g.exit_code,
  stdout = g.stdout, stderr = g.stderr, success = g.success, error = g.error
FROM {rows g(id bigint, started_at time, ago_s double, duration_ms bigint, exit_code bigint, stdout text, stderr text, success bool, error text)}
WHERE execution_steps.id = g.id AND execution_steps.started_at = g.started_at;

-- name: logs_of_job
SELECT * FROM job_logs WHERE job_id = :job_id AND id > :after ORDER BY id LIMIT :limit_count;

-- name: steps_of_job
SELECT * FROM execution_steps WHERE job_id = :job_id AND id > :after ORDER BY id LIMIT :limit_count;
