-- Sessions of people, found by id and compared by hash, and the links that make the first admin.

-- name: add_session
INSERT INTO sessions (id, session_hash, person_id, created_at, seen_at)
VALUES (:id, :session_hash, :person_id, {now}, {now});

-- name: session_by_secret
SELECT p.*, s.id AS session_id, s.session_hash,
  s.ended_at IS NOT NULL OR s.created_at <= {before :life_s} OR s.seen_at <= {before :idle_s}
    OR p.disabled OR p.removed_at IS NOT NULL AS is_over
FROM sessions s JOIN people p ON p.id = s.person_id WHERE s.id = :id AND s.session_hash = :session_hash;

-- name: see_session
UPDATE sessions SET seen_at = {now} WHERE id = :id AND ended_at IS NULL;

-- name: end_session
UPDATE sessions SET ended_at = {now} WHERE id = :id AND ended_at IS NULL RETURNING id;

-- name: end_sessions_of
UPDATE sessions SET ended_at = {now} WHERE person_id = :person_id AND ended_at IS NULL;

-- name: end_unseen_sessions
-- All but those that were seen last.
UPDATE sessions SET ended_at = {now} WHERE person_id = :person_id AND ended_at IS NULL AND id NOT IN (
  SELECT id FROM sessions WHERE person_id = :person_id AND ended_at IS NULL ORDER BY seen_at DESC, id LIMIT :kept_count);

-- name: forget_sessions
DELETE FROM sessions
WHERE person_id = :person_id
  AND (ended_at IS NOT NULL OR created_at <= {before :life_s} OR seen_at <= {before :idle_s});

-- name: add_setup
INSERT INTO setups (id, token_hash, created_at, expires_at) VALUES (:id, :token_hash, {now}, {after :life_s});

-- name: setup_by_id
SELECT token_hash, used_at IS NOT NULL OR expires_at <= {now} AS is_over FROM setups WHERE id = :id;

-- name: use_setups
-- All of them: whoever comes second finds none, and so no second way in is left behind.
UPDATE setups SET used_at = {now} WHERE used_at IS NULL AND expires_at > {now} RETURNING id, token_hash;

-- name: forget_setups
DELETE FROM setups WHERE expires_at <= {now};
