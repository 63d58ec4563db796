-- Endpoints that are told what happens, what is to be sent to each of them, and how far the alerts have read the log.

-- name: sequences [duckdb]
CREATE SEQUENCE webhook_deliveries_seq;

-- name: webhooks
-- The secrets are those that messages are signed with, so they are kept as they are; no read for people selects them.
CREATE TABLE webhooks (
  id TEXT PRIMARY KEY,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  form TEXT NOT NULL CHECK (form IN ('standard', 'slack', 'discord')),
  secret TEXT,
  former_secret TEXT,
  former_ends_at {time},
  disabled {bool} NOT NULL DEFAULT {false},
  reason TEXT,
  failures INTEGER NOT NULL DEFAULT 0,
  failing_since_at {time},
  resumes_at {time},
  dropped BIGINT NOT NULL DEFAULT 0,
  created_at {time} NOT NULL,
  CHECK ((former_secret IS NULL) = (former_ends_at IS NULL))
);

-- name: webhook_deliveries
CREATE TABLE webhook_deliveries (
  id {serial webhook_deliveries},
  webhook_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  event TEXT NOT NULL,
  body TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('WAITING', 'SENDING', 'SENT', 'FAILED')),
  attempt INTEGER NOT NULL DEFAULT 0,
  created_at {time} NOT NULL,
  available_at {time} NOT NULL,
  lease_expires_at {time},
  finished_at {time},
  http_status INTEGER,
  answer TEXT,
  error TEXT,
  UNIQUE (webhook_id, event_id),
  CHECK ((status = 'SENDING') = (lease_expires_at IS NOT NULL)),
  CHECK ((status IN ('SENT', 'FAILED')) = (finished_at IS NOT NULL))
);

-- name: webhook_deliveries_waiting [postgres, sqlite]
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (webhook_id, available_at, id) WHERE status = 'WAITING';

-- name: webhook_deliveries_sending [postgres, sqlite]
CREATE INDEX webhook_deliveries_sending ON webhook_deliveries (webhook_id, lease_expires_at) WHERE status = 'SENDING';

-- name: webhook_deliveries_latest [postgres, sqlite]
CREATE INDEX webhook_deliveries_latest ON webhook_deliveries (webhook_id, id);

-- name: webhook_deliveries_by_age [postgres, sqlite]
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at, id);

-- name: alert_cursors
CREATE TABLE alert_cursors (
  name TEXT PRIMARY KEY,
  seq BIGINT NOT NULL
);

-- name: alert_seen
-- What was looked at behind the cursor, which stays back for as long as a row with a smaller number may still appear.
CREATE TABLE alert_seen (
  seq BIGINT PRIMARY KEY,
  logged_at {time} NOT NULL
);

-- name: alert_limits
-- For each type and subject when it was told last and what was kept back since; with the subject '' for all of a type.
CREATE TABLE alert_limits (
  type TEXT NOT NULL,
  subject TEXT NOT NULL,
  began_at {time} NOT NULL,
  sent INTEGER NOT NULL,
  suppressed BIGINT NOT NULL,
  total BIGINT NOT NULL,
  PRIMARY KEY (type, subject)
);

-- name: audit_of_alerts [postgres, sqlite]
-- The few rows of the log that alerts are made of.
CREATE INDEX audit_of_alerts ON audit (seq)
  WHERE event IN ('expire', 'bury', 'give_up', 'fail', 'register', 'leave', 'lose');
