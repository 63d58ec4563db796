-- Endpoints of webhooks, as people see and change them; the secrets themselves are read only where messages are sent.

-- name: count_webhooks
SELECT COUNT(*) AS webhook_count FROM webhooks;

-- name: add_webhook
INSERT INTO webhooks (id, url, events, form, secret, created_at)
VALUES (:id, :url, :events, :form, :secret, {now});

-- name: declare_webhook
-- That of the settings: a start with other settings, or after a repair, is a new beginning.
INSERT INTO webhooks (id, url, events, form, secret, created_at)
VALUES (:id, :url, :events, :form, :secret, {now})
ON CONFLICT (id) DO UPDATE SET url = excluded.url, events = excluded.events, form = excluded.form, secret = excluded.secret,
  former_secret = NULL, former_ends_at = NULL, disabled = {false}, reason = NULL, failures = 0, failing_since_at = NULL,
  resumes_at = NULL;

-- name: webhook_by_id
SELECT id, url, events, form, SUBSTR(secret, LENGTH(secret) - 3) AS secret_end, former_ends_at, disabled, reason, failures,
  failing_since_at, resumes_at, dropped, created_at
FROM webhooks WHERE id = :id;

-- name: webhooks_after
SELECT id, url, events, form, SUBSTR(secret, LENGTH(secret) - 3) AS secret_end, former_ends_at, disabled, reason, failures,
  failing_since_at, resumes_at, dropped, created_at
FROM webhooks WHERE id > :after ORDER BY id LIMIT :limit_count;

-- name: drop_webhook_deliveries
DELETE FROM webhook_deliveries WHERE webhook_id = :id;

-- name: drop_webhook
DELETE FROM webhooks WHERE id = :id;

-- name: rotate_webhook
UPDATE webhooks SET former_secret = secret, former_ends_at = CASE WHEN secret IS NULL THEN NULL ELSE {after :overlap_s} END,
  secret = :secret
WHERE id = :id;

-- name: enable_webhook
UPDATE webhooks SET disabled = {false}, reason = NULL, failures = 0, failing_since_at = NULL, resumes_at = NULL
WHERE id = :id AND disabled RETURNING id;

-- name: disable_webhook
UPDATE webhooks SET disabled = {true}, reason = :reason, resumes_at = NULL
WHERE id = :id AND NOT disabled RETURNING id;

-- name: deliveries_of_webhook
SELECT id, webhook_id, event_id, event, status, attempt, created_at, available_at, finished_at, http_status, answer, error
FROM webhook_deliveries WHERE webhook_id = :id AND id < :before ORDER BY id DESC LIMIT :limit_count;
