-- Why a failure is not its worker's is told apart from the error, which a stage words as it likes; and which processes of
-- a worker began is told apart from its metadata, which are the user's.

-- name: audit_excuse
ALTER TABLE audit ADD COLUMN excuse TEXT;

-- name: audit_archive_excuse
ALTER TABLE audit_archive ADD COLUMN excuse TEXT;

-- name: failures_before
-- Of failures from before nothing but words tells whether they count; they are forgiven.
UPDATE workers SET trusted_at = (SELECT a.logged_at FROM audit a ORDER BY a.seq DESC LIMIT 1);

-- name: workers_processes
ALTER TABLE workers ADD COLUMN processes TEXT;

-- name: metadata_processes [postgres]
UPDATE workers SET metadata = (CAST(metadata AS JSONB) - 'processes')::TEXT WHERE kind = 'remote';

-- name: metadata_processes [sqlite]
UPDATE workers SET metadata = json_remove(metadata, '$.processes') WHERE kind = 'remote';

-- name: metadata_processes [duckdb]
UPDATE workers SET metadata = CAST(json_merge_patch(metadata, '{"processes": null}') AS TEXT) WHERE kind = 'remote';
