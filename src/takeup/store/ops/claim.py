"""Taking work: the most urgent tasks that this worker may do, each under a new token.

The order is priority, then due time, then age. A worker serves the lanes it was assigned to; in a lane that
prefers others, it leaves the first tasks to their free slots until they have been ready for `defer_s`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from takeup.core.errors import InvalidInput
from takeup.core.ids import Token, lease_nonces, nonce_hash
from takeup.core.machine import JOB, PHASES, TASK
from takeup.core.model import Lease
from takeup.store.bookmarks import Bookmark, Bookmarks
from takeup.store.op import Op, Query, Row, Rows, is_whole, query
from takeup.store.ops.brief import brief_of
from takeup.store.ops.moves import log_tasks

CLAIM_MAX = 1000
SECRET_CHARS_MIN = 32
ID_CHARS_MAX = 200
DEFER_S_MAX = 3600.0
LEASE_COLUMNS = len(Lease._fields)
"""The statements answer with the fields of a lease in their order: epoch and nonce hash for its token, and
spec and subject for its brief if they come at no cost."""


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """One request for work; repeated with the same id and secret it is answered with the same leases."""

    worker_id: str
    request_id: str
    secret: str
    limit: int = 1
    defer_s: float = 60.0
    may_skim: bool = False
    """Whether a task may be overlooked for a moment if others after it in the order are ready as well."""

    def __post_init__(self) -> None:
        """Refuse a request without bounds."""
        if not 1 <= self.limit <= CLAIM_MAX:
            raise InvalidInput(f"a claim of {self.limit} tasks is not within 1 to {CLAIM_MAX}")
        if not 0 <= self.defer_s <= DEFER_S_MAX:
            raise InvalidInput(f"defer_s {self.defer_s!r} is not within 0 to {DEFER_S_MAX:.0f} seconds")
        for name, text in (("worker_id", self.worker_id), ("request_id", self.request_id)):
            if not 0 < len(text) <= ID_CHARS_MAX or not text.isprintable():
                raise InvalidInput(f"{name} must be printable text of 1 to {ID_CHARS_MAX} characters")
        if len(self.secret) < SECRET_CHARS_MIN or not self.secret.isascii():
            raise InvalidInput(
                f"the secret of a claim must have at least {SECRET_CHARS_MIN} ASCII characters"
            )


def claim(request: ClaimRequest, bookmarks: Bookmarks | None = None) -> Op[list[Lease]]:
    """Lease up to `limit` tasks to this worker, or give the leases of the same request again.

    With bookmarks, tasks after them in the order are looked at first, and the others if there are none.
    """
    hashes = {nonce_hash(nonce): nonce for nonce in lease_nonces(request.secret, request.limit)}
    slots, picked = yield from _pick(request)
    g = [(row["id"], slot, hash_) for row, slot, hash_ in zip(picked, slots, hashes, strict=False)]
    marks = bookmarks.fresh() if bookmarks else {}
    rows = yield _take(request, hashes, g, marks)
    if marks and not rows:
        marks = {}
        rows = yield _take(request, hashes, g, marks)
    again: Rows = []
    if not rows:
        again = yield query(
            "claimed_before",
            worker_id=request.worker_id,
            request_id=request.request_id,
            limit_count=request.limit,
        )
    if bookmarks and not again and (not rows or is_whole(rows)):
        bookmarks.note(rows, request.limit, is_look_at_all=not marks)
    if not rows:
        return leases_of(again, hashes)
    if not is_whole(rows):
        yield query("add_claim", request_id=request.request_id, worker_id=request.worker_id)
        move = TASK.move("claim")
        yield from log_tasks(
            move.actor,
            [(row["id"], move.name, "READY", request.worker_id, row["nonce_hash"], None) for row in rows],
            request.request_id,
        )
        yield from start_jobs(picked, {row["id"] for row in rows}, request.request_id)
    return leases_of(rows, hashes)


def _take(
    request: ClaimRequest, hashes: Iterable[str], g: list[tuple[int, int, str]], marks: Mapping[int, Bookmark]
) -> Query:
    places = marks.values()
    return query(
        "claim_tasks",
        worker_id=request.worker_id,
        request_id=request.request_id,
        limit_count=request.limit,
        defer_s=request.defer_s,
        hashes=",".join(hashes),
        marked_lanes=",".join(map(str, marks)),
        marked_ranks=",".join(str(place.rank) for place in places),
        marked_times=",".join(place.available_at.isoformat() for place in places),
        marked_ids=",".join(str(place.task_id) for place in places),
        g=g,
    )


def _pick(request: ClaimRequest) -> Op[tuple[list[int], list[Row]]]:
    """Free slots and candidates, where the claim is not one statement."""
    lanes = yield query("claim_lanes", worker_id=request.worker_id, defer_s=request.defer_s)
    if not lanes or (yield query("claim_ledger", request_id=request.request_id)):
        return [], []
    used = yield query("claim_slots", worker_id=request.worker_id)
    free = sorted(set(range(1, lanes[0]["slots"] + 1)) - {row["lease_slot"] for row in used})
    candidates: list[Row] = []
    count = max(min(request.limit, lanes[0]["slots"] - len(used)), 0)
    for lane in lanes if count else ():
        deferred = int(lane["deferred_count"])
        rows = yield query(
            "claim_candidates",
            lane_id=lane["lane_id"],
            defer_s=request.defer_s,
            limit_count=count + deferred,
        )
        candidates += [row for rank, row in enumerate(rows) if rank >= deferred or not row["is_fresh"]]
    candidates.sort(key=lambda row: (-row["priority"], row["available_at"], row["id"]))
    return free, candidates[:count]


def start_jobs(picked: Sequence[Row], claimed: set[int], request_id: str) -> Op[None]:
    """Let each job enter the furthest phase of the tasks that were claimed of it."""
    entering: dict[str, tuple[str, str]] = {}
    for row in picked:
        status, phase = entering.get(row["job_id"], (row["job_status"], row["job_status"]))
        if row["id"] in claimed and PHASES.index(row["phase"]) > PHASES.index(phase):
            entering[row["job_id"]] = status, row["phase"]
    changes = {job_id: change for job_id, change in entering.items() if change[0] != change[1]}
    if changes:
        yield query("start_jobs", g=[(job_id, old, new) for job_id, (old, new) in changes.items()])
        entries = [(job_id, f"enter_{new}", old, None) for job_id, (old, new) in changes.items()]
        yield query("log_jobs", g=entries, actor=JOB.moves[0].actor.value, request_id=request_id)


def leases_of(rows: Sequence[Row], nonces: Mapping[str, str]) -> list[Lease]:
    """The leases of these rows whose nonce the caller knows, most urgent first."""
    leases = []
    has_brief = bool(rows) and "spec" in rows[0]
    for row in rows:
        *fields, parameters, epoch, hash_ = (*row.values(),)[:LEASE_COLUMNS]
        if hash_ in nonces:
            given = {} if parameters == "{}" else json.loads(parameters)
            brief = brief_of(row) if has_brief else None
            leases.append(Lease._make((*fields, given, Token(epoch, nonces[hash_]), brief)))
    leases.sort(key=attrgetter("task_id"))
    leases.sort(key=attrgetter("priority"), reverse=True)
    return leases
