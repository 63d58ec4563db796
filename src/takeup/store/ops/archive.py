"""What is over leaves the hot tables: finished jobs with all that is theirs, old messages, lost workers."""

from takeup.store.op import Op, is_whole, query

PATIENCE_MS = 60_000
"""How long one batch may take on PostgreSQL, where a statement else has a few seconds."""

_COPIES = (
    "copy_jobs",
    "copy_stages",
    "copy_needs",
    "copy_tasks",
    "copy_audit",
    "copy_artifacts",
    "copy_logs",
    "copy_steps",
)
_DROPS = (
    "drop_steps",
    "drop_logs",
    "drop_artifacts",
    "drop_audit",
    "drop_tasks",
    "drop_needs",
    "drop_stages",
    "drop_jobs",
)
_FORGETTING = ("copy_worker_log", "drop_worker_log", "drop_old_lanes", "end_keys_of_workers", "drop_workers")


def archive(older_than_s: float, limit_count: int) -> Op[list[str]]:
    """Archive jobs that finished longer ago than this; answers with their ids."""
    yield query("archive_patience", patience_ms=str(PATIENCE_MS))
    rows = yield query("archive_jobs", older_than_s=older_than_s, limit_count=limit_count)
    if rows and not is_whole(rows):
        for name in (*_COPIES, *_DROPS):
            yield query(name, j=[(row["id"],) for row in rows])
    return [row["id"] for row in rows]


def forget_messages(sent_s: float, parked_s: float, limit_count: int) -> Op[int]:
    """Remove messages that were sent or given up longer ago than this; their log goes to the archive."""
    old = []
    for status, older_than_s in (("SENT", sent_s), ("PARKED", parked_s)):
        rows = yield query("old_messages", status=status, older_than_s=older_than_s, limit_count=limit_count)
        old += [(row["id"],) for row in rows]
    if old:
        for name in ("copy_message_log", "drop_message_log", "drop_messages"):
            yield query(name, g=old)
    return len(old)


def forget_workers(older_than_s: float, limit_count: int) -> Op[list[str]]:
    """Remove workers that are offline, hold nothing and were not heard of for so long; their keys end."""
    rows = yield query("old_workers", older_than_s=older_than_s, limit_count=limit_count)
    if rows:
        for name in _FORGETTING:
            yield query(name, g=[(row["id"],) for row in rows])
    return [row["id"] for row in rows]


def add_months(month_count: int) -> Op[int]:
    """Make the monthly partitions of this and the coming months, where there are partitions; how many."""
    rows = yield query("add_months", month_count=month_count)
    made: int = rows[0]["made"]
    return made
