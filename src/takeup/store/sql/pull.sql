-- Files that the server fetches. Who holds one writes under the number of his attempt; an earlier number changes nothing.

-- name: live_pulls_of_user
SELECT COUNT(*) AS pull_count FROM pulls WHERE user_id = :user_id AND status IN ('WAITING', 'RUNNING');

-- name: add_pull
INSERT INTO pulls (id, user_id, url, about, status, request_hash, created_at, available_at)
VALUES (:id, :user_id, :url, :about, 'WAITING', :request_hash, {now}, {now});

-- name: pull_by_id
SELECT * FROM pulls WHERE id = :id;

-- name: pull_for_change
SELECT status FROM pulls WHERE id = :id {lock};

-- name: pulls_among
SELECT * FROM pulls WHERE id {among g(id text)};

-- name: newest_pulls
SELECT * FROM pulls
WHERE user_id = :user_id AND created_at <= :before_at AND (created_at < :before_at OR id < :before_id)
ORDER BY created_at DESC, id DESC LIMIT :limit_count;

-- name: pulls_left
SELECT id FROM pulls WHERE status = 'RUNNING' AND lease_expires_at <= {now} LIMIT 1;

-- name: overdue_pulls
-- Whoever held them died, or hears nothing of the database; that is no fault of theirs.
UPDATE pulls SET status = 'WAITING', lease_expires_at = NULL, available_at = {now}
WHERE status = 'RUNNING' AND lease_expires_at <= {now} RETURNING id;

-- name: due_pulls
-- Whoever holds least here comes first, and nobody beyond his share; between equals, who waits longest for his turn.
SELECT d.id, d.user_id FROM (
  SELECT p.id, p.user_id, p.available_at, p.created_at,
    ROW_NUMBER() OVER (PARTITION BY p.user_id ORDER BY p.available_at, p.created_at, p.id) + COALESCE(h.held_count, 0) AS place
  FROM pulls p LEFT JOIN {rows h(user_id text, held_count bigint)} ON h.user_id = p.user_id
  WHERE p.status = 'WAITING' AND p.available_at <= {now}
) d
WHERE d.place <= :share ORDER BY d.place, d.available_at, d.created_at, d.id LIMIT :limit_count;

-- name: pass_turn
-- What else waits of users who just had a turn stands behind the others.
UPDATE pulls SET available_at = {now}
WHERE user_id {among g(user_id text)} AND {guard} status = 'WAITING' AND available_at < {now} {end};

-- name: take_pulls
UPDATE pulls SET status = 'RUNNING', attempt = attempt + 1, lease_expires_at = {after :lease_s}
WHERE id {among g(id text)} AND {guard} status = 'WAITING' {end}
RETURNING *;

-- name: beat_pull
UPDATE pulls SET received_bytes = :received_bytes, length_bytes = :length_bytes, validator = :validator,
  lease_expires_at = {after :lease_s}
WHERE id = :id AND status = 'RUNNING' AND attempt = :attempt RETURNING id;

-- name: end_pull
UPDATE pulls SET status = :to_status, lease_expires_at = NULL, error = :error, failures = :failures,
  available_at = CASE WHEN :to_status = 'WAITING' THEN {after :delay_s} ELSE available_at END,
  finished_at = CASE WHEN :to_status = 'WAITING' THEN NULL ELSE {now} END
WHERE id = :id AND status = 'RUNNING' AND attempt = :attempt RETURNING id;

-- name: pull_has_waited
SELECT id FROM pulls WHERE id = :id AND created_at <= {before :wait_s};

-- name: cancel_pull
UPDATE pulls SET status = 'CANCELLED', lease_expires_at = NULL, finished_at = {now}
WHERE id = :id AND status IN ('WAITING', 'RUNNING') RETURNING id;

-- name: old_pulls
SELECT id FROM pulls WHERE finished_at < {before :older_than_s} AND request_hash IS NULL ORDER BY finished_at, id LIMIT :limit_count;

-- name: drop_pulls
DELETE FROM pulls WHERE id {among g(id text)} AND finished_at IS NOT NULL;
