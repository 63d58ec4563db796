-- What archiving looks for besides jobs: messages that are done with, and the log of messages and workers, which belongs
-- to no job.

-- name: outbox_finished [postgres, sqlite]
CREATE INDEX outbox_finished ON outbox (status, finished_at, id) WHERE finished_at IS NOT NULL;

-- name: audit_by_other [postgres, sqlite]
CREATE INDEX audit_by_other ON audit (message_id, worker_id) WHERE job_id IS NULL;
