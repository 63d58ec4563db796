"""Keys on every database: only hashes are kept, and what was ended stays ended."""

import pytest

from takeup.core.access import Scope
from takeup.core.errors import InvalidInput, NotFound, StoreError
from takeup.core.keys import parse_key
from takeup.core.model import WorkerSpec
from takeup.history.live import verify
from takeup.store.keys import KeyStore
from takeup.store.ops.keys import KEYS_A_WORKER_MAX
from takeup.store.store import Store
from tests.store.scenes import Clock

READ: frozenset[Scope] = frozenset({"read"})


@pytest.fixture
def store(every_store: Store) -> Store:
    return every_store


async def test_a_key_is_found_until_it_is_revoked(store: Store):
    key = await store.keys.add("mine", READ)
    assert parse_key(key.text) == key
    found = await store.keys.find(key)
    assert found
    assert (found.key.id, found.key.name, found.key.scopes, found.is_over) == (key.id, "mine", READ, False)
    assert await store.keys.find(key._replace(secret=key.secret[::-1])) is None
    assert await store.keys.find(key._replace(kind="wrk")) is None
    assert (await store.keys.revoke(key.id), await store.keys.revoke(key.id)) == (True, False)
    ended = await store.keys.find(key)
    assert ended
    assert ended.is_over
    with pytest.raises(NotFound, match="no key has the id"):
        await store.keys.revoke("0" * 12)


async def test_a_key_expires_and_never_later_than_before(store: Store, clock: Clock):
    key = await store.keys.add("short", READ, life_days=1)
    assert not await store.keys.expire(key.id, after_s=2 * 86_400)
    assert await store.keys.expire(key.id, after_s=3600)
    for seconds, is_over in ((3599, False), (2, True)):
        clock.pass_s(seconds)
        found = await store.keys.find(key)
        assert found
        assert found.is_over is is_over


async def test_keys_of_a_worker(store: Store):
    await store.worker.register(WorkerSpec("w"))
    worker: frozenset[Scope] = frozenset({"worker"})
    key = await store.keys.add("first", worker, worker_id="w")
    assert key.kind == "wrk"
    await store.operator.disable(["w"])
    found = await store.keys.find(key)
    assert found
    assert (found.key.worker_id, found.is_disabled) == ("w", True)
    for number in range(KEYS_A_WORKER_MAX):
        assert await store.keys.revoke((await store.keys.add(f"key {number}", worker, worker_id="w")).id)
    for number in range(KEYS_A_WORKER_MAX - 1):
        await store.keys.add(f"more {number}", worker, worker_id="w")
    with pytest.raises(InvalidInput, match="20 keys already"):
        await store.keys.add("one too many", worker, worker_id="w")
    with pytest.raises(NotFound, match="no worker"):
        await store.keys.add("x", worker, worker_id="nobody")
    with pytest.raises(NotFound):
        await store.keys.revoke(key.id, worker_id="other")


async def test_keys_are_listed_and_their_use_is_noted(store: Store, clock: Clock):
    ids = sorted([(await store.keys.add(f"key {n}", READ)).id for n in range(3)])
    assert [key.id for key in await store.keys.list(limit=2)] == ids[:2]
    assert [key.id for key in await store.keys.list(after=ids[1])] == ids[2:]
    await store.keys.note_use(ids[:1])
    used, other, _ = await store.keys.list()
    assert (used.last_used_at, other.last_used_at) == (clock.now(), None)


@pytest.mark.parametrize(
    ("name", "scopes", "days"),
    [
        ("", READ, None),
        ("x" * 201, READ, None),
        ("x", frozenset(), None),
        ("x", {"root"}, None),
        ("x", READ, 0),
    ],
)
async def test_what_cannot_be_a_key_is_refused(store: Store, name: str, scopes, days: float | None):
    with pytest.raises(InvalidInput):
        await store.keys.add(name, frozenset(scopes), life_days=days)
    assert await store.keys.list() == []


async def test_a_worker_is_made_known_with_its_key(store: Store):
    key = await store.keys.enrol(WorkerSpec("afar", "attic", "remote"))
    found = await store.keys.find(key)
    assert found
    assert (found.key.worker_id, found.key.name, found.key.scopes) == ("afar", "attic", {"worker"})
    worker = await store.read.worker("afar")
    assert (worker.status, worker.incarnation, worker.last_heartbeat_at) == ("offline", 0, None)
    (event,) = await store.read.events()
    assert (event.event, event.actor, event.from_status, event.to_status) == (
        "enrol",
        "operator",
        None,
        "offline",
    )
    await store.worker.register(WorkerSpec("afar", "attic", "remote"))
    assert (await store.read.worker("afar")).incarnation == 1
    verdict = await store.driver.read(verify, store.driver.dialect.name)
    assert (verdict.events, verdict.violations) == (2, ())


async def test_without_its_key_no_worker_is_made_known(store: Store):
    same = KeyStore(store.driver, lambda size: b"k" * size)
    await same.enrol(WorkerSpec("first", "", "remote"))
    with pytest.raises(StoreError):
        await same.enrol(WorkerSpec("second", "", "remote"))
    assert [worker.id for worker in await store.read.workers()] == ["first"]


async def test_keys_end_with_their_worker(store: Store, clock: Clock):
    gone = await store.keys.enrol(WorkerSpec("gone", "", "remote"))
    clock.pass_s(60)
    fresh = await store.keys.enrol(WorkerSpec("fresh", "", "remote"))
    program = await store.keys.add("program", READ)
    clock.pass_s(60)
    assert await store.recovery.forget_workers(100.0) == ["gone"]
    for key, is_over in ((gone, True), (fresh, False), (program, False)):
        found = await store.keys.find(key)
        assert found
        assert found.is_over is is_over
