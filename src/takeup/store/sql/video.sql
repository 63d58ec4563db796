-- Videos and the files that become videos.

-- name: slugs_taken
SELECT slug FROM videos WHERE slug {among g(slug text)};

-- name: add_video
INSERT INTO videos (id, slug, title, user_id, file_name, profile, size_bytes, sha256, request_hash, created_at, updated_at)
VALUES (:id, :slug, :title, :user_id, :file_name, :profile, :size_bytes, :digest,
  (SELECT request_hash FROM uploads WHERE id = :upload_id), {now}, {now});

-- name: video_state
SELECT * FROM video_states WHERE id = :id;

-- name: video_request
SELECT request_hash FROM videos WHERE id = :id;

-- name: video_by_slug
SELECT id FROM videos WHERE slug = :slug AND deleted_at IS NULL;

-- name: newest_videos
-- Which videos a page shows is known before their jobs are looked at.
SELECT id FROM videos
WHERE deleted_at IS NULL AND created_at <= :before_at AND (created_at < :before_at OR id < :before_id)
ORDER BY created_at DESC, id DESC LIMIT :limit_count;

-- name: videos_shown
SELECT * FROM video_states WHERE deleted_at IS NULL AND id {among g(id text)} ORDER BY created_at DESC, id DESC;

-- name: videos_in_status
-- The status follows from the jobs, so every video is looked at until there are enough.
SELECT * FROM video_states
WHERE deleted_at IS NULL AND status = :status
  AND created_at <= :before_at AND (created_at < :before_at OR id < :before_id)
ORDER BY created_at DESC, id DESC LIMIT :limit_count;

-- name: videos_kept
-- What decides about the files of videos.
SELECT v.id, v.served_version, v.deleted_at,
  CASE WHEN EXISTS (SELECT 1 FROM jobs j WHERE j.live_subject = 'video:' || v.id) THEN 1 ELSE 0 END AS is_busy
FROM videos v WHERE v.id {among g(id text)};

-- name: video_for_change
SELECT id, profile, served_version, version FROM videos WHERE id = :id AND deleted_at IS NULL {lock};

-- name: retitle_video
UPDATE videos SET title = :title, version = version + 1, updated_at = {now} WHERE id = :id;

-- name: delete_video
UPDATE videos SET deleted_at = {now}, version = version + 1, updated_at = {now} WHERE id = :id;

-- name: note_served
UPDATE videos SET served_version = :served_version, duration_s = :duration_s, updated_at = {now} WHERE id = :id;

-- name: qualities_of_video
SELECT name, codec, width, height, size_bytes, mean_rate, peak_rate FROM video_qualities
WHERE video_id = :id ORDER BY position, name;

-- name: drop_other_qualities
DELETE FROM video_qualities WHERE video_id = :id AND NOT (name {among g(name text)});

-- name: put_qualities
INSERT INTO video_qualities (video_id, position, name, codec, width, height, size_bytes, mean_rate, peak_rate)
SELECT video_id, position, name, codec, width, height, size_bytes, mean_rate, peak_rate
FROM {rows g(video_id text, position bigint, name text, codec text, width bigint, height bigint, size_bytes bigint, mean_rate bigint, peak_rate bigint)}
WHERE 1 = 1
ON CONFLICT (video_id, name) DO UPDATE SET position = excluded.position, codec = excluded.codec, width = excluded.width,
  height = excluded.height, size_bytes = excluded.size_bytes, mean_rate = excluded.mean_rate, peak_rate = excluded.peak_rate;

-- name: hold_uploads
-- Who begins an upload sees all that began before; the embedded databases have one writer anyway.

-- name: hold_uploads [postgres]
SELECT pg_advisory_xact_lock(7297453122048) AS held;

-- name: uploads_of_user
SELECT COUNT(*) AS upload_count, CAST(COALESCE(SUM(COALESCE(length_bytes, :unknown_bytes)), 0) AS BIGINT) AS byte_count
FROM uploads WHERE user_id = :user_id AND state = 'open' AND expires_at > {now};

-- name: add_upload
INSERT INTO uploads (id, user_id, length_bytes, about, state, request_hash, created_at, expires_at)
VALUES (:id, :user_id, :length_bytes, :about, 'open', :request_hash, {now}, {after :life_s});

-- name: upload_by_id
SELECT * FROM uploads WHERE id = :id;

-- name: live_upload_by_id
SELECT * FROM uploads WHERE id = :id AND expires_at > {now};

-- name: open_uploads
SELECT * FROM uploads WHERE state = 'open' AND id > :after ORDER BY id LIMIT :limit_count;

-- name: expired_uploads
SELECT * FROM uploads WHERE expires_at <= {now} ORDER BY expires_at, id LIMIT :limit_count;

-- name: uploads_among
SELECT id FROM uploads WHERE state = 'open' AND id {among g(id text)};

-- name: extend_upload
UPDATE uploads SET expires_at = {after :life_s}
WHERE id = :id AND state = 'open' AND expires_at < {after :low_s} RETURNING id;

-- name: end_upload
UPDATE uploads SET state = 'done' WHERE id = :id AND state = 'open' RETURNING id;

-- name: drop_upload
DELETE FROM uploads WHERE id = :id AND state = :state RETURNING id;
