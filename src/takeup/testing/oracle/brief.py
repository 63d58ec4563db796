"""What the oracle's worker reads about its tasks: specs, inputs, what it holds, what became of attempts."""

from collections.abc import Sequence

from takeup.core.ids import nonce_hash
from takeup.core.machine import TASK
from takeup.core.model import Brief, Fate, Glance, Held, InputPage, Lease, MadeInput, Task
from takeup.store.ops.brief import FAILED_BEFORE_MAX, INPUTS_PAGE
from takeup.testing.oracle.state import State, TaskRow


class OracleBriefs:
    """The reads of a worker."""

    def __init__(self, state: State) -> None:
        """Look at these tables."""
        self._state = state

    async def briefs(self, job_ids: Sequence[str]) -> dict[str, Brief]:
        """The spec and subject of these jobs."""
        jobs = {job_id: self._state.jobs[job_id].job for job_id in job_ids if job_id in self._state.jobs}
        return {job_id: Brief(job.spec, job.subject) for job_id, job in jobs.items()}

    async def inputs(self, lease: Lease, needs: str, *, after: int = -2) -> InputPage:
        """What a needed stage made, or the same stage in an earlier run that failed."""
        if needs == lease.stage:
            return InputPage(tuple(self._former(lease)), None)
        plan = self._state.jobs[lease.job_id].plan
        is_same = any(
            need.per_segment for need in plan.needs if (need.stage, need.needs) == (lease.stage, needs)
        )
        rows = [
            row.task
            for row in self._state.tasks_of(lease.job_id)
            if row.task.stage == needs and row.task.status == "DONE"
            if _number(row) > after and (not is_same or row.task.segment == lease.segment)
        ]
        rows.sort(key=lambda task: -1 if task.segment is None else task.segment)
        made = tuple(self._made(task) for task in rows[:INPUTS_PAGE])
        return InputPage(made, made[-1].segment if len(made) == INPUTS_PAGE else None)

    def _made(self, task: Task) -> MadeInput:
        files = {a.name: a.key for (owner, _), (a, _) in self._state.artifacts.items() if owner == task.id}
        return MadeInput(task.segment, task.result or {}, files, task.id, task.epoch)

    def _former(self, lease: Lease) -> list[MadeInput]:
        """What the same task made in the last run that failed after it was done."""
        for job_id in failed_before(self._state, lease.job_id, spec_hash=self._spec_hash(lease.job_id)):
            for row in self._state.tasks_of(job_id):
                task = row.task
                if (task.stage, task.segment, task.status) == (lease.stage, lease.segment, "DONE"):
                    return [self._made(task)]
        return []

    def _spec_hash(self, job_id: str) -> str:
        return self._state.jobs[job_id].plan.spec_hash

    async def glance(self, worker_id: str, held: Sequence[Held]) -> Glance:
        """The worker's status, and what it still holds."""
        worker = self._state.workers.get(worker_id)
        still = frozenset(
            task_id
            for task_id, token in held
            if (row := self._state.tasks.get(task_id)) is not None
            and row.task.lease_owner == worker_id
            and row.task.lease_expires_at is not None
            and row.task.lease_expires_at > self._state.now()
            and (row.task.epoch, row.nonce_hash) == (token.epoch, nonce_hash(token.nonce))
        )
        return Glance(worker.status if worker else "unknown", still)

    async def fates(self, folders: Sequence[tuple[int, int, str]]) -> list[Fate]:
        """What became of these attempts."""
        return [self._fate(folder) for folder in folders]

    def _fate(self, folder: tuple[int, int, str]) -> Fate:
        task_id, epoch, hash_ = folder
        row = self._state.tasks.get(task_id)
        if row is None:
            return Fate(folder, "gone", None, None)
        names = sorted(
            (a.key, a.name)
            for (owner, _), (a, made_in) in self._state.artifacts.items()
            if owner == task_id and made_in == epoch
        )
        key, name = names[0] if names else (None, None)
        ended = self._state.ended.get(folder)
        is_won = ended is not None and ended.event == "complete"
        return Fate(folder, _fate_of(row, epoch, hash_, is_won=is_won), key, name)


def _fate_of(row: TaskRow, epoch: int, hash_: str, *, is_won: bool) -> str:
    task = row.task
    if task.status == "RUNNING" and (task.epoch, row.nonce_hash) == (epoch, hash_):
        return "held"
    if task.status in TASK.live:
        return "open"
    return "won" if task.status == "DONE" and is_won else "over"


def failed_before(state: State, job_id: str, spec_hash: str | None = None) -> list[str]:
    """The earlier runs of a job that failed, the last one first; of this spec alone, if one is given."""
    ours = state.jobs[job_id].job
    earlier = [
        row.job
        for row in state.jobs.values()
        if row.job.subject is not None
        and (row.job.subject, row.job.pipeline, row.job.status) == (ours.subject, ours.pipeline, "failed")
        and row.job.generation < ours.generation
        and spec_hash in (None, row.plan.spec_hash)
    ]
    return [job.id for job in sorted(earlier, key=lambda job: -job.generation)[:FAILED_BEFORE_MAX]]


def _number(row: TaskRow) -> int:
    return -1 if row.task.segment is None else row.task.segment
