-- Keys of programs and workers: found by id, compared by hash, ended by time or by an operator.

-- name: add_key
INSERT INTO api_keys (id, kind, name, worker_id, key_hash, scopes, created_at, expires_at)
VALUES (:id, :kind, :name, :worker_id, :key_hash, :scopes, {now}, :expires_at);

-- name: key_by_id
SELECT * FROM api_keys WHERE id = :id;

-- name: key_by_secret
-- A wrong secret finds as little as an unknown id, so the time it takes tells nobody which ids there are.
SELECT k.*, COALESCE(k.expires_at <= {now}, {false}) AS is_expired, COALESCE(w.disabled, {false}) AS is_disabled
FROM api_keys k LEFT JOIN workers w ON w.id = k.worker_id WHERE k.id = :id AND k.key_hash = :key_hash;

-- name: keys_after
SELECT * FROM api_keys WHERE id > :after ORDER BY id LIMIT :limit_count;

-- name: live_keys_of_worker
SELECT id FROM api_keys WHERE worker_id = :worker_id AND revoked_at IS NULL AND COALESCE(expires_at > {now}, {true})
LIMIT :limit_count;

-- name: revoke_key
UPDATE api_keys SET revoked_at = {now} WHERE id = :id AND revoked_at IS NULL RETURNING id;

-- name: end_keys_of_workers
-- Of workers that are forgotten.
UPDATE api_keys SET revoked_at = {now} WHERE worker_id {among g(worker_id text)} AND revoked_at IS NULL;

-- name: expire_key
-- Never later than it would end anyway.
UPDATE api_keys SET expires_at = {after :after_s}
WHERE id = :id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > {after :after_s}) RETURNING id;

-- name: use_keys
UPDATE api_keys SET last_used_at = {now} WHERE id {among g(id text)};
