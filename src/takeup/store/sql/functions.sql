-- What the hot statements of PostgreSQL need not always do: number the free slots of a worker, leave
-- tasks to preferred workers, let a job enter a phase, end a job. Inside the statement a plan for it would be started
-- every time; a function is planned once a session and called when it is needed. Installed together with the guards.

-- name: takeup_free_slots [postgres]
CREATE OR REPLACE FUNCTION takeup_free_slots(worker TEXT, slot_count INTEGER) RETURNS INTEGER[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  held INTEGER[] := ARRAY(SELECT lease_slot FROM tasks WHERE status = 'RUNNING' AND lease_owner = worker);
BEGIN
  -- A worker that came back with fewer slots may still hold leases on higher ones: they count.
  RETURN (ARRAY(SELECT generate_series(1, slot_count) EXCEPT SELECT unnest(held) ORDER BY 1))[1:slot_count - cardinality(held)];
END $$;

-- name: takeup_left_to_others [postgres]
-- The first tasks of a lane that prefers others: as many as those have free slots, until they have been ready for defer_s.
CREATE OR REPLACE FUNCTION takeup_left_to_others(lane BIGINT, moment TIMESTAMPTZ, defer_s DOUBLE PRECISION) RETURNS BIGINT[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  long_ago TIMESTAMPTZ := moment - make_interval(secs => defer_s);
  free_count BIGINT;
BEGIN
  SELECT SUM(GREATEST(p.slots - (SELECT COUNT(*) FROM tasks r WHERE r.status = 'RUNNING' AND r.lease_owner = p.id), 0))
  INTO free_count FROM worker_lanes o JOIN workers p ON p.id = o.worker_id
  WHERE o.lane_id = lane AND o.preferred AND p.status = 'active' AND NOT p.disabled AND p.quarantined_at IS NULL
    AND COALESCE(p.last_heartbeat_at, p.registered_at) > long_ago;
  RETURN ARRAY(
    SELECT f.id FROM (
      SELECT t.id, t.ready_at FROM tasks t
      WHERE t.lane_id = lane AND t.status = 'READY' AND t.control = 'READY' AND t.job_control = 'READY'
        AND t.available_at <= moment AND t.attempt < t.max_attempts
      ORDER BY -t.priority, t.available_at, t.id LIMIT COALESCE(free_count, 0)
    ) f WHERE f.ready_at > long_ago
  );
END $$;

-- name: takeup_start_job [postgres]
CREATE OR REPLACE FUNCTION takeup_start_job(job TEXT, furthest TEXT, request TEXT, moment TIMESTAMPTZ) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
  former TEXT;
  made_for INTEGER;
BEGIN
  UPDATE jobs j SET status = furthest, started_at = COALESCE(j.started_at, moment), updated_at = moment, version = j.version + 1
  FROM (SELECT id, status FROM jobs WHERE id = job FOR NO KEY UPDATE) f
  WHERE j.id = f.id AND {phase_rank f.status} < {phase_rank furthest}
  RETURNING f.status, j.generation INTO former, made_for;
  IF FOUND THEN
    INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, generation, request_id)
    VALUES (moment, 'job', 'enter_' || furthest, 'store', former, furthest, job, made_for, request);
  END IF;
END $$;

-- name: takeup_close_job [postgres]
CREATE OR REPLACE FUNCTION takeup_close_job(job TEXT, request TEXT, moment TIMESTAMPTZ) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
  former jobs%ROWTYPE;
  broken TEXT;
  ending TEXT := 'completed';
  reason TEXT;
BEGIN
  SELECT * INTO former FROM jobs WHERE id = job FOR NO KEY UPDATE;
  SELECT MAX(status) INTO broken FROM tasks WHERE job_id = job AND status IN ('FAILED', 'CANCELLED');
  IF former.status IN ({job.final})
    OR EXISTS (SELECT 1 FROM tasks WHERE job_id = job AND status IN ({task.live}))
    OR (broken IS NULL AND EXISTS (SELECT 1 FROM job_stages WHERE job_id = job AND expanded_at IS NULL)) THEN
    RETURN;
  END IF;
  IF broken = 'FAILED' THEN
    ending := 'failed';
    SELECT MIN(stage || ': ' || COALESCE(error, 'failed')) INTO reason FROM tasks WHERE job_id = job AND status = 'FAILED';
    IF LENGTH(reason) > 2000 THEN
      reason := '…' || RIGHT(reason, 1999);
    END IF;
  ELSIF broken = 'CANCELLED' THEN
    ending := 'cancelled';
  END IF;
  UPDATE jobs SET status = ending, error = reason, live_subject = NULL, updated_at = moment, version = version + 1,
    finished_at = GREATEST(moment, started_at)
  WHERE id = job;
  INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, generation, request_id, reason)
  VALUES (moment, 'job', CASE ending WHEN 'failed' THEN 'fail' WHEN 'cancelled' THEN 'cancel' ELSE 'complete' END, 'store',
    former.status, ending, job, former.generation, request, reason);
  INSERT INTO outbox (topic, subject, body, status, created_at, available_at)
  VALUES ('job.' || ending, job, '{"job_id":"' || job || '","status":"' || ending || '"}', 'WAITING', moment, moment);
END $$;

-- name: takeup_add_months [postgres]
-- The partitions of the tables that only grow, from this month on; a month whose rows are in the default one stays there.
CREATE OR REPLACE FUNCTION takeup_add_months(month_count INTEGER) RETURNS INTEGER
LANGUAGE plpgsql AS $$
DECLARE
  grows TEXT;
  month TIMESTAMP;
  made INTEGER := 0;
BEGIN
  FOREACH grows IN ARRAY ARRAY['audit', 'job_logs', 'execution_steps'] LOOP
    FOR ahead IN 0..month_count LOOP
      month := date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(months => ahead);
      CONTINUE WHEN to_regclass(grows || to_char(month, '_YYYY_MM')) IS NOT NULL;
      BEGIN
        EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
          grows || to_char(month, '_YYYY_MM'), grows, month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
        made := made + 1;
      EXCEPTION WHEN check_violation OR duplicate_table THEN
        NULL;
      END;
    END LOOP;
  END LOOP;
  RETURN made;
END $$;
