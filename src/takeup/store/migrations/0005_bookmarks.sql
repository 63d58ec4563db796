-- PostgreSQL keeps a task that is no longer ready in the index until the table is vacuumed, and every claim would step
-- over all of them. A claim can go on where the last one ended, if the order of the index is one comparison.

-- name: tasks_ready_ranked [postgres]
CREATE INDEX tasks_ready_ranked ON tasks (lane_id, (-priority), available_at, id)
  WHERE status = 'READY' AND control = 'READY' AND job_control = 'READY';

-- name: tasks_ready_by_priority [postgres]
DROP INDEX tasks_ready;

-- name: tasks_ready [postgres]
ALTER INDEX tasks_ready_ranked RENAME TO tasks_ready;
