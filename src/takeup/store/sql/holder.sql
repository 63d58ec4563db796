-- What a server asks before it hands files or words to a worker that is elsewhere: does the token hold, is the file its job's.

-- name: held_tasks_of_worker
SELECT t.id, t.job_id, t.pipeline, t.stage, t.segment, t.generation, t.lease_s, j.spec, j.subject
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex)}
JOIN tasks t ON t.id = g.task_id JOIN jobs j ON j.id = t.job_id
WHERE t.status = 'RUNNING' AND t.epoch = g.epoch AND t.nonce_hash = g.nonce_hash AND t.lease_owner = :worker_id
  AND t.lease_expires_at > {now};

-- name: file_of_job
SELECT name, object_key, sha256, size_bytes, task_id, epoch FROM artifacts WHERE job_id = :job_id AND object_key = :object_key;

-- name: claimed_tasks
-- Which of these attempts this worker began, however they ended.
SELECT DISTINCT g.task_id, g.epoch FROM {rows g(job_id text, task_id bigint, epoch bigint)}
JOIN audit e ON e.job_id = g.job_id AND e.task_id = g.task_id AND e.epoch = g.epoch
WHERE e.event = 'claim' AND e.worker_id = :worker_id;

-- name: jobs_of_tasks
SELECT DISTINCT job_id FROM tasks WHERE id {among g(task_id bigint)};

-- name: own_steps
-- Which of these commands were begun by an attempt of this worker.
SELECT DISTINCT g.id FROM {rows g(id bigint, started_at time)}
JOIN execution_steps s ON s.id = g.id AND s.started_at = g.started_at
JOIN audit e ON e.job_id = s.job_id AND e.task_id = s.task_id AND e.epoch = s.epoch
WHERE e.event = 'claim' AND e.worker_id = :worker_id;
