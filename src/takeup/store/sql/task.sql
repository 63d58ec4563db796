-- Moves of tasks. Every statement names the state it starts from, and a holder's also token, owner and expiry.

-- name: renew_tasks
UPDATE tasks SET lease_expires_at = {greatest}(tasks.lease_expires_at, {after tasks.lease_s}),
  progress_percent = COALESCE(g.percent, tasks.progress_percent),
  progress_note = COALESCE(g.note, tasks.progress_note),
  progress_at = CASE WHEN g.percent IS NULL AND g.note IS NULL THEN tasks.progress_at ELSE {now} END
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex, percent double, note text)}
WHERE tasks.id = g.task_id AND {guard} tasks.status = 'RUNNING' AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash
  AND tasks.lease_owner = :worker_id AND tasks.lease_expires_at > {now} AND {enabled}
  AND (tasks.stall_s IS NULL OR g.percent IS NOT NULL OR g.note IS NOT NULL OR tasks.progress_at > {before tasks.stall_s}) {end}
RETURNING tasks.id, tasks.status, tasks.epoch, tasks.lease_expires_at;

-- name: renew_tasks [postgres]
-- whole
WITH moved AS (
  UPDATE tasks SET lease_expires_at = {greatest}(tasks.lease_expires_at, {after tasks.lease_s}),
    progress_percent = COALESCE(g.percent, tasks.progress_percent),
    progress_note = COALESCE(g.note, tasks.progress_note),
    progress_at = CASE WHEN g.percent IS NULL AND g.note IS NULL THEN tasks.progress_at ELSE {now} END
  FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex, percent double, note text)}
  WHERE tasks.id = g.task_id AND {guard} tasks.status = 'RUNNING' AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash
    AND tasks.lease_owner = :worker_id AND tasks.lease_expires_at > {now} AND {enabled}
    AND (tasks.stall_s IS NULL OR g.percent IS NOT NULL OR g.note IS NOT NULL OR tasks.progress_at > {before tasks.stall_s}) {end}
  RETURNING tasks.id, tasks.status, tasks.job_id, tasks.generation, tasks.epoch, tasks.nonce_hash, tasks.attempt,
    tasks.lease_expires_at, tasks.lease_s
), logged AS (
  INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, task_id, worker_id, generation,
    epoch, nonce_hash, attempt, lease_expires_at, request_id)
  SELECT {now}, 'task', 'renew', 'holder', 'RUNNING', 'RUNNING', job_id, id, :worker_id, generation,
    epoch, nonce_hash, attempt, lease_expires_at, :request_id
  FROM moved
)
SELECT id, status, epoch, lease_expires_at, (SELECT status FROM workers WHERE id = :worker_id) AS worker_status,
  TRUE AS whole
FROM moved;

-- name: worker_orders
SELECT status AS worker_status FROM workers WHERE id = :worker_id;

-- name: complete_tasks
UPDATE tasks SET status = 'DONE', result = g.result, error = NULL, progress_percent = 100,
  finished_at = {greatest}({now}, tasks.started_at), lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL,
  lease_expires_at = NULL, claimed_at = NULL, claim_request = NULL
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex, result text, lists_segments bool)}
WHERE tasks.id = g.task_id AND {guard} tasks.status = 'RUNNING' AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash
  AND tasks.lease_owner = :worker_id AND tasks.lease_expires_at > {now} AND {enabled} AND (NOT tasks.splits OR g.lists_segments) {end}
RETURNING tasks.id, tasks.job_id, tasks.status;

-- name: complete_tasks [postgres]
-- What stands in `whole` is of no use; it calls the function once, after every task was moved. The test of `logged` makes
-- PostgreSQL write the log of the tasks before that of the jobs which they end.
-- whole
WITH moved AS (
  UPDATE tasks SET status = 'DONE', result = g.result, error = NULL, progress_percent = 100,
    finished_at = {greatest}({now}, tasks.started_at), lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL,
    lease_expires_at = NULL, claimed_at = NULL, claim_request = NULL
  FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex, result text, lists_segments bool)}
  WHERE tasks.id = g.task_id AND {guard} tasks.status = 'RUNNING' AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash
    AND tasks.lease_owner = :worker_id AND tasks.lease_expires_at > {now} AND {enabled} AND (NOT tasks.splits OR g.lists_segments) {end}
  RETURNING tasks.id, tasks.job_id, tasks.status, tasks.generation, tasks.epoch, g.nonce_hash, tasks.attempt,
    tasks.finished_at
), logged AS (
  INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, task_id, worker_id, generation,
    epoch, nonce_hash, attempt, request_id)
  SELECT {now}, 'task', 'complete', 'holder', 'RUNNING', 'DONE', job_id, id, :worker_id, generation,
    epoch, nonce_hash, attempt, :request_id
  FROM moved
  RETURNING 1
)
SELECT id, (
    SELECT {one |COUNT}(takeup_close_job(d.job_id, :request_id, {now}))
    FROM {one moved|(SELECT DISTINCT job_id FROM moved)} d
    WHERE (SELECT o.id FROM tasks o WHERE o.job_id = d.job_id AND o.status IN ({task.live})
      AND o.id <> {one d.id|ALL (ARRAY(SELECT id FROM moved))} ORDER BY o.stage DESC LIMIT 1) IS NULL
  ) AS whole
FROM moved WHERE (SELECT COUNT(*) FROM logged) > 0;

-- name: failure_context
SELECT t.id, t.job_id, t.attempt, t.max_attempts, t.refunds, t.error, s.retry
FROM {rows g(task_id bigint)} JOIN tasks t ON t.id = g.task_id
JOIN job_stages s ON s.job_id = t.job_id AND s.stage = t.stage;

-- name: fail_tasks
UPDATE tasks SET status = g.to_status, error = g.error,
  available_at = CASE WHEN g.to_status = 'ERROR' THEN {after g.delay_s} ELSE tasks.available_at END,
  finished_at = CASE WHEN g.to_status = 'FAILED' THEN {greatest}({now}, tasks.started_at) END,
  lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL, lease_expires_at = NULL, claimed_at = NULL, claim_request = NULL
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex, to_status text, error text, delay_s double)}
WHERE tasks.id = g.task_id AND {guard} tasks.status = 'RUNNING' AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash
  AND tasks.lease_owner = :worker_id AND tasks.lease_expires_at > {now} AND {enabled} {end}
RETURNING tasks.id, tasks.job_id, tasks.status;

-- name: release_tasks
UPDATE tasks SET status = g.to_status, attempt = tasks.attempt - g.refund, refunds = tasks.refunds + g.refund,
  ready_at = CASE WHEN g.to_status = 'READY' THEN {now} ELSE tasks.ready_at END,
  error = COALESCE(g.error, tasks.error),
  finished_at = CASE WHEN g.to_status = 'FAILED' THEN {greatest}({now}, tasks.started_at) END,
  lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL, lease_expires_at = NULL, claimed_at = NULL, claim_request = NULL
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex, to_status text, refund bigint, error text)}
WHERE tasks.id = g.task_id AND {guard} tasks.status = 'RUNNING' AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash
  AND tasks.lease_owner = :worker_id AND tasks.lease_expires_at > {now} AND {enabled} {end}
RETURNING tasks.id, tasks.job_id, tasks.status;

-- name: explain_refusals
-- alone
-- Why a report found nothing to change: how the epoch of its token ended, or what the task is now.
SELECT g.task_id AS id, t.status, e.event AS ended_by, e.to_status AS ended_as, e.worker_id AS ended_for, e.reason,
  CASE WHEN t.status = 'RUNNING' AND t.epoch = g.epoch AND t.nonce_hash = g.nonce_hash AND t.lease_owner = :worker_id
    AND t.lease_expires_at > {now} THEN 1 ELSE 0 END AS is_held,
  CASE WHEN {enabled} THEN 0 ELSE 1 END AS is_disabled
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex)}
LEFT JOIN tasks t ON t.id = g.task_id
LEFT JOIN audit e ON e.job_id = t.job_id AND e.task_id = t.id AND e.epoch = g.epoch AND e.nonce_hash = g.nonce_hash
  AND e.from_status = 'RUNNING' AND e.to_status <> 'RUNNING';

-- name: overdue_tasks
SELECT id, epoch, lease_owner, nonce_hash, attempt, max_attempts FROM tasks
WHERE status = 'RUNNING' AND lease_expires_at <= {start}
LIMIT :limit_count {skip_locked};

-- name: expire_tasks
UPDATE tasks SET status = CASE WHEN tasks.attempt < tasks.max_attempts THEN 'READY' ELSE 'FAILED' END,
  ready_at = CASE WHEN tasks.attempt < tasks.max_attempts THEN {now} ELSE tasks.ready_at END,
  finished_at = CASE WHEN tasks.attempt < tasks.max_attempts THEN NULL ELSE {greatest}({now}, tasks.started_at) END,
  error = g.error,
  lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL, lease_expires_at = NULL, claimed_at = NULL, claim_request = NULL
FROM {rows g(task_id bigint, epoch bigint, error text)}
WHERE tasks.id = g.task_id AND {guard} tasks.epoch = g.epoch AND tasks.status = 'RUNNING' AND tasks.lease_expires_at <= {now} {end}
RETURNING tasks.id, tasks.job_id, tasks.status;

-- name: due_retries
SELECT id, epoch FROM tasks WHERE status = 'ERROR' AND available_at <= {start}
ORDER BY available_at, id LIMIT :limit_count {skip_locked};

-- name: move_tasks
-- The moves that no holder makes, each from the state and epoch that were just read.
UPDATE tasks SET status = g.to_status,
  ready_at = CASE WHEN g.to_status = 'READY' THEN {now} ELSE tasks.ready_at END,
  finished_at = CASE WHEN g.to_status IN ({task.final}) THEN {greatest}({now}, COALESCE(tasks.started_at, {now})) END,
  lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL, lease_expires_at = NULL, claimed_at = NULL, claim_request = NULL
FROM {rows g(task_id bigint, epoch bigint, from_status text, to_status text)}
WHERE tasks.id = g.task_id AND {guard} tasks.epoch = g.epoch AND tasks.status = g.from_status {end}
RETURNING tasks.id;

-- name: live_tasks
SELECT t.id, t.job_id, t.status, t.epoch, t.lease_owner, t.nonce_hash FROM tasks t
WHERE t.status IN ({task.live}) AND t.job_id {among j(job_id text)}
ORDER BY t.id + 0 {lock};

-- name: tasks_by_id
SELECT t.id, t.job_id, t.status, t.epoch, t.lease_owner, t.nonce_hash FROM tasks t
WHERE t.id {among g(task_id bigint)}
ORDER BY t.id {lock};

-- name: ready_stages
-- Stages of the listed jobs that have NEW tasks and whose whole prerequisites are all DONE or SKIPPED.
SELECT s.job_id, s.stage FROM job_stages s
WHERE s.job_id {among j(job_id text)}
  AND EXISTS (SELECT 1 FROM tasks t WHERE t.job_id = s.job_id AND t.stage = s.stage
    AND t.status = 'NEW' {apart})
  AND NOT EXISTS (
    SELECT 1 FROM task_deps d WHERE d.job_id = s.job_id AND d.stage = s.stage AND (
      EXISTS (SELECT 1 FROM job_stages n WHERE n.job_id = d.job_id AND n.stage = d.needs AND n.expanded_at IS NULL)
      OR (NOT d.per_segment AND (
        EXISTS (SELECT 1 FROM tasks p WHERE p.job_id = d.job_id AND p.stage = d.needs AND p.status IN ({task.live}))
        OR EXISTS (SELECT 1 FROM tasks p WHERE p.job_id = d.job_id AND p.stage = d.needs
          AND p.status IN ('FAILED', 'CANCELLED')))))
    {apart})
ORDER BY s.job_id, s.position;

-- name: ready_candidates
SELECT t.id, t.epoch FROM {rows g(job_id text, stage text)} JOIN tasks t ON t.job_id = g.job_id AND t.stage = g.stage
WHERE t.status = 'NEW' AND t.available_at <= {start}
  AND NOT EXISTS (
    SELECT 1 FROM task_deps d WHERE d.job_id = t.job_id AND d.stage = t.stage AND d.per_segment AND EXISTS (
      SELECT 1 FROM tasks p WHERE p.job_id = d.job_id AND p.stage = d.needs
        AND COALESCE(p.segment, -1) = COALESCE(t.segment, -1) AND p.status NOT IN ('DONE', 'SKIPPED')))
ORDER BY t.id LIMIT :limit_count;

-- name: ready_candidates [postgres]
SELECT c.id, c.epoch FROM {rows g(job_id text, stage text)} CROSS JOIN LATERAL (
  SELECT t.id, t.epoch FROM tasks t
  WHERE t.job_id = g.job_id AND t.stage = g.stage AND t.status = 'NEW' AND t.available_at <= {start}
    AND NOT EXISTS (
      SELECT 1 FROM task_deps d WHERE d.job_id = t.job_id AND d.stage = t.stage AND d.per_segment AND EXISTS (
        SELECT 1 FROM tasks p WHERE p.job_id = d.job_id AND p.stage = d.needs
          AND COALESCE(p.segment, -1) = COALESCE(t.segment, -1) AND p.status NOT IN ('DONE', 'SKIPPED') {apart})
      {apart})
  ORDER BY t.id + 0 LIMIT :limit_count {skip_locked}
) c LIMIT :limit_count;

-- name: broken_jobs
-- Jobs that have a failed or cancelled task and so can never be done.
SELECT DISTINCT b.job_id FROM tasks b WHERE b.status IN ('FAILED', 'CANCELLED') AND b.job_id {among j(job_id text)};

-- name: doomed_tasks
SELECT t.id, t.status, t.epoch FROM tasks t
WHERE t.status IN ({task.live}) AND t.status IN ('NEW', 'READY', 'ERROR') AND t.job_id {among j(job_id text)}
ORDER BY t.id + 0 LIMIT :limit_count {skip_locked};

-- name: add_tasks
INSERT INTO tasks (job_id, pipeline, stage, segment, generation, status, phase, lane_id, priority, control, job_control,
  available_at, ready_at, max_attempts, lease_s, stall_s, parameters, splits, created_at)
SELECT j.id, j.pipeline, s.stage, g.segment, j.generation, g.status, s.phase, s.lane_id, j.priority, 'READY', j.control,
  COALESCE(g.available_at, j.created_at), CASE WHEN g.status = 'READY' THEN {now} END,
  s.max_attempts, s.lease_s, s.stall_s, g.parameters,
  EXISTS (SELECT 1 FROM job_stages o WHERE o.job_id = g.job_id AND o.splitter = g.stage), {now}
FROM {rows g(position bigint, job_id text, stage text, segment bigint, status text, available_at time, parameters text)}
JOIN jobs j ON j.id = g.job_id JOIN job_stages s ON s.job_id = g.job_id AND s.stage = g.stage
ORDER BY g.position
RETURNING id, job_id, stage, segment, status;

-- name: set_task_control
UPDATE tasks SET control = :control WHERE id {among g(task_id bigint)} AND status IN ({task.live})
RETURNING id, job_id, status;

-- name: set_tasks_job_control
UPDATE tasks SET job_control = :control
WHERE id {among g(task_id bigint)} AND status IN ({task.live}) RETURNING id;

-- name: set_tasks_priority
UPDATE tasks SET priority = :priority
WHERE id {among g(task_id bigint)} AND status IN ({task.live}) RETURNING id;

-- name: add_artifacts
-- Of completions that were just accepted in this transaction.
INSERT INTO artifacts (job_id, task_id, name, epoch, object_key, sha256, size_bytes, created_at)
SELECT t.job_id, t.id, g.name, t.epoch, g.object_key, g.sha256, g.size_bytes, {now}
FROM {rows g(task_id bigint, name text, object_key text, sha256 text, size_bytes bigint)} JOIN tasks t ON t.id = g.task_id;
