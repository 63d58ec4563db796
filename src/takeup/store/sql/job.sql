-- Jobs, their stages and their roll-up.

-- name: jobs_by_key
-- alone
SELECT j.id, j.user_id, j.idempotency_key, j.spec_hash, j.request_hash FROM jobs j
JOIN (SELECT user_id, idempotency_key FROM {rows k(user_id text, idempotency_key text)}) k
  ON k.user_id = j.user_id AND k.idempotency_key = j.idempotency_key
UNION ALL
SELECT j.id, j.user_id, j.idempotency_key, j.spec_hash, j.request_hash FROM jobs_archive j
JOIN (SELECT user_id, idempotency_key FROM {rows k(user_id text, idempotency_key text)}) k
  ON k.user_id = j.user_id AND k.idempotency_key = j.idempotency_key;

-- name: live_by_subject
-- alone
SELECT id, live_subject FROM jobs WHERE live_subject {among s(subject text)};

-- name: lanes_by_name
-- alone
SELECT id, name FROM lanes WHERE name {among n(name text)};

-- name: add_lanes
INSERT INTO lanes (name, pipeline, stage, requires, prefers)
SELECT name, pipeline, stage, requires, prefers
FROM {rows n(name text, pipeline text, stage text, requires text, prefers text)} WHERE 1 = 1
ON CONFLICT DO NOTHING;

-- name: add_jobs
INSERT INTO jobs (id, pipeline, subject, live_subject, generation, user_id, idempotency_key, priority, control, status,
  spec, spec_hash, request_hash, created_at, updated_at)
SELECT g.id, g.pipeline, g.subject, g.subject,
  1 + COALESCE((SELECT MAX(generation) FROM (
    SELECT generation FROM jobs WHERE subject = g.subject
    UNION ALL SELECT generation FROM jobs_archive WHERE subject = g.subject) earlier), 0),
  g.user_id, g.idempotency_key, g.priority, g.control, 'pending', g.spec, g.spec_hash, g.request_hash, {now}, {now}
FROM {rows g(id text, pipeline text, subject text, user_id text, idempotency_key text, priority bigint, control text, spec text, spec_hash text, request_hash text)}
RETURNING id, generation;

-- name: add_few_jobs
-- the other databases need no round trip for each of the statements that follow

-- name: add_few_jobs [postgres]
-- A job with all of its rows at once, so that submitting one is one round trip and one commit. What is written first is
-- joined without an index, so this is for a few jobs only.
-- While a lane is missing nothing is written. A hint is heard when the commit is done.
-- whole
WITH new_jobs AS (
  INSERT INTO jobs (id, pipeline, subject, live_subject, generation, user_id, idempotency_key, priority, control, status,
    spec, spec_hash, request_hash, created_at, updated_at)
  SELECT g.id, g.pipeline, g.subject, g.subject,
    1 + COALESCE((SELECT MAX(generation) FROM (
      SELECT generation FROM jobs WHERE subject = g.subject
      UNION ALL SELECT generation FROM jobs_archive WHERE subject = g.subject) earlier), 0),
    g.user_id, g.idempotency_key, g.priority, g.control, 'pending', g.spec, g.spec_hash, g.request_hash, {now}, {now}
  FROM {rows g(id text, pipeline text, subject text, user_id text, idempotency_key text, priority bigint, control text, spec text, spec_hash text, request_hash text)}
  WHERE (SELECT COUNT(*) FROM lanes WHERE name {among l(name text)}) = :lane_count
  RETURNING id, pipeline, generation, priority, control, status, created_at
), new_stages AS (
  INSERT INTO job_stages (job_id, stage, position, lane_id, phase, lease_s, stall_s, max_attempts, retry, version, splitter, expanded_at)
  SELECT j.id, s.stage, s.position, l.id, s.phase, s.lease_s, s.stall_s, s.max_attempts, s.retry, s.version,
    s.splitter, CASE WHEN s.splitter IS NULL THEN {now} END
  FROM new_jobs j JOIN {rows s(job_id text, stage text, position bigint, lane text, phase text, lease_s double, stall_s double, max_attempts bigint, retry text, version bigint, splitter text)}
    ON s.job_id = j.id JOIN lanes l ON l.name = s.lane
  RETURNING job_id, stage, lane_id, phase, lease_s, stall_s, max_attempts, splitter
){one |, new_needs AS (
  INSERT INTO task_deps (job_id, stage, needs, per_segment)
  SELECT j.id, n.stage, n.needs, n.per_segment
  FROM new_jobs j JOIN {rows n(job_id text, stage text, needs text, per_segment bool)} ON n.job_id = j.id
)}, new_tasks AS (
  INSERT INTO tasks (job_id, pipeline, stage, segment, generation, status, phase, lane_id, priority, control, job_control,
    available_at, ready_at, max_attempts, lease_s, stall_s, parameters, splits, created_at)
  SELECT j.id, j.pipeline, s.stage, t.segment, j.generation, t.status, s.phase, s.lane_id, j.priority, 'READY', j.control,
    COALESCE(t.available_at, j.created_at), CASE WHEN t.status = 'READY' THEN {now} END,
    s.max_attempts, s.lease_s, s.stall_s, t.parameters,
    {one FALSE|EXISTS (SELECT 1 FROM new_stages o WHERE o.job_id = t.job_id AND o.splitter = t.stage)}, {now}
  FROM {rows t(position bigint, job_id text, stage text, segment bigint, status text, available_at time, parameters text)}
  JOIN new_jobs j ON j.id = t.job_id JOIN new_stages s ON s.job_id = t.job_id AND s.stage = t.stage
  ORDER BY t.position
  RETURNING id, job_id, status, generation, epoch, attempt, available_at
), logged AS (
  INSERT INTO audit (logged_at, noun, event, actor, to_status, job_id, task_id, generation, epoch, attempt, available_at, request_id)
  SELECT {now}, b.noun, 'create', :actor, b.status, b.job_id, b.task_id, b.generation, b.epoch, b.attempt, b.available_at, :request_id
  FROM (
    SELECT 'job' AS noun, status, id AS job_id, CAST(NULL AS BIGINT) AS task_id, generation, CAST(NULL AS BIGINT) AS epoch,
      CAST(NULL AS INTEGER) AS attempt, CAST(NULL AS TIMESTAMPTZ) AS available_at FROM new_jobs
    UNION ALL SELECT 'task', status, job_id, id, generation, epoch, attempt, available_at FROM new_tasks
  ) b ORDER BY b.noun, b.job_id, b.task_id
)
SELECT COUNT(*) AS whole, CAST((
    SELECT pg_notify('takeup', :hint) WHERE :hint <> '' AND EXISTS (SELECT 1 FROM new_jobs)
  ) AS TEXT) AS told
FROM new_jobs;

-- name: add_stages
INSERT INTO job_stages (job_id, stage, position, lane_id, phase, lease_s, stall_s, max_attempts, retry, version, splitter, expanded_at)
SELECT g.job_id, g.stage, g.position, g.lane_id, g.phase, g.lease_s, g.stall_s, g.max_attempts, g.retry, g.version,
  g.splitter, CASE WHEN g.splitter IS NULL THEN {now} END
FROM {rows g(job_id text, stage text, position bigint, lane_id bigint, phase text, lease_s double, stall_s double, max_attempts bigint, retry text, version bigint, splitter text)};

-- name: add_needs
INSERT INTO task_deps (job_id, stage, needs, per_segment)
SELECT g.job_id, g.stage, g.needs, g.per_segment FROM {rows g(job_id text, stage text, needs text, per_segment bool)};

-- name: splittable_stages
SELECT s.job_id, s.stage, p.status, p.result FROM job_stages s
JOIN tasks p ON p.job_id = s.job_id AND p.stage = s.splitter AND COALESCE(p.segment, -1) = -1
WHERE s.expanded_at IS NULL AND p.status IN ('DONE', 'SKIPPED') AND s.job_id {among j(job_id text)}
ORDER BY s.job_id, s.position;

-- name: expand_stage
UPDATE job_stages SET expanded_at = {now} WHERE job_id = :job_id AND stage = :stage AND expanded_at IS NULL RETURNING stage;

-- name: start_jobs
UPDATE jobs SET status = g.to_status, started_at = COALESCE(jobs.started_at, {now}), updated_at = {now},
  version = jobs.version + 1
FROM {rows g(job_id text, from_status text, to_status text)}
WHERE jobs.id = g.job_id AND jobs.status = g.from_status;

-- name: closable_jobs
-- Live jobs of the list in which nothing is left to do, and how each ended.
SELECT j.id, j.status AS from_status,
  CASE WHEN EXISTS (SELECT 1 FROM tasks b WHERE b.job_id = j.id AND b.status = 'FAILED') THEN 'failed'
    WHEN EXISTS (SELECT 1 FROM tasks b WHERE b.job_id = j.id AND b.status = 'CANCELLED') THEN 'cancelled'
    ELSE 'completed' END AS to_status,
  (SELECT MIN(b.stage || ': ' || COALESCE(b.error, 'failed')) FROM tasks b WHERE b.job_id = j.id AND b.status = 'FAILED') AS error
FROM jobs j
WHERE j.status IN ({job.live}) AND j.id {among j(job_id text)}
  AND NOT EXISTS (SELECT 1 FROM tasks o WHERE o.job_id = j.id AND o.status IN ({task.live}) {apart})
  AND (NOT EXISTS (SELECT 1 FROM job_stages s WHERE s.job_id = j.id AND s.expanded_at IS NULL)
    OR EXISTS (SELECT 1 FROM tasks b WHERE b.job_id = j.id AND b.status IN ('FAILED', 'CANCELLED')));

-- name: close_jobs
UPDATE jobs SET status = g.to_status, error = g.error, live_subject = NULL, updated_at = {now}, version = jobs.version + 1,
  finished_at = {greatest}({now}, COALESCE(jobs.started_at, {now}))
FROM {rows g(job_id text, from_status text, to_status text, error text)}
WHERE jobs.id = g.job_id AND jobs.status = g.from_status
RETURNING jobs.id, jobs.status;

-- name: live_jobs
SELECT id FROM jobs WHERE status NOT IN ('completed', 'failed', 'cancelled') AND id > :after ORDER BY id LIMIT :limit_count;

-- name: jobs_for_change
SELECT id, status, control, priority, version FROM jobs WHERE id {among j(job_id text)}
ORDER BY id {lock};

-- name: jobs_to_advance
-- Whoever adds tasks to a job holds its row; a job that is being changed is left to the next pass.
SELECT id FROM jobs WHERE id {among j(job_id text)} AND status IN ({job.live})
ORDER BY id {skip_locked};

-- name: set_job_control
UPDATE jobs SET control = :control, updated_at = {now}, version = version + 1
WHERE id {among j(job_id text)} AND status IN ({job.live}) RETURNING id, status;

-- name: set_job_priority
UPDATE jobs SET priority = :priority, updated_at = {now}, version = version + 1
WHERE id {among j(job_id text)} AND status IN ({job.live}) RETURNING id, status;
