-- What workers and loops write down: log lines, commands and their last words, schedules. On PostgreSQL the tables that
-- only grow are kept by month; rows of a month that has no partition yet go to the default one.

-- name: sequences [duckdb]
CREATE SEQUENCE job_logs_seq; CREATE SEQUENCE execution_steps_seq;

-- name: no_attempts [postgres]
DROP VIEW attempts;

-- name: audit_aside [postgres]
ALTER TABLE audit RENAME TO audit_before;

-- name: audit_index_aside [postgres]
DROP INDEX audit_by_job;

-- name: audit_sequence [postgres]
CREATE SEQUENCE audit_numbers;

-- name: audit_monthly [postgres]
CREATE TABLE audit (
  seq BIGINT NOT NULL DEFAULT nextval('audit_numbers'),
  logged_at TIMESTAMPTZ NOT NULL,
  noun TEXT NOT NULL,
  event TEXT NOT NULL,
  actor TEXT NOT NULL,
  from_status TEXT,
  to_status TEXT,
  job_id TEXT,
  task_id BIGINT,
  worker_id TEXT,
  message_id BIGINT,
  generation INTEGER,
  epoch BIGINT,
  nonce_hash TEXT,
  attempt INTEGER,
  lease_expires_at TIMESTAMPTZ,
  available_at TIMESTAMPTZ,
  request_id TEXT,
  reason TEXT
) PARTITION BY RANGE (logged_at);

-- name: audit_other [postgres]
CREATE TABLE audit_other PARTITION OF audit DEFAULT;

-- name: audit_by_seq [postgres]
-- The sequence keeps the numbers apart; a unique index would have to hold the time as well.
CREATE INDEX audit_by_seq ON audit (seq);

-- name: audit_by_job [postgres]
CREATE INDEX audit_by_job ON audit (job_id, task_id);

-- name: attempts [postgres]
CREATE VIEW attempts AS
SELECT c.job_id, c.task_id, c.epoch, c.attempt, c.worker_id AS owner, c.nonce_hash, c.logged_at AS claimed_at,
  e.event AS outcome, e.logged_at AS ended_at, e.reason AS error
FROM audit c
LEFT JOIN audit e ON e.job_id = c.job_id AND e.task_id = c.task_id AND e.epoch = c.epoch AND e.from_status = 'RUNNING'
  AND e.to_status <> 'RUNNING'
WHERE c.noun = 'task' AND c.event = 'claim';

-- name: job_logs
CREATE TABLE job_logs (
  id {serial job_logs},
  job_id TEXT NOT NULL,
  task_id BIGINT,
  epoch BIGINT,
  logged_at {time} NOT NULL,
  level TEXT NOT NULL CHECK (level IN ('debug', 'info', 'warn', 'error')),
  stage TEXT,
  message TEXT NOT NULL,
  metadata TEXT NOT NULL
);

-- name: job_logs_sequence [postgres]
CREATE SEQUENCE job_logs_numbers;

-- name: job_logs [postgres]
CREATE TABLE job_logs (
  id BIGINT NOT NULL DEFAULT nextval('job_logs_numbers'),
  job_id TEXT NOT NULL,
  task_id BIGINT,
  epoch BIGINT,
  logged_at TIMESTAMPTZ NOT NULL,
  level TEXT NOT NULL CHECK (level IN ('debug', 'info', 'warn', 'error')),
  stage TEXT,
  message TEXT NOT NULL,
  metadata TEXT NOT NULL,
  PRIMARY KEY (id, logged_at)
) PARTITION BY RANGE (logged_at);

-- name: job_logs_other [postgres]
CREATE TABLE job_logs_other PARTITION OF job_logs DEFAULT;

-- name: job_logs_by_job
CREATE INDEX job_logs_by_job ON job_logs (job_id, id);

-- name: execution_steps
CREATE TABLE execution_steps (
  id {serial execution_steps},
  job_id TEXT NOT NULL,
  task_id BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  step_id TEXT NOT NULL,
  type TEXT NOT NULL,
  started_at {time} NOT NULL,
  completed_at {time},
  duration_ms BIGINT,
  command TEXT NOT NULL,
  exit_code INTEGER,
  stdout TEXT,
  stderr TEXT,
  success {bool},
  error TEXT
);

-- name: execution_steps_sequence [postgres]
CREATE SEQUENCE execution_steps_numbers;

-- name: execution_steps [postgres]
CREATE TABLE execution_steps (
  id BIGINT NOT NULL DEFAULT nextval('execution_steps_numbers'),
  job_id TEXT NOT NULL,
  task_id BIGINT NOT NULL,
  epoch BIGINT NOT NULL,
  step_id TEXT NOT NULL,
  type TEXT NOT NULL,
  started_at TIMESTAMPTZ NOT NULL,
  completed_at TIMESTAMPTZ,
  duration_ms BIGINT,
  command TEXT NOT NULL,
  exit_code INTEGER,
  stdout TEXT,
  stderr TEXT,
  success BOOLEAN,
  error TEXT,
  PRIMARY KEY (id, started_at)
) PARTITION BY RANGE (started_at);

-- name: execution_steps_other [postgres]
CREATE TABLE execution_steps_other PARTITION OF execution_steps DEFAULT;

-- name: execution_steps_by_job
CREATE INDEX execution_steps_by_job ON execution_steps (job_id, id);

-- name: job_logs_archive
CREATE TABLE job_logs_archive AS SELECT * FROM job_logs WHERE 1 = 0;

-- name: execution_steps_archive
CREATE TABLE execution_steps_archive AS SELECT * FROM execution_steps WHERE 1 = 0;

-- name: archive_index_logs
CREATE INDEX job_logs_archive_job ON job_logs_archive (job_id);

-- name: archive_index_steps
CREATE INDEX execution_steps_archive_job ON execution_steps_archive (job_id);

-- name: first_months [postgres]
DO $$
DECLARE
  grows TEXT;
  month TIMESTAMP;
BEGIN
  FOREACH grows IN ARRAY ARRAY['audit', 'job_logs', 'execution_steps'] LOOP
    FOR ahead IN 0..2 LOOP
      month := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(months => ahead);
      EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
        grows || to_char(month, '_YYYY_MM'), grows, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
    END LOOP;
  END LOOP;
END $$;

-- name: audit_back [postgres]
INSERT INTO audit SELECT * FROM audit_before;

-- name: audit_numbers_on [postgres]
SELECT setval('audit_numbers', GREATEST((SELECT MAX(seq) FROM audit), 1), EXISTS (SELECT 1 FROM audit));

-- name: audit_gone [postgres]
DROP TABLE audit_before;

-- name: schedules
CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  pipeline TEXT NOT NULL,
  cron TEXT NOT NULL,
  last_slot_at {time} NOT NULL,
  created_at {time} NOT NULL
);
