"""What cannot be used is refused before anything is written, as the caller's fault, and no row changes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from takeup.core.errors import (
    Conflict,
    IdempotencyMismatch,
    InvalidInput,
    InvalidPipeline,
    InvalidResult,
    InvalidSpec,
    NotFound,
    SubjectBusy,
    TakeupError,
    UnknownStage,
)
from takeup.core.ids import Token
from takeup.core.model import Artifact, Completion, Failure, Held, Lease, Progress, WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.core.policy import RetryPolicy
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.read import JobFilter
from takeup.store.store import Store
from tests.store.scenes import FAN, ONE, add_worker, claim_request, dump

NAN = float("nan")
HUGE = 2**70
FILE = Artifact("video.mp4", "objects/1", "0" * 64, 5)


@dataclass(frozen=True)
class Scene:
    """A store in which one job runs and another waits."""

    store: Store
    job_id: str
    lease: Lease

    async def submit(self, **options: Any) -> object:
        return await self.store.operator.submit([NewJob(ONE), NewJob(**{"pipeline": ONE, **options})])

    async def complete(self, **options: Any) -> object:
        return await self.store.worker.complete("w1", [Completion(self.lease.held, **options)])

    async def renew(self, percent: Any) -> object:
        return await self.store.worker.renew("w1", [Progress(self.lease.held, percent)])

    async def fail(self, after_s: Any) -> object:
        return await self.store.worker.fail("w1", [Failure(self.lease.held, "x", after_s=after_s)])

    async def register(self, **options: Any) -> None:
        await self.store.worker.register(WorkerSpec(**{"id": "w2", **options}))


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["in"] = value
    return value


Case = tuple[Callable[[Scene], Awaitable[object]], type[TakeupError]]

SPECS: dict[str, Any] = {
    "set": {1, 2},
    "bytes": b"{}",
    "text": "{}",
    "list": [],
    "none": None,
    "set within": {"a": {1, 2}},
    "bytes within": {"a": b"x"},
    "moment within": {"a": datetime(2030, 1, 1, tzinfo=UTC)},
    "nan": {"a": NAN},
    "infinity": {"a": [float("inf")]},
    "over 1 MB": {"a": "x" * 1_000_001},
    "over 1 MB of keys": {f"{i:07}": 0 for i in range(100_000)},
    "nested 10,000 deep": nested(10_000),
    "circular": circular(),
    "nul": {"a": "x\x00y"},
    "nul in a key": {"x\x00y": 1},
    "half a character": {"a": "\ud800"},
    "keys that cannot be compared": {1: 1, "a": 1},
    "a number of 5,000 digits": {"a": 10**5000},
}

JOBS: dict[str, tuple[dict[str, Any], type[TakeupError]]] = {
    **{f"spec: {name}": ({"spec": spec}, InvalidInput) for name, spec in SPECS.items()},
    **{f"priority {p!r}": ({"priority": p}, InvalidInput) for p in (11, -1, True, "5", 5.0, NAN, None)},
    "control RUN": ({"control": "RUN"}, InvalidInput),
    "control ready": ({"control": "ready"}, InvalidInput),
    "subject too long": ({"subject": "x" * 513}, InvalidInput),
    "user too long": ({"user_id": "x" * 513}, InvalidInput),
    "key too long": ({"idempotency_key": "x" * 513}, InvalidInput),
    "subject a number": ({"subject": 5}, InvalidInput),
    "subject busy": ({"subject": "running"}, SubjectBusy),
    "key with another body": ({"idempotency_key": "known", "spec": {"a": 2}}, IdempotencyMismatch),
    "key with another pipeline": ({"idempotency_key": "known", "pipeline": FAN}, IdempotencyMismatch),
    "no stages": ({"pipeline": Pipeline("empty")}, InvalidInput),
    "missing key field": ({"pipeline": Pipeline.of("keyed", [Stage("a")], key=["video"])}, InvalidInput),
    "not before, without zone": ({"not_before": datetime(2030, 1, 1)}, InvalidInput),  # noqa: DTZ001 - the fault
    "not before, text": ({"not_before": "2030-01-01"}, InvalidInput),
}

OTHERS: dict[str, Case] = {
    "set control RUN": (lambda s: s.store.operator.set_control([s.job_id], "RUN"), InvalidInput),
    "set task control RUN": (
        lambda s: s.store.operator.set_task_control([s.lease.task_id], "RUN"),
        InvalidInput,
    ),
    "set priority 11": (lambda s: s.store.operator.set_priority([s.job_id], 11), InvalidInput),
    "set priority of an old version": (
        lambda s: s.store.operator.set_priority([s.job_id], 1, version=99),
        Conflict,
    ),
    "cancel one known and one unknown job": (
        lambda s: s.store.operator.cancel([s.job_id, "job_x"]),
        NotFound,
    ),
    "pause one known and one unknown job": (
        lambda s: s.store.operator.set_control([s.job_id, "job_x"], "PAUSED"),
        NotFound,
    ),
    "skip one known and one unknown task": (
        lambda s: s.store.operator.set_task_control([s.lease.task_id, 999_999], "SKIP"),
        NotFound,
    ),
    "drain an unknown worker": (lambda s: s.store.operator.drain(["w1", "nobody"]), NotFound),
    "disable an unknown worker": (lambda s: s.store.operator.disable(["w1", "nobody"]), NotFound),
    "result not JSON": (lambda s: s.complete(result={"a": {1}}), InvalidSpec),
    "result a list": (lambda s: s.complete(result=[1]), InvalidInput),
    "result none": (lambda s: s.complete(result=None), InvalidInput),
    "result over 1 MB": (lambda s: s.complete(result={"a": "x" * 1_000_001}), InvalidSpec),
    "artifact named twice": (lambda s: s.complete(artifacts=(FILE, FILE)), InvalidInput),
    "artifact of negative size": (
        lambda s: s.complete(artifacts=(replace(FILE, size_bytes=-1),)),
        InvalidInput,
    ),
    "artifact of huge size": (
        lambda s: s.complete(artifacts=(replace(FILE, size_bytes=HUGE),)),
        InvalidInput,
    ),
    "progress nan": (lambda s: s.renew(NAN), InvalidInput),
    "progress text": (lambda s: s.renew("half"), InvalidInput),
    "back-off nan": (lambda s: s.fail(NAN), InvalidInput),
    "back-off for ever": (lambda s: s.fail(float("inf")), InvalidInput),
    "back-off of a million years": (lambda s: s.fail(3e13), InvalidInput),
    "worker without id": (lambda s: s.register(id=""), InvalidInput),
    "worker id too long": (lambda s: s.register(id="w" * 201), InvalidInput),
    "worker of kind cloud": (lambda s: s.register(kind="cloud"), InvalidInput),
    "worker without slots": (lambda s: s.register(slots=0), InvalidInput),
    "worker of huge slots": (lambda s: s.register(slots=HUGE), InvalidInput),
    "worker without stages": (lambda s: s.register(stages=()), InvalidInput),
    "worker metadata not JSON": (lambda s: s.register(metadata={"a": {1}}), InvalidInput),
    "task id of 70 bits": (lambda s: s.store.read.task(HUGE), TakeupError),
    "job id a number": (lambda s: s.store.read.job(5), TakeupError),
    "page of none": (lambda s: s.store.read.jobs(JobFilter(), limit=0), InvalidInput),
    "page of negative size": (lambda s: s.store.read.events(limit=-1), InvalidInput),
    "page of a million": (lambda s: s.store.read.tasks(s.job_id, limit=1_000_000), InvalidInput),
}

CASES: dict[str, Case] = {
    **{
        name: (lambda s, options=options: s.submit(**options), kind) for name, (options, kind) in JOBS.items()
    },
    **OTHERS,
}


async def scene_of(store: Store) -> Scene:
    await add_worker(store)
    (job_id,) = await store.operator.submit(
        [NewJob(ONE, {"a": 1}, subject="running", idempotency_key="known")]
    )
    (lease,) = await store.worker.claim(claim_request("w1"))
    await store.operator.submit([NewJob(FAN)])
    return Scene(store, job_id, lease)


async def fault_of(scene: Scene, url: str, case: Case) -> str | None:
    """What is wrong with how the store took this case; None if it refused it rightly."""
    call, kind = case
    before = await dump(url)
    try:
        answer = await call(scene)
    except TakeupError as error:
        fault = None if isinstance(error, kind) and error.http_status < 500 else f"{error!r}"
    except Exception as error:  # noqa: BLE001 - a driver's own error is the fault looked for
        fault = f"raw {error!r}"
    else:
        fault = f"accepted: {answer!r}"
    if await dump(url) != before:
        fault = f"{fault or 'refused'}, but rows changed"
    return fault


@pytest.mark.parametrize("name", CASES)
async def test_it_is_refused_on_sqlite(name, sqlite_url, clock):
    store = await Store.open(sqlite_url, clock=clock)
    assert await fault_of(await scene_of(store), sqlite_url, CASES[name]) is None
    await store.close()


async def test_all_are_refused_on_postgres(postgres_url, clock):
    store = await Store.open(postgres_url, clock=clock)
    scene = await scene_of(store)
    found = {name: await fault_of(scene, postgres_url, case) for name, case in CASES.items()}
    assert {name: fault for name, fault in found.items() if fault} == {}
    await store.close()


@pytest.mark.parametrize("lease_s", [-1, 0, 0.5, 86_401, NAN, "60", None])
def test_a_lease_that_cannot_be_kept(lease_s):
    with pytest.raises(InvalidInput, match="lease"):
        Pipeline.of("bad", [Stage("a", lease_s=lease_s)])


@pytest.mark.parametrize("lease", ["-1s", "0", "soon", "1w"])
def test_a_lease_in_words_that_cannot_be_kept(lease):
    with pytest.raises(InvalidInput):
        Pipeline("bad", lease=lease)


@pytest.mark.parametrize(
    "stages",
    [
        [Stage("a", needs=("b",)), Stage("b", needs=("a",))],
        [Stage("a", needs=("a",))],
        [Stage("a", needs=("missing",))],
        [Stage("a"), Stage("a")],
        [Stage("a", each="segment")],
        [Stage("a"), Stage("b"), Stage("c", needs=("a", "b"), each="segment")],
        [Stage("a", each="frame")],
        [Stage("a", phase="pending")],
        [Stage("a; DROP TABLE tasks")],
        [Stage("")],
        [Stage("a", requires=frozenset({"GPU!"}))],
        [Stage("a", stall_s=-1.0)],
    ],
)
def test_a_graph_that_cannot_run(stages):
    with pytest.raises(InvalidPipeline) as caught:
        Pipeline.of("bad", stages)
    assert caught.value.http_status == 422


def test_unknown_names_list_the_known_ones():
    with pytest.raises(UnknownStage, match="cut, encode, join"):
        FAN.get("upload")


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": -1}, {"limit": 1001}, {"secret": "short"}, {"secret": ""}]
)
def test_a_claim_without_bounds(options):
    with pytest.raises(InvalidInput):
        ClaimRequest(**{"worker_id": "w1", "request_id": "r", "secret": "s" * 32, **options})


@pytest.mark.parametrize(
    "options",
    [{"kind": "linear"}, {"max_attempts": 0}, {"initial_s": -1}, {"cap_s": NAN}, {"multiplier": 0.5}],
)
def test_a_retry_policy_that_cannot_be_kept(options):
    with pytest.raises(InvalidInput):
        RetryPolicy(**options)


async def test_a_result_that_cannot_be_split(store, url):
    await add_worker(store)
    await store.operator.submit([NewJob(FAN)])
    (lease,) = await store.worker.claim(claim_request("w1"))
    before = await dump(url)
    for result in ({}, {"segments": -1}, {"segments": True}, {"segments": [1]}, {"segments": "two"}):
        (answer,) = await store.worker.complete("w1", [Completion(lease.held, result)])
        assert not answer.accepted
        assert "segments" in str(answer.reason)
    assert await dump(url) == before
    assert issubclass(InvalidResult, InvalidInput)


async def test_a_forged_token_changes_nothing(store, url):
    scene = await scene_of(store)
    before = await dump(url)
    held = scene.lease.held
    forged = [
        Held(held.task_id, Token(1, "0" * 32)),
        Held(held.task_id, Token(2, held.token.nonce)),
        Held(held.task_id, Token(HUGE, held.token.nonce)),
        Held(held.task_id, Token(1, "'; DROP TABLE tasks; --")),
        Held(999_999, held.token),
        Held(HUGE, held.token),
    ]
    for each in forged:
        try:
            (answer,) = await store.worker.complete("w1", [Completion(each)])
        except InvalidInput:
            continue
        assert not answer.accepted
    assert await dump(url) == before
