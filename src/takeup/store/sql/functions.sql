-- What the hot statements of PostgreSQL do only now and then: a job enters a phase, a job ends. Inside the statement a
-- plan for it would be started every time; a function is planned once a session and called when it is needed.
-- Installed together with the guards; both do what start_jobs and close_jobs do elsewhere.

-- name: takeup_start_job [postgres]
CREATE OR REPLACE FUNCTION takeup_start_job(job TEXT, phase TEXT, request TEXT, moment TIMESTAMPTZ) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
  former jobs%ROWTYPE;
BEGIN
  SELECT * INTO former FROM jobs WHERE id = job FOR NO KEY UPDATE;
  IF {phase_rank former.status} < {phase_rank phase} THEN
    UPDATE jobs SET status = phase, started_at = COALESCE(started_at, moment), updated_at = moment, version = version + 1
    WHERE id = job;
    INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, generation, request_id)
    VALUES (moment, 'job', 'enter_' || phase, 'store', former.status, phase, job, former.generation, request);
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
