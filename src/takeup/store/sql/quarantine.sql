-- Which workers fail what others finish, and what would be left without them.

-- name: blamed_lanes
-- Of the latest failures: the tasks that one worker alone failed and another one finished, by worker and lane. What a
-- worker failed before an operator let it back is forgiven, and so is what has an excuse. Who left is judged like who is
-- here: leaving and coming back forgives nothing.
SELECT f.worker_id, f.lane_id, COUNT(DISTINCT f.task_id) AS task_count, MIN(f.seq) AS first_seq
FROM (
  SELECT l.seq, l.worker_id, l.job_id, l.task_id,
    (SELECT t.lane_id FROM tasks t WHERE t.id = l.task_id AND t.status = 'DONE') AS lane_id
  FROM (
    SELECT seq, logged_at, worker_id, job_id, task_id, excuse FROM audit
    WHERE noun = 'task' AND event = 'fail' AND logged_at > :since
    ORDER BY logged_at DESC, seq DESC LIMIT :look_count
  ) l JOIN workers w ON w.id = l.worker_id
  WHERE NOT w.disabled AND w.quarantined_at IS NULL
    AND (w.trusted_at IS NULL OR l.logged_at > w.trusted_at)
    AND l.excuse IS NULL
  {apart}
) f
WHERE f.lane_id IS NOT NULL
  AND EXISTS (SELECT 1 FROM audit e WHERE e.job_id = f.job_id AND e.task_id = f.task_id AND e.event = 'complete'
    AND e.worker_id <> f.worker_id {apart})
  AND NOT EXISTS (SELECT 1 FROM audit o WHERE o.job_id = f.job_id AND o.task_id = f.task_id AND o.event = 'fail'
    AND o.worker_id <> f.worker_id {apart})
GROUP BY f.worker_id, f.lane_id ORDER BY f.worker_id, f.lane_id;

-- name: finished_since
-- How many tasks of these lanes the worker finished itself, as far back as is looked.
SELECT COUNT(*) AS task_count FROM (
  SELECT task_id, event, worker_id FROM audit WHERE seq > :first_seq ORDER BY seq DESC LIMIT :look_count
) c
WHERE c.event = 'complete' AND c.worker_id = :worker_id
  AND (SELECT t.lane_id FROM tasks t WHERE t.id = c.task_id) {among g(lane_id bigint)};

-- name: lanes_at_stake
-- For each lane of a worker: who is online for it, itself included, how many of them are quarantined, and whether tasks
-- wait there.
SELECT l.lane_id, COUNT(*) AS online_count,
  SUM(CASE WHEN p.quarantined_at IS NULL THEN 0 ELSE 1 END) AS quarantined_count,
  CASE WHEN EXISTS (SELECT 1 FROM tasks t WHERE t.lane_id = l.lane_id AND t.status = 'READY' AND t.control = 'READY'
    AND t.job_control = 'READY') THEN 1 ELSE 0 END AS is_waiting
FROM worker_lanes l JOIN worker_lanes o ON o.lane_id = l.lane_id JOIN workers p ON p.id = o.worker_id
WHERE l.worker_id = :worker_id AND (p.status = 'active' OR p.id = l.worker_id) AND NOT p.disabled
GROUP BY l.lane_id ORDER BY l.lane_id;

-- name: quarantine_worker
UPDATE workers SET quarantined_at = {now}, quarantine_reason = :reason
WHERE id = :worker_id AND NOT disabled AND quarantined_at IS NULL RETURNING id;
