"""What a worker reads about its tasks: spec, inputs, who still holds what, what became of files."""

import json
from collections.abc import Sequence

from takeup.core.ids import nonce_hash
from takeup.core.model import Brief, Fate, Glance, Held, HeldTask, InputPage, Lease, MadeInput
from takeup.store.op import Op, Row, query

INPUTS_PAGE = 500
FAILED_BEFORE_MAX = 100


def briefs(job_ids: Sequence[str]) -> Op[dict[str, Brief]]:
    """The spec and subject of these jobs."""
    rows = yield query("briefs", j=[(job_id,) for job_id in sorted(set(job_ids))])
    return {row["job_id"]: brief_of(row) for row in rows}


def brief_of(row: Row) -> Brief:
    """What a worker must know of a job, from its spec and subject."""
    return Brief(json.loads(row["spec"]), row["subject"])


def inputs(lease: Lease | HeldTask, needs: str, after: int) -> Op[InputPage]:
    """A page of what a needed stage made: for the same segment, or for all of them in their order.

    No stage needs itself, so its own name asks for what it made in an earlier run that failed.
    """
    if needs == lease.stage:
        tasks = yield query("former_tasks", job_id=lease.job_id, stage=lease.stage, segment=lease.segment)
        return InputPage((yield from _made(tasks)), None)
    deps = yield query("input_needs", job_id=lease.job_id, stage=lease.stage, needs=needs)
    segment = lease.segment if deps and deps[0]["per_segment"] else None
    tasks = yield query(
        "input_tasks",
        job_id=lease.job_id,
        needs=needs,
        segment=segment,
        after=after,
        limit_count=INPUTS_PAGE,
    )
    last = tasks[-1]["segment"] if len(tasks) == INPUTS_PAGE else None
    return InputPage((yield from _made(tasks)), last)


def _made(tasks: Sequence[Row]) -> Op[tuple[MadeInput, ...]]:
    """What these tasks of one job made, with their files."""
    files: dict[int, dict[str, str]] = {}
    if tasks:
        rows = yield query("input_files", job_id=tasks[0]["job_id"], g=[(row["id"],) for row in tasks])
        for row in rows:
            files.setdefault(row["task_id"], {})[row["name"]] = row["object_key"]
    return tuple(
        MadeInput(
            row["segment"], json.loads(row["result"]), files.get(row["id"], {}), row["id"], row["epoch"]
        )
        for row in tasks
    )


def failed_before(job_id: str) -> Op[list[str]]:
    """The earlier runs of a job that failed, the last one first."""
    rows = yield query("failed_before", job_id=job_id, limit_count=FAILED_BEFORE_MAX)
    return [row["id"] for row in rows]


def glance(worker_id: str, held: Sequence[Held]) -> Op[Glance]:
    """Whether the worker is to go on, and which of its leases still hold: one cheap read, often made."""
    rows = yield query("worker_orders", worker_id=worker_id)
    fences = [(task_id, token.epoch, nonce_hash(token.nonce)) for task_id, token in held]
    still = (yield query("held_tasks", worker_id=worker_id, g=fences)) if fences else []
    return Glance(rows[0]["worker_status"] if rows else "unknown", frozenset(row["id"] for row in still))


def fates(folders: Sequence[tuple[int, int, str]]) -> Op[list[Fate]]:
    """What became of the attempts that these folders (task, epoch, nonce hash) belong to."""
    rows = yield query("fates", g=list(folders))
    return [
        Fate((row["task_id"], row["epoch"], row["nonce_hash"]), row["fate"], row["object_key"], row["name"])
        for row in rows
    ]
