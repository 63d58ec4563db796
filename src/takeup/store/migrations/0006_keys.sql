-- The keys of programs and workers. Only a hash of a key is kept; a row is never removed, so that what was done with a
-- key can be told for ever.

-- name: api_keys
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('wrk', 'key')),
  name TEXT NOT NULL,
  worker_id TEXT,
  key_hash TEXT NOT NULL UNIQUE,
  scopes TEXT NOT NULL,
  created_at {time} NOT NULL,
  expires_at {time},
  revoked_at {time},
  last_used_at {time},
  CHECK ((kind = 'wrk') = (worker_id IS NOT NULL))
);

-- name: api_keys_by_worker [postgres, sqlite]
CREATE INDEX api_keys_by_worker ON api_keys (worker_id) WHERE worker_id IS NOT NULL;
