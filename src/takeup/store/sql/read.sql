-- Reads for lists and details, in keyset pages.

-- name: job_by_id
SELECT * FROM jobs WHERE id = :job_id;

-- name: job_place
SELECT id, created_at FROM jobs WHERE id = :job_id
UNION ALL SELECT id, created_at FROM jobs_archive WHERE id = :job_id;

-- name: jobs_page
SELECT id, pipeline, subject, generation, user_id, idempotency_key, priority, control, status, error, version,
  created_at, updated_at, started_at, finished_at FROM jobs
WHERE (CAST(:pipeline AS TEXT) IS NULL OR pipeline = :pipeline) AND (CAST(:status AS TEXT) IS NULL OR status = :status)
  AND (CAST(:subject AS TEXT) IS NULL OR subject = :subject) AND (CAST(:user_id AS TEXT) IS NULL OR user_id = :user_id)
  AND (CAST(:before_id AS TEXT) IS NULL OR created_at < :before_at OR (created_at = :before_at AND id < :before_id))
ORDER BY created_at DESC, id DESC LIMIT :limit_count;

-- name: task_by_id
SELECT * FROM tasks WHERE id = :task_id;

-- name: tasks_page
SELECT * FROM tasks WHERE job_id = :job_id AND id > :after ORDER BY id LIMIT :limit_count;

-- name: attempts_of_job
SELECT a.*, t.stage, t.segment FROM attempts a JOIN tasks t ON t.id = a.task_id
WHERE a.job_id = :job_id ORDER BY a.task_id, a.epoch LIMIT :limit_count;

-- name: artifacts_of_job
SELECT * FROM artifacts
WHERE job_id = :job_id AND task_id >= :after_task AND (task_id > :after_task OR name > :after_name)
ORDER BY task_id, name LIMIT :limit_count;

-- name: task_counts
SELECT stage, status, COUNT(*) AS task_count FROM tasks WHERE job_id = :job_id GROUP BY stage, status ORDER BY stage, status;

-- name: queue_counts
SELECT status, COUNT(*) AS task_count FROM tasks WHERE status IN ({task.live}) GROUP BY status ORDER BY status;

-- name: clock
SELECT {now} AS now_at;
