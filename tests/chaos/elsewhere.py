"""Workers elsewhere for storms: a pipeline, simulated workers of it, and what must hold in the end."""

import asyncio
import hashlib
import random
import secrets
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from takeup.core.errors import TakeupError
from takeup.core.model import Completion, Event, Lease, Progress, WorkerSpec
from takeup.engine.remote.client import Client
from takeup.engine.remote.source import HttpSource
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store
from takeup.testing.history import Settings, check, read_tables
from tests.chaos.logged import CallLog, LoggedSource, read_calls
from tests.chaos.verdict import events_of
from tests.cli.conftest import environment
from tests.serving import TAKEUP, WAIT_S

LEASE_S = 24.0
FILE = "flow.py"
MADE_BYTES = 300_000
FLOW = f"""import hashlib
import time
from pathlib import Path

from takeup import Pipeline

flow = Pipeline("flow", lease={LEASE_S})


@flow.stage()
def only(ctx):
    return {{}}


real = Pipeline("real", lease={LEASE_S})


@real.stage()
def make(ctx):
    one = hashlib.sha256(str(ctx.spec["n"]).encode()).digest()
    ctx.output("made.bin").write_bytes(one * {MADE_BYTES // 32})
    return {{}}


@real.stage(needs=[make])
def use(ctx):
    data = ctx.inputs["make"].path("made.bin").read_bytes()
    ctx.output("used.txt").write_text(hashlib.sha256(data).hexdigest())
    return {{}}


slow = Pipeline("slow", lease={LEASE_S})


@slow.stage()
def wait(ctx):
    while not Path(ctx.spec["gate"]).exists():
        time.sleep(0.05)
    return {{}}
"""
T = TypeVar("T")


def used(number: int) -> str:
    """What the second stage of `real` says of the file that the first one made."""
    made = hashlib.sha256(str(number).encode()).digest() * (MADE_BYTES // 32)
    return hashlib.sha256(made).hexdigest()


class Simulated:
    """Claims, tells progress, completes; whatever is not answered is sent again as it was."""

    def __init__(self, client: Client, worker_id: str, folder: Path, luck: random.Random) -> None:
        self._source = LoggedSource(HttpSource(client, wait_s=2.0), CallLog(folder, worker_id))
        self._id = worker_id
        self._luck = luck
        self.known: set[tuple[int, int]] = set()
        """Task and epoch of every lease that an answer brought."""
        self.done: Counter[int] = Counter()
        self.refused = 0
        self.answered_at = 0.0
        """When the server answered last, by the clock of the loop."""

    async def run(self) -> None:
        spec = WorkerSpec(self._id, slots=2, stages=("flow/only",))
        await self._surely(lambda: self._source.register(spec))
        while True:
            request = ClaimRequest(self._id, secrets.token_hex(8), secrets.token_hex(16), 2)
            leases = await self._surely(partial(self._source.claim, request))
            self.known |= {(lease.task_id, lease.token.epoch) for lease in leases}
            await asyncio.gather(*(self._work(lease) for lease in leases))

    async def _work(self, lease: Lease) -> None:
        for percent in (30.0, 60.0):
            await asyncio.sleep(self._luck.uniform(0, 0.2))
            report = [Progress(lease.held, percent)]
            await self._surely(partial(self._source.renew, self._id, report, request_id=secrets.token_hex(8)))
        end = [Completion(lease.held, {"by": self._id})]
        (answer,) = await self._surely(
            partial(self._source.complete, self._id, end, request_id=secrets.token_hex(8))
        )
        self.done[lease.task_id] += answer.accepted
        self.refused += not answer.accepted

    async def _surely(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                told = await call()
            except TakeupError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(self._luck.uniform(0.02, 0.2))
            else:
                self.answered_at = asyncio.get_running_loop().time()
                return told


async def judge(
    store: Store, folder: Path, url: str, fleet: Sequence[Simulated], real: Sequence[str]
) -> Counter[str]:
    """All is done, once, by the rules, and no lease was taken from who held it; answers with counts."""
    events = await events_of(store)
    await _no_rule_is_broken(store, folder, events, real)
    counts = Counter(event.event for event in events if event.noun == "task")
    tasks = {event.task_id for event in events if event.noun == "task"}
    assert counts["complete"] == len(tasks), counts
    # A claim that arrives again, late, may be granted what nobody hears of; what somebody heard of was kept.
    expired = {(event.task_id, event.epoch) for event in events if event.event in ("expire", "bury")}
    assert not expired & {lease for one in fleet for lease in one.known}
    assert not expired & {(event.task_id, event.epoch) for event in events if event.event == "renew"}
    assert sum((one.done for one in fleet), Counter()).total() <= counts["complete"]
    await asyncio.to_thread(verify, folder, url)
    return counts


async def _no_rule_is_broken(
    store: Store, folder: Path, events: Sequence[Event], real: Sequence[str]
) -> None:
    """Of real workers no calls were written down, so nobody is known to have asked for what they did."""
    unlogged = {event.request_id for event in events if event.worker_id in real}
    settings = Settings(recovery_s=0.5, slack_s=3.0, log_lag_s=6.0, margin_s=LEASE_S / 6, offline_s=300.0)
    tables = await store.driver.read(read_tables)
    violations = [
        one
        for one in check(events, read_calls(folder), tables, settings)
        if one.invariant != "I13" or not one.events or one.events[0].request_id not in unlogged
    ]
    assert violations == [], "\n".join(map(str, violations[:20]))


def verify(folder: Path, url: str) -> None:
    """`takeup verify`, as an operator runs it."""
    command = [*TAKEUP, "verify", "--database", url]
    ran = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


async def check_used(store: Store, storage: Path, jobs: dict[str, int]) -> None:
    """What real workers made of each other's files is what it must be; `jobs` says of which number."""
    for job_id, number in jobs.items():
        files = {one.name: storage / one.key for one in await store.read.artifacts(job_id)}
        assert (await asyncio.to_thread(files["used.txt"].read_text)) == used(number), job_id
