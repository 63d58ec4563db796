"""A million task rows, written past the operations: a table after a long backlog or a long life."""

import asyncpg

TASKS_A_JOB = 1000

LOAD_JOBS = """
INSERT INTO jobs (id, pipeline, subject, live_subject, generation, user_id, priority, control, status, spec,
  spec_hash, created_at, updated_at, started_at, finished_at)
SELECT 'bulk_' || lpad(n::text, 8, '0'), j.pipeline, NULL, NULL, 1, '', n % 10, 'READY',
  CASE WHEN $1 = 'DONE' THEN 'completed' ELSE 'processing' END, '{}', '', j.created_at, j.created_at,
  j.created_at, CASE WHEN $1 = 'DONE' THEN j.created_at END
FROM (SELECT * FROM jobs WHERE id LIKE 'job%' LIMIT 1) j, generate_series(1, $2::int) n
"""

LOAD_STAGES = """
INSERT INTO job_stages
SELECT 'bulk_' || lpad(n::text, 8, '0'), s.stage, s.position, s.lane_id, s.phase, s.lease_s, s.stall_s,
  s.max_attempts, s.retry, s.version, s.splitter, j.created_at
FROM (SELECT * FROM jobs WHERE id LIKE 'job%' LIMIT 1) j JOIN job_stages s ON s.job_id = j.id,
  generate_series(1, $1::int) n
"""

LOAD_TASKS = """
INSERT INTO tasks (job_id, pipeline, stage, segment, generation, status, phase, lane_id, priority, control,
  job_control, available_at, ready_at, attempt, max_attempts, epoch, lease_s, parameters, splits, result,
  created_at, started_at, finished_at)
SELECT 'bulk_' || lpad((n % $2::int + 1)::text, 8, '0'), j.pipeline, 'encode', n / $2::int, 1, $1, s.phase,
  s.lane_id, (n % $2::int + 1) % 10, 'READY', 'READY', j.created_at - make_interval(secs => n % 86400),
  j.created_at, CASE WHEN $1 = 'DONE' THEN 1 ELSE 0 END, 3, CASE WHEN $1 = 'DONE' THEN 1 ELSE 0 END, 60, '{}',
  FALSE, CASE WHEN $1 = 'DONE' THEN '{}' END, j.created_at, CASE WHEN $1 = 'DONE' THEN j.created_at END,
  CASE WHEN $1 = 'DONE' THEN j.created_at END
FROM (SELECT * FROM jobs WHERE id LIKE 'job%' LIMIT 1) j
  JOIN job_stages s ON s.job_id = j.id AND s.stage = 'encode',
  generate_series(0, $3::int - 1) n
"""

INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'tasks' AND indexname <> 'tasks_pkey'"


async def load(url: str, status: str, count: int) -> None:
    """Add `count` tasks in this status, spread over jobs of a thousand tasks each."""
    connection = await asyncpg.connect(url)
    jobs = max(count // TASKS_A_JOB, 1)
    try:
        await connection.execute("SET session_replication_role = replica; SET maintenance_work_mem = '512MB'")
        indexes = await connection.fetch(INDEXES)
        for index in indexes:
            await connection.execute(f"DROP INDEX {index['indexname']}")
        await connection.execute(LOAD_JOBS, status, jobs)
        await connection.execute(LOAD_STAGES, jobs)
        await connection.execute(LOAD_TASKS, status, jobs, count)
        for index in indexes:
            await connection.execute(index["indexdef"])
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
