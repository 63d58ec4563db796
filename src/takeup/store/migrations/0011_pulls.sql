-- Files that the server fetches from an address. What is there of a file lies on disk; the row says who fetches it now and
-- what the file at the address was, so that whoever goes on sees whether it is still the same.

-- name: pulls
CREATE TABLE pulls (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL,
  url TEXT NOT NULL,
  about TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('WAITING', 'RUNNING', 'DONE', 'FAILED', 'CANCELLED')),
  attempt BIGINT NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  received_bytes BIGINT NOT NULL DEFAULT 0 CHECK (received_bytes >= 0),
  length_bytes BIGINT CHECK (length_bytes > 0),
  validator TEXT NOT NULL DEFAULT '',
  error TEXT,
  created_at {time} NOT NULL,
  available_at {time} NOT NULL,
  lease_expires_at {time},
  finished_at {time},
  CHECK ((status = 'RUNNING') = (lease_expires_at IS NOT NULL)),
  CHECK ((status IN ('DONE', 'FAILED', 'CANCELLED')) = (finished_at IS NOT NULL))
);

-- name: pulls_waiting [postgres, sqlite]
CREATE INDEX pulls_waiting ON pulls (available_at, id) WHERE status = 'WAITING';

-- name: pulls_running [postgres, sqlite]
CREATE INDEX pulls_running ON pulls (lease_expires_at) WHERE status = 'RUNNING';

-- name: pulls_of_user [postgres, sqlite]
CREATE INDEX pulls_of_user ON pulls (user_id, created_at, id);

-- name: pulls_over [postgres, sqlite]
CREATE INDEX pulls_over ON pulls (finished_at, id) WHERE finished_at IS NOT NULL;
