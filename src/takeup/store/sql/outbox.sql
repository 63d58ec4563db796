-- Outside effects: written with the change that causes them, carried out after commit.

-- name: add_messages
INSERT INTO outbox (topic, subject, body, status, created_at, available_at)
SELECT topic, subject, body, 'WAITING', {now}, {now} FROM {rows g(topic text, subject text, body text)};

-- name: due_messages
SELECT id, status FROM outbox WHERE status = 'WAITING' AND available_at <= {start}
ORDER BY available_at, id LIMIT :limit_count {skip_locked};

-- name: overdue_messages
SELECT id, status FROM outbox WHERE status = 'SENDING' AND lease_expires_at <= {start}
ORDER BY id LIMIT :limit_count {skip_locked};

-- name: take_messages
UPDATE outbox SET status = 'SENDING', attempt = attempt + 1, lease_expires_at = {after :lease_s}
WHERE id {among g(message_id bigint)} AND {guard} status = 'WAITING' {end}
RETURNING id, topic, subject, body, status, attempt, created_at, available_at;

-- name: end_messages
-- Guarded by the attempt: a sender that was too slow finds its message taken again.
UPDATE outbox SET status = g.to_status, error = g.error, lease_expires_at = NULL,
  available_at = CASE WHEN g.to_status = 'WAITING' THEN {after g.delay_s} ELSE outbox.available_at END,
  finished_at = CASE WHEN g.to_status = 'WAITING' THEN NULL ELSE {now} END
FROM {rows g(message_id bigint, attempt bigint, to_status text, error text, delay_s double)}
WHERE outbox.id = g.message_id AND {guard} outbox.status = 'SENDING' AND outbox.attempt = g.attempt {end}
RETURNING outbox.id;

-- name: free_messages
UPDATE outbox SET status = 'WAITING', lease_expires_at = NULL
WHERE id {among g(message_id bigint)} AND {guard} status = 'SENDING' AND lease_expires_at <= {now} {end}
RETURNING id;
