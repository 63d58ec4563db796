-- What people ask about one job; every answer is bounded.

-- name: ids_between
SELECT id FROM jobs WHERE id >= :low AND id < :high ORDER BY id LIMIT :limit_count;

-- name: stages_of_job
SELECT s.stage, s.position, s.phase, s.lease_s, s.stall_s, s.max_attempts, s.retry, s.version, s.splitter, s.expanded_at,
  l.pipeline, l.stage AS lane_stage, l.requires, l.prefers
FROM job_stages s JOIN lanes l ON l.id = s.lane_id WHERE s.job_id = :job_id ORDER BY s.position;

-- name: needs_of_job
SELECT stage, needs, per_segment FROM task_deps WHERE job_id = :job_id ORDER BY stage, needs;

-- name: tasks_in_status
SELECT * FROM tasks WHERE job_id = :job_id AND status = :status ORDER BY id LIMIT :limit_count;

-- name: attempts_of_tasks
SELECT a.*, t.stage, t.segment FROM attempts a JOIN tasks t ON t.id = a.task_id
WHERE a.job_id = :job_id AND a.task_id {among g(task_id bigint)} ORDER BY a.task_id, a.epoch LIMIT :limit_count;

-- name: last_logs
SELECT * FROM job_logs WHERE job_id = :job_id ORDER BY id DESC LIMIT :limit_count;

-- name: segment_stages
SELECT job_id, stage, splitter FROM job_stages WHERE job_id = :job_id AND splitter IS NOT NULL AND expanded_at IS NOT NULL
ORDER BY position;

-- name: splitter_result
SELECT result FROM tasks WHERE job_id = :job_id AND stage = :stage AND result IS NOT NULL LIMIT 1;

-- name: stage_counts
SELECT status, COUNT(*) AS task_count FROM tasks WHERE job_id = :job_id AND stage = :stage GROUP BY status;

-- name: rung_tasks
-- Those that run, and those that could not make every rung.
SELECT status, progress_percent, result FROM tasks WHERE job_id = :job_id AND stage = :stage
  AND (status = 'RUNNING' OR (status = 'DONE' AND result LIKE '%"failed":{"%')) ORDER BY id;

-- name: stage_progress [postgres]
SELECT s.stage, s.position, s.splitter, s.expanded_at, t.status, COUNT(t.id) AS task_count,
  SUM(t.progress_percent) AS percent_sum, MAX(t.progress_note) AS note,
  SUM(EXTRACT(EPOCH FROM t.finished_at - t.started_at)::FLOAT8) AS seconds,
  SUM(EXTRACT(EPOCH FROM t.finished_at - t.started_at)::FLOAT8 ^ 2) AS squares,
  SUM(EXTRACT(EPOCH FROM {now} - t.claimed_at)::FLOAT8) AS elapsed_s, {now} AS now_at
FROM job_stages s LEFT JOIN tasks t ON t.job_id = s.job_id AND t.stage = s.stage
WHERE s.job_id = :job_id GROUP BY s.stage, s.position, s.splitter, s.expanded_at, t.status ORDER BY s.position;

-- name: stage_progress [sqlite]
SELECT s.stage, s.position, s.splitter, s.expanded_at, t.status, COUNT(t.id) AS task_count,
  SUM(t.progress_percent) AS percent_sum, MAX(t.progress_note) AS note,
  SUM((t.finished_at - t.started_at) / 1e6) AS seconds,
  SUM((t.finished_at - t.started_at) / 1e6 * (t.finished_at - t.started_at) / 1e6) AS squares,
  SUM(({now} - t.claimed_at) / 1e6) AS elapsed_s, {now} AS now_at
FROM job_stages s LEFT JOIN tasks t ON t.job_id = s.job_id AND t.stage = s.stage
WHERE s.job_id = :job_id GROUP BY s.stage, s.position, s.splitter, s.expanded_at, t.status ORDER BY s.position;

-- name: stage_progress [duckdb]
SELECT s.stage, s.position, s.splitter, s.expanded_at, t.status, COUNT(t.id) AS task_count,
  SUM(t.progress_percent) AS percent_sum, MAX(t.progress_note) AS note,
  SUM(epoch(t.finished_at - t.started_at)) AS seconds,
  SUM(pow(epoch(t.finished_at - t.started_at), 2)) AS squares,
  SUM(epoch({now} - t.claimed_at)) AS elapsed_s, {now} AS now_at
FROM job_stages s LEFT JOIN tasks t ON t.job_id = s.job_id AND t.stage = s.stage
WHERE s.job_id = :job_id GROUP BY s.stage, s.position, s.splitter, s.expanded_at, t.status ORDER BY s.position;
