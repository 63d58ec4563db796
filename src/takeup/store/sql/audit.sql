-- The log that every accepted change writes in its own transaction.

-- name: log_tasks
INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, task_id, worker_id, generation,
  epoch, nonce_hash, attempt, lease_expires_at, available_at, request_id, reason, excuse)
SELECT {now}, 'task', g.event, :actor, g.from_status, t.status, t.job_id, t.id, g.worker_id, t.generation,
  t.epoch, g.nonce_hash, t.attempt, t.lease_expires_at, t.available_at, :request_id, g.reason, g.excuse
FROM {rows g(task_id bigint, event text, from_status text, worker_id text, nonce_hash hex, reason text, excuse text)}
JOIN tasks t ON t.id = g.task_id ORDER BY t.id;

-- name: log_jobs
INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, generation, request_id, reason)
SELECT {now}, 'job', g.event, :actor, g.from_status, j.status, j.id, j.generation, :request_id, g.reason
FROM {rows g(job_id text, event text, from_status text, reason text)} JOIN jobs j ON j.id = g.job_id ORDER BY j.id;

-- name: log_workers
INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, worker_id, request_id, reason)
SELECT {now}, 'worker', g.event, :actor, g.from_status, w.status, w.id, :request_id, g.reason
FROM {rows g(worker_id text, event text, from_status text, reason text)} JOIN workers w ON w.id = g.worker_id ORDER BY w.id;

-- name: log_messages
INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, message_id, attempt, available_at, reason)
SELECT {now}, 'message', g.event, :actor, g.from_status, m.status, m.id, m.attempt, m.available_at, g.reason
FROM {rows g(message_id bigint, event text, from_status text, reason text)} JOIN outbox m ON m.id = g.message_id ORDER BY m.id;

-- name: audit_page
SELECT * FROM audit WHERE seq > :after ORDER BY seq LIMIT :limit_count;

-- name: audit_of_job
SELECT * FROM audit WHERE job_id = :job_id AND seq > :after ORDER BY seq LIMIT :limit_count;
