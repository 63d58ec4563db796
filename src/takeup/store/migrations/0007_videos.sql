-- Videos, what of each is served, and files that are being received. A video has no status of its own: it is what its
-- newest job says, and whether anything is served. A row is never removed, so that no slug ever leads to another video.

-- name: videos
CREATE TABLE videos (
  id TEXT PRIMARY KEY,
  slug TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  user_id TEXT NOT NULL,
  file_name TEXT NOT NULL,
  profile TEXT NOT NULL,
  size_bytes BIGINT NOT NULL CHECK (size_bytes > 0),
  sha256 TEXT NOT NULL CHECK (LENGTH(sha256) = 64),
  served_version INTEGER CHECK (served_version >= 1),
  duration_s {double},
  version BIGINT NOT NULL DEFAULT 1,
  created_at {time} NOT NULL,
  updated_at {time} NOT NULL,
  deleted_at {time}
);

-- name: videos_by_age [postgres, sqlite]
CREATE INDEX videos_by_age ON videos (created_at, id) WHERE deleted_at IS NULL;

-- name: video_qualities
CREATE TABLE video_qualities (
  video_id TEXT NOT NULL,
  name TEXT NOT NULL,
  position INTEGER NOT NULL,
  codec TEXT NOT NULL,
  width INTEGER,
  height INTEGER,
  size_bytes BIGINT NOT NULL,
  mean_rate BIGINT NOT NULL,
  peak_rate BIGINT NOT NULL,
  PRIMARY KEY (video_id, name)
);

-- name: uploads
CREATE TABLE uploads (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL,
  length_bytes BIGINT CHECK (length_bytes > 0),
  about TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'done')),
  created_at {time} NOT NULL,
  expires_at {time} NOT NULL
);

-- name: uploads_by_end [postgres, sqlite]
CREATE INDEX uploads_by_end ON uploads (expires_at, id);

-- name: uploads_open [postgres, sqlite]
CREATE INDEX uploads_open ON uploads (user_id) WHERE state = 'open';

-- name: video_states
-- The newest job counts, wherever it is kept. One that waits for a worker leaves what is served as it is.
CREATE VIEW video_states AS
SELECT v.id, v.slug, v.title, v.user_id, v.file_name, v.profile, v.size_bytes, v.sha256, v.served_version, v.duration_s,
  v.version, v.created_at, v.updated_at, v.deleted_at, COALESCE(j.id, a.id) AS job_id,
  CASE WHEN j.status = 'pending' THEN CASE WHEN v.served_version IS NULL THEN 'pending' ELSE 'ready' END
    WHEN j.status IN ({job.live}) THEN 'processing'
    WHEN COALESCE(j.status, a.status) = 'completed' OR v.served_version IS NOT NULL THEN 'ready'
    ELSE 'failed' END AS status,
  CASE COALESCE(j.status, a.status) WHEN 'failed' THEN COALESCE(j.error, a.error, 'the job failed')
    WHEN 'cancelled' THEN CASE WHEN v.served_version IS NULL THEN 'the job was cancelled' END END AS error
FROM (
  SELECT k.*, (SELECT MAX(o.generation) FROM jobs o WHERE o.subject = 'video:' || k.id) AS newest,
    (SELECT MAX(o.generation) FROM jobs_archive o WHERE o.subject = 'video:' || k.id) AS newest_archived
  FROM videos k
) v
LEFT JOIN jobs j ON j.subject = 'video:' || v.id AND j.generation = v.newest
LEFT JOIN jobs_archive a ON v.newest IS NULL AND a.subject = 'video:' || v.id AND a.generation = v.newest_archived;
