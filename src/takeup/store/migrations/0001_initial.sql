-- The first schema: jobs, their stages and tasks, workers, the audit log, the outbox and the archive.

-- name: sequences [duckdb]
CREATE SEQUENCE lanes_seq; CREATE SEQUENCE tasks_seq; CREATE SEQUENCE audit_seq; CREATE SEQUENCE outbox_seq;

-- name: jobs
CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  pipeline TEXT NOT NULL,
  subject TEXT,
  live_subject TEXT UNIQUE,
  generation INTEGER NOT NULL CHECK (generation >= 1),
  user_id TEXT NOT NULL,
  idempotency_key TEXT,
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 10),
  control TEXT NOT NULL CHECK (control IN ('READY', 'PAUSED', 'SKIP')),
  status TEXT NOT NULL CHECK (status IN ('pending', 'validating', 'planning', 'downloading_inputs', 'processing', 'uploading_outputs', 'completed', 'failed', 'cancelled')),
  spec TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  error TEXT,
  version BIGINT NOT NULL DEFAULT 1,
  created_at {time} NOT NULL,
  updated_at {time} NOT NULL,
  started_at {time},
  finished_at {time},
  UNIQUE (user_id, idempotency_key),
  CHECK ((status IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
  CHECK (live_subject IS NULL OR finished_at IS NULL),
  CHECK (subject IS NULL OR finished_at IS NOT NULL OR (live_subject IS NOT NULL AND live_subject = subject)),
  CHECK (started_at IS NULL OR finished_at IS NULL OR started_at <= finished_at)
) {fillfactor 80};

-- name: jobs_by_age [postgres, sqlite]
CREATE INDEX jobs_by_age ON jobs (created_at, id);

-- name: jobs_by_subject [postgres, sqlite]
CREATE INDEX jobs_by_subject ON jobs (subject, generation) WHERE subject IS NOT NULL;

-- name: jobs_live [postgres, sqlite]
CREATE INDEX jobs_live ON jobs (id) WHERE status NOT IN ('completed', 'failed', 'cancelled');

-- name: jobs_finished [postgres, sqlite]
CREATE INDEX jobs_finished ON jobs (finished_at, id) WHERE finished_at IS NOT NULL;

-- name: lanes
CREATE TABLE lanes (
  id {serial lanes},
  name TEXT NOT NULL UNIQUE,
  pipeline TEXT NOT NULL,
  stage TEXT NOT NULL,
  requires TEXT NOT NULL,
  prefers TEXT
);

-- name: job_stages
CREATE TABLE job_stages (
  job_id TEXT NOT NULL {references jobs (id)},
  stage TEXT NOT NULL,
  position INTEGER NOT NULL,
  lane_id BIGINT NOT NULL,
  phase TEXT NOT NULL,
  lease_s {double} NOT NULL CHECK (lease_s > 0),
  stall_s {double},
  max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
  retry TEXT NOT NULL,
  version INTEGER NOT NULL,
  splitter TEXT,
  expanded_at {time},
  PRIMARY KEY (job_id, stage)
);

-- name: job_stages_unexpanded [postgres, sqlite]
CREATE INDEX job_stages_unexpanded ON job_stages (job_id) WHERE expanded_at IS NULL;

-- name: task_deps
CREATE TABLE task_deps (
  job_id TEXT NOT NULL {references jobs (id)},
  stage TEXT NOT NULL,
  needs TEXT NOT NULL,
  per_segment {bool} NOT NULL,
  PRIMARY KEY (job_id, stage, needs)
);

-- name: tasks
CREATE TABLE tasks (
  id {serial tasks},
  job_id TEXT NOT NULL {references jobs (id)},
  pipeline TEXT NOT NULL,
  stage TEXT NOT NULL,
  segment INTEGER CHECK (segment >= 0),
  generation INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('NEW', 'READY', 'RUNNING', 'ERROR', 'DONE', 'FAILED', 'CANCELLED', 'SKIPPED')),
  phase TEXT NOT NULL CHECK (phase IN ('validating', 'planning', 'downloading_inputs', 'processing', 'uploading_outputs')),
  lane_id BIGINT NOT NULL,
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 10),
  control TEXT NOT NULL CHECK (control IN ('READY', 'PAUSED', 'SKIP')),
  job_control TEXT NOT NULL CHECK (job_control IN ('READY', 'PAUSED', 'SKIP')),
  available_at {time} NOT NULL,
  ready_at {time},
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  refunds INTEGER NOT NULL DEFAULT 0 CHECK (refunds >= 0),
  epoch BIGINT NOT NULL DEFAULT 0,
  lease_s {double} NOT NULL CHECK (lease_s > 0),
  stall_s {double} CHECK (stall_s > 0),
  lease_owner TEXT,
  lease_slot INTEGER,
  nonce_hash TEXT,
  lease_expires_at {time},
  claimed_at {time},
  claim_request TEXT,
  progress_percent {double} NOT NULL DEFAULT 0 CHECK (progress_percent BETWEEN 0 AND 100),
  progress_note TEXT,
  progress_at {time},
  parameters TEXT NOT NULL,
  splits {bool} NOT NULL,
  result TEXT,
  error TEXT,
  created_at {time} NOT NULL,
  started_at {time},
  finished_at {time},
  CHECK (attempt BETWEEN 0 AND max_attempts AND attempt <= epoch),
  CHECK (CASE WHEN status = 'RUNNING'
    THEN lease_owner IS NOT NULL AND lease_slot IS NOT NULL AND nonce_hash IS NOT NULL
      AND lease_expires_at IS NOT NULL AND claimed_at IS NOT NULL AND claim_request IS NOT NULL AND attempt >= 1
    ELSE lease_owner IS NULL AND lease_slot IS NULL AND nonce_hash IS NULL
      AND lease_expires_at IS NULL AND claimed_at IS NULL AND claim_request IS NULL END),
  CHECK ((status IN ('DONE', 'FAILED', 'CANCELLED', 'SKIPPED')) = (finished_at IS NOT NULL)),
  CHECK (status <> 'DONE' OR result IS NOT NULL),
  CHECK (started_at IS NULL OR finished_at IS NULL OR started_at <= finished_at)
) {fillfactor 80};

-- name: tasks_once [postgres, sqlite]
CREATE UNIQUE INDEX tasks_once ON tasks (job_id, stage, COALESCE(segment, -1));

-- name: tasks_ready [postgres, sqlite]
CREATE INDEX tasks_ready ON tasks (lane_id, priority DESC, available_at, id)
  WHERE status = 'READY' AND control = 'READY' AND job_control = 'READY';

-- name: tasks_running [postgres, sqlite]
-- Unique, so that a worker can never hold more leases than it has slots. No column that a renewal changes
-- may stand in any index: renewals stay heap-only on PostgreSQL.
CREATE UNIQUE INDEX tasks_running ON tasks (lease_owner, lease_slot) WHERE status = 'RUNNING';

-- name: tasks_retrying [postgres, sqlite]
CREATE INDEX tasks_retrying ON tasks (available_at, id) WHERE status = 'ERROR';

-- name: tasks_new [postgres, sqlite]
CREATE INDEX tasks_new ON tasks (job_id, stage) WHERE status = 'NEW';

-- name: tasks_live [postgres, sqlite]
CREATE INDEX tasks_live ON tasks (job_id, stage) WHERE status IN ('NEW', 'READY', 'RUNNING', 'ERROR');

-- name: tasks_broken [postgres, sqlite]
CREATE INDEX tasks_broken ON tasks (job_id) WHERE status IN ('FAILED', 'CANCELLED');

-- name: claims
CREATE TABLE claims (
  request_id TEXT PRIMARY KEY,
  worker_id TEXT NOT NULL,
  claimed_at {time} NOT NULL
);

-- name: workers
CREATE TABLE workers (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('local', 'remote')),
  status TEXT NOT NULL CHECK (status IN ('active', 'draining', 'offline')),
  disabled {bool} NOT NULL DEFAULT {false},
  slots INTEGER NOT NULL CHECK (slots >= 1),
  capabilities TEXT NOT NULL,
  stages TEXT NOT NULL,
  metadata TEXT NOT NULL,
  incarnation INTEGER NOT NULL,
  registered_at {time} NOT NULL,
  last_heartbeat_at {time}
);

-- name: worker_lanes
CREATE TABLE worker_lanes (
  worker_id TEXT NOT NULL,
  lane_id BIGINT NOT NULL,
  preferred {bool} NOT NULL,
  PRIMARY KEY (worker_id, lane_id)
);

-- name: audit
CREATE TABLE audit (
  seq {serial audit},
  logged_at {time} NOT NULL,
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
  lease_expires_at {time},
  available_at {time},
  request_id TEXT,
  reason TEXT
);

-- name: audit_by_job [postgres, sqlite]
CREATE INDEX audit_by_job ON audit (job_id, task_id);

-- name: attempts
CREATE VIEW attempts AS
SELECT c.job_id, c.task_id, c.epoch, c.attempt, c.worker_id AS owner, c.nonce_hash, c.logged_at AS claimed_at,
  e.event AS outcome, e.logged_at AS ended_at, e.reason AS error
FROM audit c
LEFT JOIN audit e ON e.job_id = c.job_id AND e.task_id = c.task_id AND e.epoch = c.epoch AND e.from_status = 'RUNNING'
  AND e.to_status <> 'RUNNING'
WHERE c.noun = 'task' AND c.event = 'claim';

-- name: artifacts
CREATE TABLE artifacts (
  job_id TEXT NOT NULL,
  task_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  epoch BIGINT NOT NULL,
  object_key TEXT NOT NULL,
  sha256 TEXT NOT NULL CHECK (LENGTH(sha256) = 64),
  size_bytes BIGINT NOT NULL CHECK (size_bytes >= 0),
  created_at {time} NOT NULL,
  PRIMARY KEY (job_id, task_id, name)
);

-- name: outbox
CREATE TABLE outbox (
  id {serial outbox},
  topic TEXT NOT NULL,
  subject TEXT NOT NULL,
  body TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('WAITING', 'SENDING', 'SENT', 'PARKED')),
  attempt INTEGER NOT NULL DEFAULT 0,
  created_at {time} NOT NULL,
  available_at {time} NOT NULL,
  lease_expires_at {time},
  finished_at {time},
  error TEXT,
  CHECK ((status = 'SENDING') = (lease_expires_at IS NOT NULL)),
  CHECK ((status IN ('SENT', 'PARKED')) = (finished_at IS NOT NULL))
);

-- name: outbox_waiting [postgres, sqlite]
CREATE INDEX outbox_waiting ON outbox (available_at, id) WHERE status = 'WAITING';

-- name: outbox_sending [postgres, sqlite]
CREATE INDEX outbox_sending ON outbox (id) WHERE status = 'SENDING';

-- name: jobs_archive
CREATE TABLE jobs_archive AS SELECT * FROM jobs WHERE 1 = 0;

-- name: job_stages_archive
CREATE TABLE job_stages_archive AS SELECT * FROM job_stages WHERE 1 = 0;

-- name: task_deps_archive
CREATE TABLE task_deps_archive AS SELECT * FROM task_deps WHERE 1 = 0;

-- name: tasks_archive
CREATE TABLE tasks_archive AS SELECT * FROM tasks WHERE 1 = 0;

-- name: audit_archive
CREATE TABLE audit_archive AS SELECT * FROM audit WHERE 1 = 0;

-- name: artifacts_archive
CREATE TABLE artifacts_archive AS SELECT * FROM artifacts WHERE 1 = 0;

-- name: archive_index
CREATE UNIQUE INDEX jobs_archive_id ON jobs_archive (id);

-- name: archive_index_key [postgres, sqlite]
CREATE INDEX jobs_archive_key ON jobs_archive (user_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- name: archive_index_subject [postgres, sqlite]
CREATE INDEX jobs_archive_subject ON jobs_archive (subject, generation) WHERE subject IS NOT NULL;

-- name: archive_index_tasks
CREATE INDEX tasks_archive_job ON tasks_archive (job_id);

-- name: archive_index_audit
CREATE INDEX audit_archive_job ON audit_archive (job_id);
