-- What was asked for under a key of the caller, so that a repeat is known and the key is not taken for another request.
-- The id of what it made comes from the key. Rows from before have no key, and neither have calls without one.

-- name: videos_request
ALTER TABLE videos ADD COLUMN request_hash TEXT;

-- name: uploads_request
ALTER TABLE uploads ADD COLUMN request_hash TEXT;

-- name: pulls_over_gone [postgres, sqlite]
DROP INDEX pulls_over;

-- name: pulls_request
ALTER TABLE pulls ADD COLUMN request_hash TEXT;

-- name: pulls_over [postgres, sqlite]
-- A pull that has a key is not forgotten.
CREATE INDEX pulls_over ON pulls (finished_at, id) WHERE finished_at IS NOT NULL AND request_hash IS NULL;
