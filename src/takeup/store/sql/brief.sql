-- What a worker reads about the tasks it holds or held.

-- name: briefs
SELECT id AS job_id, spec, subject FROM jobs WHERE id {among j(job_id text)};

-- name: input_needs
SELECT per_segment FROM task_deps WHERE job_id = :job_id AND stage = :stage AND needs = :needs;

-- name: input_tasks
SELECT t.id, t.segment, t.result, t.epoch, t.job_id FROM tasks t
WHERE t.job_id = :job_id AND t.stage = :needs AND t.status = 'DONE' AND COALESCE(t.segment, -1) > :after
  AND (CAST(:segment AS BIGINT) IS NULL OR t.segment = :segment)
ORDER BY COALESCE(t.segment, -1) LIMIT :limit_count;

-- name: former_tasks
-- The same task of the last run of the same job that failed, if it was done there.
SELECT t.id, t.segment, t.result, t.epoch, t.job_id
FROM jobs j
JOIN jobs f ON f.subject = j.subject AND f.generation < j.generation AND f.pipeline = j.pipeline
  AND f.spec_hash = j.spec_hash AND f.status = 'failed'
JOIN tasks t ON t.job_id = f.id AND t.stage = :stage AND t.status = 'DONE'
  AND COALESCE(t.segment, -1) = COALESCE(CAST(:segment AS BIGINT), -1)
WHERE j.id = :job_id
ORDER BY f.generation DESC LIMIT 1;

-- name: failed_before
SELECT f.id FROM jobs j
JOIN jobs f ON f.subject = j.subject AND f.generation < j.generation AND f.pipeline = j.pipeline AND f.status = 'failed'
WHERE j.id = :job_id ORDER BY f.generation DESC LIMIT :limit_count;

-- name: input_files
SELECT task_id, name, object_key FROM artifacts
WHERE job_id = :job_id AND task_id {among g(task_id bigint)} ORDER BY task_id, name;

-- name: held_tasks
-- Which of these tokens still hold their task; whoever does not is told why by a renewal.
SELECT g.task_id AS id FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex)} JOIN tasks t ON t.id = g.task_id
WHERE t.status = 'RUNNING' AND t.epoch = g.epoch AND t.nonce_hash = g.nonce_hash AND t.lease_owner = :worker_id
  AND t.lease_expires_at > {now};

-- name: fates
-- What became of the attempts that these folders are named after.
SELECT g.task_id, g.epoch, g.nonce_hash,
  CASE WHEN t.id IS NULL THEN 'gone'
    WHEN t.status = 'RUNNING' AND t.epoch = g.epoch AND t.nonce_hash = g.nonce_hash THEN 'held'
    WHEN t.status IN ({task.live}) THEN 'open'
    WHEN t.status = 'DONE' AND t.epoch = g.epoch AND EXISTS (
      SELECT 1 FROM audit e WHERE e.job_id = t.job_id AND e.task_id = t.id AND e.epoch = g.epoch
        AND e.nonce_hash = g.nonce_hash AND e.event = 'complete') THEN 'won'
    ELSE 'over' END AS fate,
  (SELECT MIN(a.object_key) FROM artifacts a WHERE a.job_id = t.job_id AND a.task_id = t.id AND a.epoch = g.epoch) AS object_key,
  (SELECT MIN(a.name) FROM artifacts a WHERE a.job_id = t.job_id AND a.task_id = t.id AND a.epoch = g.epoch) AS name
FROM {rows g(task_id bigint, epoch bigint, nonce_hash hex)} LEFT JOIN tasks t ON t.id = g.task_id;
