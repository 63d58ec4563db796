"""Workers: enrol, register, heartbeat, drain, leave, be lost, be disabled; and which lanes each may serve."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from takeup.core.access import Scope
from takeup.core.errors import AlreadyStarted, InvalidInput, NotFound, WorkerRefused
from takeup.core.ids import canonical_json
from takeup.core.keys import Key
from takeup.core.machine import TASK, WORKER, Actor
from takeup.core.model import WorkerSpec
from takeup.core.pipeline import NAME
from takeup.core.plan import LanePlan
from takeup.store.op import Op, Row, Rows, query
from takeup.store.ops import keys
from takeup.store.ops.moves import clip, log_tasks

SLOTS_MAX = 1000
STAGE = re.compile(r"(\*|[a-z][a-z0-9_.-]*/(\*|[a-z][a-z0-9_.-]*))\Z")
ID_CHARS_MAX = 200
PROCESSES_MAX = 8


def register(spec: WorkerSpec) -> Op[None]:
    """Make the worker known and active; a disabled one is refused until an operator enables it."""
    check_spec(spec)
    cut = yield query("cut_leases", worker_id=spec.id)
    rows = yield query("workers_for_change", g=[(spec.id,)])
    if rows and rows[0]["disabled"]:
        raise WorkerRefused(f"worker {spec.id} is disabled")
    known = rows[0]["processes"] if rows else None
    processes = processes_of(spec, json.loads(known or "[]"))
    yield query(
        "register_again" if rows else "add_worker",
        **columns_of(spec),
        processes=canonical_json(processes),
    )
    if rows:
        yield query("drop_worker_lanes", worker_id=spec.id)
    lanes = yield from _all_lanes()
    me = {
        "id": spec.id,
        "capabilities": json.dumps(sorted(spec.capabilities)),
        "stages": json.dumps(list(spec.stages)),
    }
    yield from add_lanes_of([me], lanes)
    yield from _log("register", [(spec.id, rows[0]["status"] if rows else None)])
    reason = "a newer process of the worker registered"
    entries = [(row["id"], "cut", "RUNNING", spec.id, row["nonce_hash"], reason) for row in cut]
    yield from log_tasks(TASK.move("cut").actor, entries, None)


def enrol(spec: WorkerSpec, key: Key, scopes: frozenset[Scope]) -> Op[None]:
    """Make a worker known with the key of its processes, none of which has begun; both or neither."""
    check_spec(spec)
    yield query("enrol_worker", **columns_of(spec))
    entry = (spec.id, "enrol", None, None)
    yield query("log_workers", g=[entry], actor=Actor.OPERATOR.value, request_id=None)
    yield from keys.add(key, name=spec.name or spec.id, scopes=scopes, worker_id=spec.id)


def columns_of(spec: WorkerSpec) -> dict[str, Any]:
    """What a worker says of itself, as it is stored."""
    return {
        "worker_id": spec.id,
        "name": spec.name,
        "kind": spec.kind,
        "slots": spec.slots,
        "capabilities": canonical_json(sorted(spec.capabilities)),
        "stages": canonical_json(list(spec.stages)),
        "metadata": canonical_json(dict(spec.metadata), what="metadata"),
    }


def processes_of(spec: WorkerSpec, known: Sequence[str]) -> list[str]:
    """Which processes of a worker began, the latest first; one that is known is refused."""
    if not spec.process:
        return []
    if spec.process in known:
        raise AlreadyStarted(
            f"this process of worker {spec.id} registered before", is_latest=spec.process == known[0]
        )
    return [spec.process, *known][:PROCESSES_MAX]


def check_spec(spec: WorkerSpec) -> None:
    """Refuse a worker that could not be scheduled."""
    if not spec.id or len(spec.id) > ID_CHARS_MAX or not spec.id.isprintable():
        raise InvalidInput(f"a worker's id must be printable text of 1 to {ID_CHARS_MAX} characters")
    if len(spec.name) > ID_CHARS_MAX or not spec.name.isprintable():
        raise InvalidInput(f"a worker's name must be printable text of at most {ID_CHARS_MAX} characters")
    for capability in spec.capabilities:
        if not NAME.match(capability):
            raise InvalidInput(f"capability {capability!r} must match {NAME.pattern}")
    for stage in spec.stages:
        if not STAGE.match(stage):
            raise InvalidInput(f"{stage!r} names no stage: write *, PIPELINE/* or PIPELINE/STAGE")
    if not 1 <= spec.slots <= SLOTS_MAX:
        raise InvalidInput(f"slots {spec.slots} is not within 1 to {SLOTS_MAX}")
    if spec.kind not in ("local", "remote"):
        raise InvalidInput(f"worker kind {spec.kind!r} is not local or remote")
    if not spec.stages:
        raise InvalidInput("a worker must name the stages it can run, or '*'")


def heartbeat(worker_ids: Sequence[str]) -> Op[dict[str, str]]:
    """Note that these workers live; one that was offline is active again. Answers with their statuses."""
    before = yield query("workers_for_change", g=[(worker_id,) for worker_id in worker_ids])
    after = yield query("beat_workers", g=[(worker_id,) for worker_id in worker_ids])
    statuses = {row["id"]: row["status"] for row in after}
    for row in before:
        if row["disabled"]:
            statuses[row["id"]] = "disabled"
        elif row["quarantined_at"] is not None and statuses.get(row["id"]) == "active":
            statuses[row["id"]] = "quarantined"
    revived = [
        (row["id"], row["status"]) for row in before if row["status"] == "offline" and not row["disabled"]
    ]
    yield from _log("revive", revived)
    yield from _mend_lanes(before)
    return statuses


def drain(worker_ids: Sequence[str]) -> Op[list[str]]:
    """Give these workers nothing new; they finish what they hold."""
    return (yield from _move("drain", worker_ids))


def leave(worker_ids: Sequence[str]) -> Op[list[str]]:
    """A worker's own good-bye."""
    return (yield from _move("leave", worker_ids))


def lose(threshold_s: float, limit_count: int) -> Op[list[str]]:
    """Mark workers offline whose heartbeat is older than the threshold; their leases are not touched."""
    silent = yield query("silent_workers", threshold_s=threshold_s, limit_count=limit_count)
    if not silent:
        return []
    lost = yield query("lose_workers", g=[(row["id"],) for row in silent], threshold_s=threshold_s)
    ids = {row["id"] for row in lost}
    yield from _log("lose", [(row["id"], row["status"]) for row in silent if row["id"] in ids])
    return sorted(ids)


def set_disabled(worker_ids: Sequence[str], *, disabled: bool, reason: str | None = None) -> Op[None]:
    """Switch a worker off or on; off, it can claim, renew and heartbeat nothing and its leases run out.

    On, it is out of quarantine too.
    """
    rows = yield query("workers_for_change", g=[(worker_id,) for worker_id in worker_ids])
    _all_there(worker_ids, rows)
    event = "disable" if disabled else "enable"
    yield query(f"{event}_workers", g=[(worker_id,) for worker_id in worker_ids])
    yield query(
        "log_workers",
        g=[(row["id"], event, row["status"], clip(reason)) for row in rows],
        actor=Actor.OPERATOR.value,
        request_id=None,
    )


def add_lanes_of(workers: Sequence[Row], lanes: Mapping[int, LanePlan]) -> Op[None]:
    """Assign every worker to those of the lanes that it fits."""
    fits = [
        (worker["id"], lane_id, lane.suits(able))
        for worker in workers
        for able in [frozenset(json.loads(worker["capabilities"]))]
        for lane_id, lane in sorted(lanes.items())
        if lane.fits(able, json.loads(worker["stages"]))
    ]
    if fits:
        yield query("add_worker_lanes", g=fits)


def _mend_lanes(workers: Rows) -> Op[None]:
    """Assign lanes that were made at the very moment a worker registered, so that neither saw the other."""
    lanes = yield from _all_lanes()
    served = yield query("lanes_of_workers", g=[(row["id"],) for row in workers])
    seen = {(row["worker_id"], row["lane_id"]) for row in served}
    for worker in workers:
        missing = {i: lane for i, lane in lanes.items() if (worker["id"], i) not in seen}
        yield from add_lanes_of([worker], missing)


def _all_lanes() -> Op[dict[int, LanePlan]]:
    rows = yield query("all_lanes")
    return {
        row["id"]: LanePlan(row["pipeline"], row["stage"], tuple(json.loads(row["requires"])), row["prefers"])
        for row in rows
    }


def _move(name: str, worker_ids: Sequence[str]) -> Op[list[str]]:
    move = WORKER.move(name)
    rows = yield query("workers_for_change", g=[(worker_id,) for worker_id in worker_ids])
    _all_there(worker_ids, rows)
    legal = [row for row in rows if row["status"] in move.sources]
    if not legal:
        return []
    moved = yield query("set_worker_status", g=[(row["id"], row["status"], move.target) for row in legal])
    ids = {row["id"] for row in moved}
    yield from _log(name, [(row["id"], row["status"]) for row in legal if row["id"] in ids])
    return sorted(ids)


def _log(event: str, workers: Sequence[tuple[str, str | None]]) -> Op[None]:
    if workers:
        yield query(
            "log_workers",
            g=[(worker_id, event, status, None) for worker_id, status in workers],
            actor=WORKER.move(event).actor.value,
            request_id=None,
        )


def _all_there(worker_ids: Sequence[str], rows: Rows) -> None:
    missing = sorted(set(worker_ids) - {row["id"] for row in rows})
    if missing:
        raise NotFound(f"no worker has the id {missing[0]!r}")
