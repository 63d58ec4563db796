-- Alerts: what of the log they are made of, how far it was read, and what was told of whom how recently.

-- name: add_alert_cursor
-- What was logged a moment ago may not have been told to anybody; what is older is history.
INSERT INTO alert_cursors (name, seq)
SELECT :name, COALESCE((SELECT MAX(seq) FROM audit
  WHERE event IN ('expire', 'bury', 'give_up', 'fail', 'register', 'leave', 'lose', 'quarantine') AND logged_at <= {before :window_s}), 0)
FROM (SELECT 1 AS one) AS once WHERE 1 = 1
ON CONFLICT DO NOTHING;

-- name: alert_cursor
SELECT seq FROM alert_cursors WHERE name = :name;

-- name: alert_cursor_for_change
SELECT seq FROM alert_cursors WHERE name = :name {lock};

-- name: alert_events
SELECT a.seq, a.logged_at, a.noun, a.event, a.job_id, a.task_id, a.worker_id, a.attempt, a.reason,
  t.stage, t.max_attempts, j.pipeline, j.subject, j.error AS job_error
FROM audit a LEFT JOIN tasks t ON t.id = a.task_id LEFT JOIN jobs j ON j.id = a.job_id
WHERE a.seq > :after AND a.event IN ('expire', 'bury', 'give_up', 'fail', 'register', 'leave', 'lose', 'quarantine')
  AND (a.event <> 'fail' OR a.noun = 'job')
  AND NOT EXISTS (SELECT 1 FROM alert_seen s WHERE s.seq = a.seq)
ORDER BY a.seq LIMIT :limit_count;

-- name: failures_of_subject
SELECT (SELECT COUNT(*) FROM jobs WHERE subject = :subject AND pipeline = :pipeline AND status = 'failed'
    AND finished_at > {before :within_s})
  + (SELECT COUNT(*) FROM jobs_archive WHERE subject = :subject AND pipeline = :pipeline AND status = 'failed'
    AND finished_at > {before :within_s}) AS failure_count;

-- name: see_alerts
INSERT INTO alert_seen (seq, logged_at)
SELECT a.seq, a.logged_at FROM audit a WHERE a.seq {among g(seq bigint)}
ON CONFLICT DO NOTHING;

-- name: move_alert_cursor
UPDATE alert_cursors SET seq = {greatest}(seq, COALESCE(
  (SELECT MAX(s.seq) FROM alert_seen s WHERE s.logged_at <= {before :window_s}), 0))
WHERE name = :name;

-- name: forget_seen
DELETE FROM alert_seen WHERE seq <= (SELECT c.seq FROM alert_cursors c WHERE c.name = :name);

-- name: alert_limits
SELECT l.type, l.subject, l.began_at, l.sent, l.suppressed, l.total
FROM {rows g(type text, subject text)} JOIN alert_limits l ON l.type = g.type AND l.subject = g.subject;

-- name: set_alert_limits
INSERT INTO alert_limits (type, subject, began_at, sent, suppressed, total)
SELECT g.type, g.subject, g.began_at, g.sent, g.suppressed, g.total
FROM {rows g(type text, subject text, began_at time, sent bigint, suppressed bigint, total bigint)} WHERE 1 = 1
ON CONFLICT (type, subject) DO UPDATE SET began_at = excluded.began_at, sent = excluded.sent,
  suppressed = excluded.suppressed, total = excluded.total;

-- name: forget_alert_limits
DELETE FROM alert_limits WHERE subject <> '' AND began_at < {before :older_than_s};

-- name: alert_totals
SELECT type, total FROM alert_limits WHERE subject = '' ORDER BY type;
