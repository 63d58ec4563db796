"""The steps of a random walk: every operation of the facades, on things that came up before."""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from takeup.core.budget import ErrorBudget
from takeup.core.model import Artifact, Completion, Failure, Held, Lease, Message, Progress
from takeup.core.pipeline import Pipeline
from takeup.core.plan import NewJob
from takeup.store.ops.claim import ClaimRequest
from takeup.testing.conformance.world import World

WORKERS = ("w1", "w2", "gpu", "w4")
LIMIT_LARGE = 100
TICKS = (0.5, 1.0, 5.0, 10.0, 10.0, 30.0, 60.0, 61.0, 400.0)


@dataclass(frozen=True, slots=True)
class Command:
    """One step: an operation and its arguments, things named by their number."""

    name: str
    arguments: dict[str, Any]


class Ledger:
    """What one side of a walk has seen: its jobs, leases, requests and messages, in the same order."""

    def __init__(self, world: World) -> None:
        """Start with pipelines of every kind and nothing else."""
        self.world = world
        self.store = world.store
        self.pipelines = pipelines(world)
        self.registered: set[str] = set()
        self.jobs: list[str] = []
        self.leases: list[tuple[str, Lease]] = []
        self.requests: list[ClaimRequest] = []
        self.messages: list[Message] = []
        self.keys: dict[int, tuple[str, str, int | None]] = {}

    def key(self, task_id: int | None) -> tuple[str, str, int | None] | None:
        """A task by what it is, whatever number the store gave it."""
        return None if task_id is None else self.keys.get(task_id)

    def learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Note which task has which number."""
        for row in rows:
            self.keys[row["id"]] = (row["job_id"], row["stage"], row["segment"])

    def holding(self, numbers: list[int]) -> tuple[str, list[Held]]:
        """The leases of these numbers that belong to the worker of the first, each task once."""
        owner = self.leases[numbers[0]][0]
        held: dict[int, Held] = {}
        for number in numbers:
            worker_id, lease = self.leases[number]
            if worker_id == owner:
                held.setdefault(lease.task_id, lease.held)
        return owner, list(held.values())


def pipelines(world: World) -> list[Pipeline]:
    """A chain, a fan, and stages that require or prefer something."""
    return [
        world.pipeline(
            world.stage("a", attempts=2, phase="planning", stall_s=25.0),
            world.stage("b", needs=("a",), attempts=1),
            name="chain",
        ),
        world.pipeline(
            world.stage("split", phase="planning"),
            world.stage("encode", needs=("split",), each="segment", attempts=2),
            world.stage("check", needs=("encode",), each="segment"),
            world.stage("join", needs=("check",), phase="uploading_outputs"),
            name="fan",
        ),
        world.pipeline(
            world.stage("soft", prefers="gpu", attempts=3),
            world.stage("hard", requires=("gpu",), attempts=2),
            name="able",
        ),
    ]


async def submit(ledger: Ledger, pipeline: int, after_s: float | None, **options: Any) -> Any:
    """One or two jobs."""
    count = options.pop("count")
    now = await ledger.store.read.now()
    moment = None if after_s is None else now + timedelta(seconds=after_s)
    new = NewJob(ledger.pipelines[pipeline], not_before=moment, **options)
    job_ids = await ledger.store.operator.submit([new] * count)
    ledger.jobs += [job_id for job_id in dict.fromkeys(job_ids) if job_id not in ledger.jobs]
    return job_ids


async def claim(ledger: Ledger, worker_id: str, limit: int, defer_s: float) -> Any:
    """A new request."""
    return await ask(ledger, ledger.world.request(worker_id, limit, defer_s=defer_s))


async def claim_again(ledger: Ledger, number: int) -> Any:
    """An old request once more."""
    return await ask(ledger, ledger.requests[number])


async def ask(ledger: Ledger, request: ClaimRequest) -> Any:
    """Claim and note the leases."""
    if request not in ledger.requests:
        ledger.requests.append(request)
    leases = await ledger.store.worker.claim(request)
    known = {lease.held for _, lease in ledger.leases}
    ledger.leases += [(request.worker_id, lease) for lease in leases if lease.held not in known]
    return leases


async def renew(ledger: Ledger, numbers: list[int], percent: float | None, note: str | None) -> Any:
    """Renew leases."""
    owner, held = ledger.holding(numbers)
    return await ledger.store.worker.renew(owner, [Progress(lease, percent, note) for lease in held])


async def complete(ledger: Ledger, numbers: list[int], segments: int, *, files: bool) -> Any:
    """Complete leases."""
    owner, held = ledger.holding(numbers)
    artifacts = (Artifact("f", "k", "0" * 64, 1),) if files else ()
    result = {} if segments < 0 else {"segments": segments}
    return await ledger.store.worker.complete(
        owner, [Completion(lease, result, artifacts) for lease in held], request_id="walk"
    )


async def fail(ledger: Ledger, numbers: list[int], after_s: float | None, *, retryable: bool) -> Any:
    """Fail leases."""
    owner, held = ledger.holding(numbers)
    reports = [Failure(lease, "boom", retryable, after_s) for lease in held]
    return await ledger.store.worker.fail(owner, reports)


async def pass_on(ledger: Ledger, numbers: list[int], worker_id: str) -> Any:
    """A failure after which another worker takes what is ready at once and finishes it."""
    owner, held = ledger.holding(numbers)
    reports = [Failure(lease, "boom", retryable=True, after_s=0.0) for lease in held]
    failed = await ledger.store.worker.fail(owner, reports)
    await ledger.store.recovery.wake()
    leases = await ask(ledger, ledger.world.request(worker_id, 5, defer_s=0.0))
    finished = [Completion(lease.held, {"segments": 1}) for lease in leases]
    return failed, leases, await ledger.store.worker.complete(worker_id, finished)


async def release(ledger: Ledger, numbers: list[int]) -> Any:
    """Release leases."""
    owner, held = ledger.holding(numbers)
    return await ledger.store.worker.release(owner, held)


async def steal(ledger: Ledger, numbers: list[int]) -> Any:
    """Complete somebody else's lease."""
    _, held = ledger.holding(numbers)
    return await ledger.store.worker.complete("w4", [Completion(lease, {"segments": 1}) for lease in held])


async def expire(ledger: Ledger) -> Any:
    """Take back what is overdue."""
    return len(await ledger.store.recovery.expire())


async def wake(ledger: Ledger) -> Any:
    """Wake retries."""
    return len(await ledger.store.recovery.wake())


async def advance(ledger: Ledger, numbers: list[int], limit: int) -> Any:
    """One pass of the orchestrator; of several jobs it is not said whose tasks a small limit takes first."""
    chosen = numbers if limit >= LIMIT_LARGE else numbers[:1]
    return await ledger.store.orchestrator.advance([ledger.jobs[n] for n in chosen], limit=limit)


async def cancel(ledger: Ledger, numbers: list[int]) -> Any:
    """Cancel one or two jobs."""
    return sorted(await ledger.store.operator.cancel([ledger.jobs[n] for n in numbers[:2]]))


async def set_control(ledger: Ledger, number: int, control: Any, version: int | None) -> Any:
    """Pause, resume or skip a job."""
    return await ledger.store.operator.set_control([ledger.jobs[number]], control, version=version)


async def set_task_control(ledger: Ledger, number: int, place: int, control: Any) -> Any:
    """Pause, resume or skip a task."""
    tasks = await ledger.store.read.tasks(ledger.jobs[number])
    chosen = tasks[place % len(tasks)].id if tasks else 10**9
    return len(await ledger.store.operator.set_task_control([chosen], control, reason="walk"))


async def set_priority(ledger: Ledger, number: int, priority: int) -> Any:
    """Change a job's priority."""
    return await ledger.store.operator.set_priority([ledger.jobs[number]], priority)


async def register(ledger: Ledger, worker_id: str, slots: int) -> Any:
    """Register, perhaps again with other slots."""
    able = ("gpu",) if worker_id == "gpu" else ()
    return await ledger.world.add_worker(worker_id, slots, capabilities=able)


async def change_worker(ledger: Ledger, worker_id: str, change: str) -> Any:
    """Heartbeat, leave, drain, disable or enable."""
    facade: Any = ledger.store.operator if hasattr(ledger.store.operator, change) else ledger.store.worker
    return await getattr(facade, change)([worker_id])


async def lose_workers(ledger: Ledger, threshold_s: float) -> Any:
    """Mark the silent ones offline."""
    return await ledger.store.recovery.lose_workers(threshold_s)


async def quarantine(ledger: Ledger, budget: int, window_s: float) -> Any:
    """Look who fails what others finish."""
    return await ledger.store.recovery.quarantine(ErrorBudget(budget, window_s))


async def archive(ledger: Ledger, older_than_s: float) -> Any:
    """Archive old jobs."""
    return sorted(await ledger.store.recovery.archive(older_than_s))


async def take_messages(ledger: Ledger) -> Any:
    """Take all messages to send; those written in one step have no order among them."""
    messages = sorted(await ledger.store.recovery.take_messages(limit=1000), key=lambda m: m.subject)
    ledger.messages += messages
    return messages


async def end_messages(ledger: Ledger, number: int, end: str) -> Any:
    """Deliver, retry or park a message that was taken before."""
    messages, recovery = [ledger.messages[number]], ledger.store.recovery
    if end == "deliver":
        return len(await recovery.deliver(messages))
    if end == "park":
        return len(await recovery.park(messages, "gone"))
    return len(await recovery.retry_messages(messages, "later", 5.0))


async def tick(ledger: Ledger, seconds: float) -> Any:
    """Let time pass; both sides share one clock, so only the first moves it."""
    if ledger.world.keeps_time:
        ledger.world.advance(seconds)


Run = Callable[..., Awaitable[Any]]

COMMANDS: dict[str, Run] = {
    run.__name__: run
    for run in (
        submit, claim, claim_again, renew, complete, fail, pass_on, release, steal, expire, wake, advance,
        cancel, set_control, set_task_control, set_priority, register, change_worker, lose_workers,
        quarantine, archive, take_messages, end_messages, tick,
    )
}  # fmt: skip

WEIGHTS = {
    "claim": 18, "complete": 16, "advance": 12, "tick": 8, "submit": 7, "fail": 5, "release": 3, "renew": 3,
    "expire": 3, "wake": 3, "change_worker": 3, "claim_again": 2, "set_task_control": 2, "take_messages": 2,
    "pass_on": 7, "quarantine": 4,
}  # fmt: skip
"""How often a command comes; 1 if it is not listed."""


def choose(rng: random.Random, ledger: Ledger) -> Command:
    """The next command; what it speaks of has come up before."""
    if len(ledger.registered) < len(WORKERS) - 1:
        worker_id = WORKERS[len(ledger.registered)]
        ledger.registered.add(worker_id)
        return Command("register", {"worker_id": worker_id, "slots": rng.randint(2, 3)})
    names = list(COMMANDS)
    while True:
        name = rng.choices(names, [WEIGHTS.get(n, 1) for n in names])[0]
        arguments = draw(rng, name, ledger)
        if arguments is not None:
            return Command(name, arguments)


def draw(rng: random.Random, name: str, ledger: Ledger) -> dict[str, Any] | None:
    """Arguments for this command, or None if there is nothing it could be about."""
    options = DRAWS[name](rng) if name in DRAWS else {}
    counts = {
        **dict.fromkeys(("renew", "complete", "fail", "pass_on", "release", "steal"), len(ledger.leases)),
        **dict.fromkeys(("advance", "cancel", "set_control"), len(ledger.jobs)),
        **dict.fromkeys(("set_task_control", "set_priority"), len(ledger.jobs)),
        "claim_again": len(ledger.requests),
        "end_messages": len(ledger.messages),
    }
    if name not in counts:
        return options
    count = counts[name]
    if not count:
        return None
    if name.startswith("set_") or name in ("claim_again", "end_messages"):
        return {"number": rng.randrange(count), **options}
    oldest = max(0, count - 6) if rng.random() < 0.8 else 0
    numbers = [rng.randrange(oldest, count) for _ in range(rng.randint(1, 4))]
    return {"numbers": numbers, **options}


CONTROLS = ("READY", "READY", "PAUSED", "SKIP")
DRAWS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "submit": lambda rng: {
        "pipeline": rng.randrange(3),
        "after_s": rng.choice([None, None, None, 20.0]),
        "count": rng.choice([1, 1, 2]),
        "priority": rng.choice([0, 5, 5, 10]),
        "subject": rng.choice([None, None, None, "s1", "s2"]),
        "idempotency_key": rng.choice([None, None, None, None, "k1", "k2"]),
        "spec": rng.choice([{}, {}, {"a": 1}]),
        "control": rng.choice(["READY", "READY", "READY", "PAUSED"]),
    },
    "claim": lambda rng: {
        "worker_id": rng.choice(WORKERS),
        "limit": rng.choice([1, 1, 2, 5]),
        "defer_s": rng.choice([0.0, 30.0, 60.0]),
    },
    "renew": lambda rng: {"percent": rng.choice([None, 10.0, 250.0]), "note": rng.choice([None, "note"])},
    "complete": lambda rng: {"segments": rng.choice([-1, 0, 1, 2, 3]), "files": rng.random() < 0.3},
    "fail": lambda rng: {"after_s": rng.choice([None, 0.0, 40.0]), "retryable": rng.random() < 0.7},
    "pass_on": lambda rng: {"worker_id": rng.choice(WORKERS)},
    "advance": lambda rng: {"limit": rng.choice([1, 2, LIMIT_LARGE, LIMIT_LARGE])},
    "set_control": lambda rng: {"control": rng.choice(CONTROLS), "version": rng.choice([None, None, 2])},
    "set_task_control": lambda rng: {"control": rng.choice(CONTROLS), "place": rng.randrange(6)},
    "set_priority": lambda rng: {"priority": rng.choice([0, 3, 10])},
    "register": lambda rng: {"worker_id": rng.choice(WORKERS), "slots": rng.randint(1, 3)},
    "change_worker": lambda rng: {
        "worker_id": rng.choice(WORKERS),
        "change": rng.choice(["heartbeat", "heartbeat", "leave", "drain", "disable", "enable", "enable"]),
    },
    "lose_workers": lambda rng: {"threshold_s": rng.choice([60.0, 300.0])},
    "quarantine": lambda rng: {
        "budget": rng.choice([1, 1, 1, 2]),
        "window_s": rng.choice([60.0, 600.0, 600.0]),
    },
    "archive": lambda rng: {"older_than_s": rng.choice([0.0, 100.0])},
    "end_messages": lambda rng: {"end": rng.choice(["deliver", "retry", "park"])},
    "tick": lambda rng: {"seconds": rng.choice(TICKS)},
}
