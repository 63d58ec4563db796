-- The control table: jobs whose subject is a (url, iteration) pair, one row each, in the words of pipeline_control.

-- name: control_subjects [postgres]
-- What is asked of the spec stands in a CASE each, so that no planner can cast what is not a number.
CREATE VIEW control_subjects AS
SELECT j.id AS job_id, j.spec::jsonb ->> 'url' AS url, CASE WHEN j.spec::jsonb ->> 'iteration' ~ '^-?[0-9]{1,18}$'
  THEN CAST(j.spec::jsonb ->> 'iteration' AS BIGINT) END AS iteration
FROM jobs j
WHERE j.subject IS NOT NULL AND jsonb_typeof(j.spec::jsonb -> 'url') = 'string'
  AND jsonb_typeof(j.spec::jsonb -> 'iteration') = 'number' AND j.spec::jsonb ->> 'iteration' ~ '^-?[0-9]{1,18}$'
  AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.subject = j.subject AND n.generation > j.generation);

-- name: control_subjects [sqlite]
CREATE VIEW control_subjects AS
SELECT j.id AS job_id, json_extract(j.spec, '$.url') AS url, json_extract(j.spec, '$.iteration') AS iteration
FROM jobs j
WHERE j.subject IS NOT NULL AND json_type(j.spec, '$.url') = 'text' AND json_type(j.spec, '$.iteration') = 'integer'
  AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.subject = j.subject AND n.generation > j.generation);

-- name: control_subjects [duckdb]
CREATE VIEW control_subjects AS
SELECT j.id AS job_id, json_extract_string(j.spec, '$.url') AS url,
  TRY_CAST(json_extract_string(j.spec, '$.iteration') AS BIGINT) AS iteration
FROM jobs j
WHERE j.subject IS NOT NULL AND json_type(j.spec, '$.url') = 'VARCHAR'
  AND json_type(j.spec, '$.iteration') IN ('BIGINT', 'UBIGINT') AND TRY_CAST(json_extract_string(j.spec, '$.iteration') AS BIGINT) IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.subject = j.subject AND n.generation > j.generation);

-- name: control_stages
-- Where each job stands: its first stage that is not all DONE or SKIPPED, else its last.
CREATE VIEW control_stages AS
SELECT j.id AS job_id, COALESCE((
    SELECT s.stage FROM job_stages s
    WHERE s.job_id = j.id AND (s.expanded_at IS NULL OR EXISTS (
      SELECT 1 FROM tasks o WHERE o.job_id = s.job_id AND o.stage = s.stage AND o.status NOT IN ('DONE', 'SKIPPED')))
    ORDER BY s.position LIMIT 1
  ), (SELECT s.stage FROM job_stages s WHERE s.job_id = j.id ORDER BY s.position DESC LIMIT 1)) AS stage
FROM jobs j;

-- name: pipeline_control
-- Of a stage with many tasks the one that tells most stands for all: what runs, then what is broken, then what can run.
CREATE VIEW pipeline_control AS
SELECT c.url, c.iteration, a.stage, COALESCE({control_status t.status}, 'READY') AS status,
  CASE WHEN j.control <> 'READY' THEN j.control
    WHEN t.status IN ({task.live}) THEN t.control
    WHEN t.status = 'SKIPPED' AND NOT EXISTS (
      SELECT 1 FROM tasks o WHERE o.job_id = j.id AND (o.status <> 'SKIPPED' OR o.control <> 'SKIP')) THEN 'SKIP'
    ELSE 'READY' END AS task_state,
  COALESCE(t.status = 'RUNNING', {false}) AS is_claimed, t.lease_owner AS worker_id, t.lease_expires_at AS lease_until,
  COALESCE((SELECT MAX(e.logged_at) FROM audit e WHERE e.job_id = j.id), j.updated_at) AS updated_at,
  j.id AS job_id, j.pipeline, j.generation, COALESCE(t.error, j.error) AS error
FROM control_subjects c
JOIN jobs j ON j.id = c.job_id
JOIN control_stages a ON a.job_id = c.job_id
LEFT JOIN tasks t ON t.id = (
  SELECT o.id FROM tasks o WHERE o.job_id = a.job_id AND o.stage = a.stage
  ORDER BY CASE o.status WHEN 'RUNNING' THEN 0 WHEN 'FAILED' THEN 1 WHEN 'CANCELLED' THEN 2 WHEN 'READY' THEN 3
    WHEN 'ERROR' THEN 4 WHEN 'NEW' THEN 5 ELSE 6 END, o.id LIMIT 1);
