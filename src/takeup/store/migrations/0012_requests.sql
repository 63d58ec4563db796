-- What a job was asked for besides its pipeline and spec, so that its key is not taken for another request. Jobs from
-- before have none, and so do those whose repeats may differ in it.

-- name: jobs_request
ALTER TABLE jobs ADD COLUMN request_hash TEXT;

-- name: jobs_archive_request
ALTER TABLE jobs_archive ADD COLUMN request_hash TEXT;
