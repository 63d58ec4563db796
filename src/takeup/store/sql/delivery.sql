-- What is to be sent to endpoints: one row for each message and endpoint, each endpoint with a queue of its own.

-- name: active_webhooks
SELECT id, events, form FROM webhooks WHERE NOT disabled ORDER BY id;

-- name: waiting_deliveries
SELECT webhook_id, COUNT(*) AS waiting_count FROM webhook_deliveries
WHERE status = 'WAITING' AND webhook_id {among g(webhook_id text)} GROUP BY webhook_id;

-- name: add_deliveries
INSERT INTO webhook_deliveries (webhook_id, event_id, event, body, status, created_at, available_at)
SELECT g.webhook_id, g.event_id, g.event, g.body, 'WAITING', {now}, {now}
FROM {rows g(webhook_id text, event_id text, event text, body text)} WHERE 1 = 1
ON CONFLICT DO NOTHING;

-- name: note_dropped
UPDATE webhooks SET dropped = dropped + 1 WHERE id {among g(webhook_id text)};

-- name: free_deliveries
UPDATE webhook_deliveries SET status = 'WAITING', lease_expires_at = NULL
WHERE status = 'SENDING' AND lease_expires_at <= {now} RETURNING id;

-- name: callable_webhooks
-- Those that may be called now, with how many calls of each are under way.
SELECT w.id, (SELECT COUNT(*) FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.status = 'SENDING') AS sending_count
FROM webhooks w WHERE NOT w.disabled AND (w.resumes_at IS NULL OR w.resumes_at <= {start}) ORDER BY w.id;

-- name: due_deliveries
SELECT d.id FROM (
  SELECT id, webhook_id, available_at, ROW_NUMBER() OVER (PARTITION BY webhook_id ORDER BY available_at, id) AS place
  FROM webhook_deliveries
  WHERE status = 'WAITING' AND available_at <= {start} AND webhook_id {among g(webhook_id text)}
) AS d JOIN {rows g(webhook_id text, room bigint)} ON g.webhook_id = d.webhook_id
WHERE d.place <= g.room ORDER BY d.available_at, d.id LIMIT :limit_count;

-- name: take_deliveries
UPDATE webhook_deliveries SET status = 'SENDING', attempt = attempt + 1, lease_expires_at = {after :lease_s}
WHERE id {among g(delivery_id bigint)} AND {guard} status = 'WAITING' {end}
RETURNING id, webhook_id, event_id, body, attempt;

-- name: webhooks_to_call
SELECT id, url, form, secret, CASE WHEN former_ends_at > {now} THEN former_secret END AS former_secret
FROM webhooks WHERE id {among g(webhook_id text)};

-- name: end_delivery
-- Guarded by the attempt: a sender that was too slow finds its delivery taken again.
UPDATE webhook_deliveries SET status = g.to_status, lease_expires_at = NULL, http_status = g.http_status, answer = g.answer,
  error = g.error,
  available_at = CASE WHEN g.to_status = 'WAITING' THEN {after g.delay_s} ELSE webhook_deliveries.available_at END,
  finished_at = CASE WHEN g.to_status = 'WAITING' THEN NULL ELSE {now} END
FROM {rows g(delivery_id bigint, attempt bigint, to_status text, http_status bigint, answer text, error text, delay_s double)}
WHERE webhook_deliveries.id = g.delivery_id AND webhook_deliveries.status = 'SENDING' AND webhook_deliveries.attempt = g.attempt
RETURNING webhook_deliveries.webhook_id, webhook_deliveries.event_id;

-- name: webhook_went_well
UPDATE webhooks SET failures = 0, failing_since_at = NULL, resumes_at = NULL WHERE id = :id AND failures > 0;

-- name: webhook_went_wrong
UPDATE webhooks SET failures = failures + 1, failing_since_at = COALESCE(failing_since_at, {now})
WHERE id = :id AND NOT disabled
RETURNING failures;

-- name: webhook_is_hopeless
SELECT id FROM webhooks WHERE id = :id AND failing_since_at <= {before :patience_s};

-- name: rest_webhook
UPDATE webhooks SET resumes_at = {after :pause_s} WHERE id = :id AND (resumes_at IS NULL OR resumes_at < {after :pause_s});

-- name: old_deliveries
-- What waits is kept for as long: an endpoint that is enabled again after that has missed it.
SELECT id FROM webhook_deliveries WHERE created_at < (SELECT {before :older_than_s}) AND status <> 'SENDING'
ORDER BY created_at, id LIMIT :limit_count;

-- name: drop_deliveries
DELETE FROM webhook_deliveries WHERE id {among g(delivery_id bigint)} AND status <> 'SENDING';
