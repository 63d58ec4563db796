-- A worker that fails what others finish gets nothing new: since when and why, and from when on its failures count.

-- name: quarantined_at
ALTER TABLE workers ADD COLUMN quarantined_at {time};

-- name: quarantine_reason [postgres, sqlite]
ALTER TABLE workers ADD COLUMN quarantine_reason TEXT CHECK ((quarantine_reason IS NULL) = (quarantined_at IS NULL));

-- name: quarantine_reason [duckdb]
-- DuckDB adds no column with a constraint.
ALTER TABLE workers ADD COLUMN quarantine_reason TEXT;

-- name: trusted_at
ALTER TABLE workers ADD COLUMN trusted_at {time};

-- name: audit_failed [postgres, sqlite]
-- The failures of the last hour are few among all rows of it.
CREATE INDEX audit_failed ON audit (logged_at) WHERE noun = 'task' AND event = 'fail';

-- name: audit_of_alerts_gone [postgres, sqlite]
DROP INDEX audit_of_alerts;

-- name: audit_of_alerts [postgres, sqlite]
CREATE INDEX audit_of_alerts ON audit (seq)
  WHERE event IN ('expire', 'bury', 'give_up', 'fail', 'register', 'leave', 'lose', 'quarantine');
