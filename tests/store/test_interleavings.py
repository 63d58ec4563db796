"""Every pair of operations on one job, the second run after every statement of the first.

Whatever the schedule, the rows end as if one had followed the other, and the log tells the same story. What
only looks for work (claim, expire, advance) may pass by a locked row, so it is run once more at the end.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest

from takeup.core.model import Artifact, Completion, Failure, Held, Progress
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.core.policy import RetryPolicy
from takeup.store.op import Op
from takeup.store.ops import claim, operate, orchestrate, recover, report
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store
from tests.store.scenes import Clock, Dump, add_worker, claim_request, faults_of
from tests.store.stepping import Stepper, blocked_or_done, interleave

LATER_S = 61
"""Recovery looks after the lease is over; its holder's clock is still before that."""

WATCHED = ("jobs", "job_stages", "tasks", "artifacts", "audit", "outbox")
SAVED = (*WATCHED, "claims", "workers", "worker_lanes")

MIXED = Pipeline.of(
    "mixed",
    [
        Stage("cut", phase="planning", lease_s=60.0),
        Stage("side", phase="planning", lease_s=60.0),
        Stage("encode", needs=("cut",), each="segment", lease_s=60.0),
        Stage("join", needs=("encode", "side"), phase="uploading_outputs", lease_s=60.0),
    ],
)
LAST = Pipeline.of("last", [Stage("work", lease_s=60.0, retry=RetryPolicy("none"))])


@dataclass
class Scene:
    """A database whose rows can be put back, two connections to race on, and who holds what."""

    watcher: asyncpg.Connection
    sides: list[asyncpg.Connection]
    job_id: str = ""
    held: Held = field(default_factory=lambda: Held(0, claim.Token(0, "")))
    alone: bool = False
    clock: Clock = field(default_factory=Clock)
    later: Clock = field(default_factory=Clock)

    def make(self, name: str, side: int) -> Stepper:
        clock = self.later if name == "expire" else self.clock
        return Stepper(self.sides[side], lambda: OPERATIONS[name](self, side), clock, alone=self.alone)

    async def run(self, *steps: tuple[str, int]) -> list[Any]:
        return [await self.make(name, side).finish() for name, side in steps]

    async def restore(self) -> None:
        await self.watcher.execute(RESTORE)

    async def rows(self) -> Dump:
        return {t: [dict(row) for row in await self.watcher.fetch(f"SELECT * FROM {t}")] for t in WATCHED}


OPERATIONS: dict[str, Callable[[Scene, int], Op[Any]]] = {
    "claim": lambda _, side: claim.claim(ClaimRequest(f"w{2 + side}", f"r{side}", f"{side}" * 32, 2)),
    "claim one": lambda _, side: claim.claim(ClaimRequest(f"w{2 + side}", f"r{side}", f"{side}" * 32)),
    "renew": lambda s, _: report.renew("w1", [Progress(s.held, 50.0, "half")]),
    "complete": lambda s, _: report.complete("w1", [Completion(s.held, {"segments": 2}, (FILE,))]),
    "fail": lambda s, _: report.fail("w1", [Failure(s.held, "boom")], luck=lambda: 0.0),
    "release": lambda s, _: report.release("w1", [s.held]),
    "expire": lambda _s, _: recover.expire(10),
    "cancel": lambda s, _: operate.cancel([s.job_id]),
    "skip": lambda s, _: operate.set_control([s.job_id], "SKIP"),
    "pause": lambda s, _: operate.set_control([s.job_id], "PAUSED"),
    "priority": lambda s, _: operate.set_priority([s.job_id], 9),
    "advance": lambda s, _: orchestrate.advance([s.job_id], 1000),
}
SEARCHES = ("claim", "claim one", "expire", "advance")
CANCELS = ("abandon", "cancel")
"""What a cancel could not see yet is abandoned by the next pass: the same end by another hand."""

FILE = Artifact("video.mp4", "objects/1", "0" * 64, 5)

SAVE = ";".join(f"CREATE TABLE saved_{t} AS SELECT * FROM {t}" for t in SAVED)
RESTORE = ";".join(
    [
        "SET session_replication_role = replica",  # past the guards: a test may turn time back
        *(f"DELETE FROM {t}" for t in SAVED),
        *(f"INSERT INTO {t} SELECT * FROM saved_{t}" for t in SAVED),
        "SET session_replication_role = origin",
    ]
)


async def start_running(store: Store) -> tuple[str, Held]:
    """`cut` is held, `side` is ready."""
    (job_id,) = await store.operator.submit([NewJob(MIXED)])
    (lease,) = await store.worker.claim(claim_request("w1"))
    assert lease.stage == "cut"
    return job_id, lease.held


async def start_split(store: Store) -> tuple[str, Held]:
    """`cut` is done but not split by yet, `side` is held."""
    job_id, held = await start_running(store)
    (lease,) = await store.worker.claim(claim_request("w1"))
    await store.worker.complete("w1", [Completion(held, {"segments": 2})])
    return job_id, lease.held


async def start_last_alone(store: Store) -> tuple[str, Held]:
    """The same without PgBouncer."""
    return await start_last(store)


async def start_last(store: Store) -> tuple[str, Held]:
    """The only task is held in its only attempt, so every ending closes the job."""
    (job_id,) = await store.operator.submit([NewJob(LAST)])
    (lease,) = await store.worker.claim(claim_request("w1"))
    return job_id, lease.held


@pytest.fixture
async def scene(postgres_url) -> AsyncIterator[Scene]:
    connections = [await asyncpg.connect(postgres_url) for _ in range(4)]
    for connection in connections:
        await connection.execute("SET deadlock_timeout = '20ms'; SET lock_timeout = '2s'")
    found = Scene(connections[0], connections[1:])
    found.later.pass_s(LATER_S)
    yield found
    for connection in connections:
        await connection.close()


async def begin(scene: Scene, url: str, start) -> None:
    store = await Store.open(url, clock=scene.clock)
    for worker_id in ("w1", "w2", "w3"):
        await add_worker(store, worker_id, slots=2)
    scene.job_id, scene.held = await start(store)
    await store.close()
    await scene.watcher.execute(SAVE)


async def outcome(scene: Scene, pair: list[str], answers: list[Any]) -> tuple[Any, ...]:
    """What a caller and a reader can tell of a schedule, once all searches had their second look."""
    for name in ("claim", "expire"):
        await scene.run(*((name, side) for side in (0, 1) if pair[side] == name))
    await scene.run(("advance", 0))
    rows = await scene.rows()
    assert faults_of(rows) == []
    ends = [e for e in rows["audit"] if e["task_id"] == scene.held.task_id and e["epoch"] == 1]
    assert sum(e["from_status"] == "RUNNING" != e["to_status"] for e in ends) <= 1, "one ending for one token"
    told = [None if name in SEARCHES else answer for name, answer in zip(pair, answers, strict=True)]
    return repr(told), story(rows)


def story(rows: Dump) -> list[tuple[str, str]]:
    """The rows without what depends on chance: numbers drawn from sequences and the order between rows."""
    names = {row["id"]: f"{row['stage']}/{row['segment']}" for row in rows["tasks"]}
    log: Counter[tuple[str, str]] = Counter()
    told = []
    for entry in sorted(rows["audit"], key=lambda entry: entry["seq"]):
        who = entry["noun"], names.get(entry["task_id"], "")
        log[who] += 1
        alike = {"event": "cancel", "actor": None, "reason": None} if entry["event"] in CANCELS else {}
        told.append((f"log {' '.join(who)} {log[who]}", {**entry, "task_id": None, "seq": None, **alike}))
    told += [(f"task {names[row['id']]}", {**row, "id": None}) for row in rows["tasks"]]
    told += [(f"job {row['id']}", row) for row in rows["jobs"]]
    told += [(f"stage {row['stage']}", row) for row in rows["job_stages"]]
    told += [(f"artifact {row['name']}", row) for row in rows["artifacts"]]
    told += [(f"message {row['topic']}", {**row, "id": None}) for row in rows["outbox"]]
    return sorted((f"{what}: {column}", repr(cell)) for what, row in told for column, cell in row.items())


async def serial_outcomes(scene: Scene, pair: list[str]) -> list[tuple[Any, ...]]:
    found = []
    for order in ((0, 1), (1, 0)):
        await scene.restore()
        answers = await scene.run(*((pair[side], side) for side in order))
        found.append(await outcome(scene, pair, answers if order == (0, 1) else answers[::-1]))
    return found


ENDINGS = ("complete", "fail", "release", "expire", "cancel", "skip", "advance")
CHANGES = ("cancel", "skip", "pause", "priority", "advance")
PAIRS = {
    start_running: [(a, b) for a in OPERATIONS for b in OPERATIONS if not {"pause", "priority"} & {a, b}],
    start_split: [(a, b) for a in CHANGES for b in ("complete", "expire", *CHANGES)],
    start_last: [(a, b) for a in ENDINGS for b in ENDINGS],
    start_last_alone: [(a, b) for a in ("complete", "fail", "release", "expire") for b in ENDINGS],
}


@pytest.mark.parametrize(
    ("start", "first"),
    [(start, a) for start, pairs in PAIRS.items() for a in dict.fromkeys(a for a, _ in pairs)],
)
async def test_a_pair_ends_as_if_one_had_followed_the_other(scene, postgres_url, start, first):
    await begin(scene, postgres_url, start)
    scene.alone = start is start_last_alone
    wrong = []
    for pair in ([a, b] for a, b in PAIRS[start] if a == first):
        second = pair[1]
        allowed = await serial_outcomes(scene, pair)
        for count in range(1, 100):
            await scene.restore()
            answers = await interleave(scene.make(first, 0), scene.make(second, 1), count, scene.watcher)
            if not answers:
                break
            try:
                found = await outcome(scene, pair, answers)
            except AssertionError as error:
                wrong.append(f"{first} stopped after {count}, then {second}: {error}")
                continue
            if found not in allowed:
                wrong.append(f"{first} stopped after {count}, then {second}: {difference(found, allowed)}")
    assert not wrong, "\n".join(wrong)


def difference(found: tuple[Any, ...], allowed: list[tuple[Any, ...]]) -> str:
    """Where a schedule differs from the serial order that is nearest to it."""
    mine = {("answers", found[0]), *found[1]}
    orders = [{("answers", each[0]), *each[1]} for each in allowed]
    nearest = min(orders, key=lambda lines: len(lines ^ mine))
    return f"only here: {sorted(mine - nearest)}; only in a serial order: {sorted(nearest - mine)}"


async def test_a_cancel_that_closes_a_job_leaves_no_new_segments(scene, postgres_url):
    """Three parties: the splitter completes while the cancel runs, and an orchestrator splits at once."""
    await begin(scene, postgres_url, start_running)
    wrong = []
    for before in range(1, 10):
        for after in range(10 - before):
            await scene.restore()
            cancel, advance = scene.make("cancel", 0), scene.make("advance", 1)
            if await cancel.run_to(before):
                completion = asyncio.create_task(scene.make("complete", 2).finish())
                await blocked_or_done(completion, scene.sides[2], scene.watcher)
                await cancel.run_to(after)
                splitting = asyncio.create_task(advance.finish())
                await blocked_or_done(splitting, scene.sides[1], scene.watcher)
                await asyncio.gather(cancel.finish(), splitting, completion)
                await scene.run(("advance", 0))
                wrong += [f"{before}+{after}: {fault}" for fault in faults_of(await scene.rows())]
            else:
                await cancel.finish()
    assert not wrong, "\n".join(wrong)
