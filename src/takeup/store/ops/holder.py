"""What a server asks before it serves a worker that is elsewhere; nothing is changed."""

import json
from collections.abc import Sequence
from datetime import datetime

from takeup.core.files import MadeFile
from takeup.core.ids import nonce_hash
from takeup.core.model import Artifact, Brief, Held, HeldTask
from takeup.store.op import Op, query


def held_task(worker_id: str, held: Held) -> Op[HeldTask | None]:
    """The task, if this worker holds it with this token now."""
    task_id, (epoch, nonce) = held
    rows = yield query("held_tasks_of_worker", worker_id=worker_id, g=[(task_id, epoch, nonce_hash(nonce))])
    if not rows:
        return None
    row = rows[0]
    names = ("job_id", "pipeline", "stage", "segment", "generation", "lease_s")
    brief = Brief(json.loads(row["spec"]), row["subject"])
    return HeldTask(task_id=row["id"], brief=brief, **{name: row[name] for name in names})


def file_of_job(job_id: str, key: str) -> Op[MadeFile | None]:
    """An output file of a finished task of this job."""
    rows = yield query("file_of_job", job_id=job_id, object_key=key)
    if not rows:
        return None
    row = rows[0]
    file = Artifact(row["name"], row["object_key"], row["sha256"], row["size_bytes"])
    return MadeFile(file, row["task_id"], row["epoch"])


def claimed(worker_id: str, attempts: Sequence[tuple[str, int, int]]) -> Op[frozenset[tuple[int, int]]]:
    """Which of these attempts (job, task, epoch) are this worker's, as task and epoch."""
    if not attempts:
        return frozenset()
    rows = yield query("claimed_tasks", worker_id=worker_id, g=sorted(set(attempts)))
    return frozenset((row["task_id"], row["epoch"]) for row in rows)


def jobs_of(task_ids: Sequence[int]) -> Op[list[str]]:
    """The jobs that these tasks are of."""
    rows = yield query("jobs_of_tasks", g=[(task_id,) for task_id in sorted(set(task_ids))])
    return [row["job_id"] for row in rows]


def own_steps(worker_id: str, steps: Sequence[tuple[int, datetime]]) -> Op[frozenset[int]]:
    """Which of these commands are of this worker's attempts."""
    rows = yield query("own_steps", worker_id=worker_id, g=list(dict(steps).items()))
    return frozenset(row["id"] for row in rows)
