"""Moving finished jobs out of the hot tables, with everything that belongs to them, in one transaction."""

from takeup.store.op import Op, is_whole, query

_COPIES = ("copy_jobs", "copy_stages", "copy_needs", "copy_tasks", "copy_audit", "copy_artifacts")
_DROPS = ("drop_artifacts", "drop_audit", "drop_tasks", "drop_needs", "drop_stages", "drop_jobs")


def archive(older_than_s: float, limit_count: int) -> Op[list[str]]:
    """Archive jobs that finished longer ago than this; answers with their ids."""
    rows = yield query("archive_jobs", older_than_s=older_than_s, limit_count=limit_count)
    if rows and not is_whole(rows):
        for name in (*_COPIES, *_DROPS):
            yield query(name, j=[(row["id"],) for row in rows])
    return [row["id"] for row in rows]
