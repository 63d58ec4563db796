-- Schedules: a row says up to which slot everything was done; who moves it on makes the job, in the same transaction.

-- name: add_schedules
INSERT INTO schedules (name, pipeline, cron, last_slot_at, created_at)
SELECT name, pipeline, cron, {now}, {now} FROM {rows g(name text, pipeline text, cron text)} WHERE 1 = 1
ON CONFLICT DO NOTHING;

-- name: change_schedules
-- Another cron text is another schedule: what was due by the old one is not made up for by the new one. A row that is
-- ahead of the clock was moved on when the clock was wrong.
UPDATE schedules SET cron = g.cron, last_slot_at = {now} FROM {rows g(name text, pipeline text, cron text)}
WHERE schedules.name = g.name AND (schedules.cron <> g.cron OR schedules.last_slot_at > {now});

-- name: schedules_by_name
SELECT name, pipeline, cron, last_slot_at FROM schedules WHERE name {among g(name text)} ORDER BY name;

-- name: move_schedule
UPDATE schedules SET last_slot_at = :slot_at
WHERE name = :name AND last_slot_at = :last_slot_at AND last_slot_at < :slot_at RETURNING name;
