-- People who log in, their sessions, and the one-time links that make the first of them. Of passwords, cookies and links
-- only hashes are kept. The row of a person stays when he is removed, without his password, so that it can be told for
-- ever whose a job was; his name is free again.

-- name: people
CREATE TABLE people (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  name_key TEXT UNIQUE,
  password_hash TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  disabled {bool} NOT NULL DEFAULT {false},
  created_at {time} NOT NULL,
  changed_at {time} NOT NULL,
  removed_at {time},
  CHECK ((name_key IS NULL) = (removed_at IS NOT NULL))
);

-- name: sessions
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  session_hash TEXT NOT NULL,
  person_id TEXT NOT NULL {references people (id)},
  created_at {time} NOT NULL,
  seen_at {time} NOT NULL,
  ended_at {time}
);

-- name: sessions_by_person [postgres, sqlite]
CREATE INDEX sessions_by_person ON sessions (person_id);

-- name: setups
CREATE TABLE setups (
  id TEXT PRIMARY KEY,
  token_hash TEXT NOT NULL,
  created_at {time} NOT NULL,
  expires_at {time} NOT NULL,
  used_at {time}
);
