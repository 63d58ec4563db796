-- What can be wrong with the rows of a database; each names one fault and how many rows have it.

-- name: check_rows
SELECT 'tasks of no job' AS fault, COUNT(*) AS row_count FROM tasks t WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = t.job_id)
UNION ALL
SELECT 'stages of no job', COUNT(*) FROM job_stages s WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = s.job_id)
UNION ALL
SELECT 'tasks of no stage', COUNT(*) FROM tasks t
WHERE NOT EXISTS (SELECT 1 FROM job_stages s WHERE s.job_id = t.job_id AND s.stage = t.stage)
UNION ALL
SELECT 'live tasks in a lane that does not exist', COUNT(*) FROM tasks t
WHERE t.status IN ({task.live}) AND NOT EXISTS (SELECT 1 FROM lanes l WHERE l.id = t.lane_id)
UNION ALL
SELECT 'live tasks of a finished job', COUNT(*) FROM tasks t
WHERE t.status IN ({task.live}) AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = t.job_id AND j.status IN ({job.final}))
UNION ALL
SELECT 'leases of a worker that does not exist', COUNT(*) FROM tasks t
WHERE t.status = 'RUNNING' AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = t.lease_owner)
UNION ALL
SELECT 'jobs that are in the archive too', COUNT(*) FROM jobs j WHERE EXISTS (SELECT 1 FROM jobs_archive a WHERE a.id = j.id)
UNION ALL
SELECT 'messages that were given up', COUNT(*) FROM outbox WHERE status = 'PARKED';

-- name: check_file [sqlite]
PRAGMA integrity_check(20);

-- name: check_file
SELECT 'ok' AS integrity_check;

-- name: check_references [sqlite]
PRAGMA foreign_key_check;

-- name: check_references
SELECT 1 AS nothing WHERE 1 = 0;

-- name: check_guards [sqlite]
SELECT name FROM sqlite_master WHERE type = 'trigger';

-- name: check_guards [postgres]
SELECT DISTINCT tgname AS name FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A');

-- name: check_guards
SELECT '' AS name WHERE 1 = 0;

-- name: check_indexes [postgres]
SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid;

-- name: check_indexes
SELECT '' AS name WHERE 1 = 0;
