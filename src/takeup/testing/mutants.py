"""Twenty defects of the designs that Takeup grew from, kept as mutants: tests that miss one are broken.

A mutant is a small change of a named SQL block, an operation put in place of the real one, or a rule of a
simulated component. Those of `REAL` show only on a real database; tests of their own catch them.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from takeup.core.machine import Actor
from takeup.store.op import Op, Script, query
from takeup.store.ops.moves import log_tasks
from takeup.store.ops.recover import wake
from takeup.store.ops.submit import submit
from takeup.testing.sim.database import Patch
from takeup.testing.sim.kernel import Effect
from takeup.testing.sim.world import Rules, World

FENCE = " AND tasks.epoch = g.epoch AND tasks.nonce_hash = g.nonce_hash"
IN_TIME = " AND tasks.lease_expires_at > {now}"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect, how it is put in, and which invariants it breaks."""

    name: str
    defect: str
    rules: Rules
    caught_by: frozenset[str]


def _mutant(name: str, defect: str, caught_by: str, **rules: Any) -> Mutant:
    return Mutant(name, defect, Rules(**rules), frozenset(caught_by.split()))


def _without(text: str, *blocks: str) -> tuple[Patch, ...]:
    return tuple(Patch(block, text, "") for block in blocks)


def wake_failed(limit_count: int) -> Op[list[int]]:
    """D17: what was called terminal is tried again."""
    woken = yield from wake(limit_count)
    rows = yield Script("SELECT id FROM tasks WHERE status = 'FAILED' ORDER BY id LIMIT 1")
    for row in rows:
        yield Script(
            "UPDATE tasks SET status = 'READY', finished_at = NULL, attempt = 0, "  # noqa: S608 - its own id
            f"ready_at = available_at WHERE id = {row['id']}"
        )
        yield from log_tasks(Actor.RECOVERY, [(row["id"], "wake", "FAILED", None, None, None)], None)
        woken.append(row["id"])
    return woken


def submit_in_two_steps(
    world: World, plans: list[Any], options: dict[str, Any]
) -> Generator[Effect, Any, list[str]]:
    """D15: the job is committed first, its idempotency key in a second transaction."""
    ((job_id, plan),) = plans
    known = yield from world.database.transact("submit", _find_key, plan.user_id, plan.idempotency_key)
    if known:
        return [known]
    bare = replace(plan, idempotency_key=None)
    made: list[str] = yield from world.database.transact("submit", submit, [(job_id, bare)], **options)
    yield from world.database.transact("submit", _store_key, made[0], plan.idempotency_key)
    return made


def _find_key(user_id: str, key: str | None) -> Op[str | None]:
    rows = yield query("jobs_by_key", k=[(user_id, key)] if key else [])
    return rows[0]["id"] if rows else None


def _store_key(job_id: str, key: str | None) -> Op[None]:
    if key:
        yield Script(f"UPDATE jobs SET idempotency_key = '{key}' WHERE id = '{job_id}'")  # noqa: S608


OFFLINE = "lease_owner IN (SELECT id FROM workers WHERE status = 'offline')"

SIMULATED = (
    _mutant(
        "D1",
        "a report is accepted from the owner's name alone, so a late one of an earlier claim passes",
        "I3 I5",
        patches=_without(FENCE, "complete_tasks", "fail_tasks", "release_tasks", "renew_tasks"),
    ),
    _mutant(
        "D2",
        "a failure is checked for ownership, not for whether the claim is still valid",
        "I3",
        patches=(*_without(FENCE, "fail_tasks"), *_without(IN_TIME, "fail_tasks")),
    ),
    _mutant(
        "D3",
        "recovery wants the worker offline and the lease over, so a hanging job of a live worker stays",
        "I24 I28",
        patches=(
            Patch("overdue_tasks", "status = 'RUNNING'", f"status = 'RUNNING' AND {OFFLINE}"),
            Patch("expire_tasks", "tasks.status = 'RUNNING'", f"tasks.status = 'RUNNING' AND {OFFLINE}"),
        ),
    ),
    _mutant(
        "D4",
        "attempts are counted one too high before the test, so three attempts are two",
        "I9",
        patches=(
            Patch("failure_context", "t.attempt, t.max_attempts", "t.attempt + 1 AS attempt, t.max_attempts"),
            Patch("expire_tasks", "tasks.attempt < tasks.max", "tasks.attempt + 1 < tasks.max"),
        ),
    ),
    _mutant(
        "D5",
        "a crash does not count as an attempt, so a job that kills its worker runs for ever",
        "I9",
        patches=(Patch("expire_tasks", "error = g.error,", "error = g.error, attempt = tasks.attempt - 1,"),),
    ),
    _mutant("D6", "the claim of a new run removes the files of the old one", "I20", removes_at_claim=True),
    _mutant(
        "D7",
        "files are put into the live folder before the completion is decided",
        "I11",
        publishes_early=True,
    ),
    _mutant(
        "D8",
        "recovery waits a fixed time after its start, so one that restarts often never recovers anything",
        "I24 I28",
        grace_s=8.0,
        claim_expires=False,
    ),
    _mutant(
        "D9",
        "a plain worker waits while any GPU worker is idle, even one that cannot do the job",
        "I27",
        patches=(
            Patch(
                "claim_lanes",
                "FROM worker_lanes o JOIN workers p ON p.id = o.worker_id\n"
                "    WHERE o.lane_id = l.lane_id AND o.preferred AND p.status",
                "FROM workers p\n    WHERE p.capabilities LIKE '%gpu%' AND p.status",
            ),
            Patch("claim_candidates", "CASE WHEN t.ready_at > {before :defer_s} THEN 1 ELSE 0 END", "1"),
        ),
    ),
    _mutant(
        "D10",
        "the queue's score rises with priority but the lowest is taken, so urgent work comes last",
        "ORDER",
        patches=(Patch("claim_candidates", "priority DESC", "priority ASC"),),
    ),
    _mutant(
        "D11",
        "a dispatch is taken out of the queue before the claim, with no poll behind it",
        "I25 I27",
        polls=False,
    ),
    _mutant(
        "D12",
        "a worker is called offline without looking at its heartbeat, and recovery follows that status",
        "I6 I17",
        patches=(
            Patch(
                "silent_workers",
                " AND COALESCE(last_heartbeat_at, registered_at) < {before :threshold_s}",
                "",
            ),
            Patch(
                "lose_workers",
                "\n  AND COALESCE(last_heartbeat_at, registered_at) < {before :threshold_s}",
                "",
            ),
            Patch("overdue_tasks", "lease_expires_at <= {start}", OFFLINE),
            Patch("expire_tasks", "tasks.lease_expires_at <= {now}", OFFLINE),
        ),
    ),
    _mutant(
        "D13",
        "the back-off is written where neither recovery nor claim looks",
        "I10",
        patches=(Patch("fail_tasks", "THEN {after g.delay_s} ELSE", "THEN {now} ELSE"),),
    ),
    _mutant(
        "D15",
        "the job is created and its idempotency key stored in a second step",
        "I14",
        submits=submit_in_two_steps,
        is_guarded=False,
    ),
    _mutant(
        "D16",
        "the keep-alive of a lock ignores its result, so its loss goes unseen",
        "I26",
        keeps_on=True,
    ),
    _mutant(
        "D17",
        "failed is called terminal but may become ready again",
        "I7",
        operations={"wake": wake_failed},
        is_guarded=False,
    ),
    _mutant(
        "D19",
        "a release names the worker and no epoch, and the watchdog clears the claim but not the status",
        "I3 I8 I19",
        patches=(
            *_without(FENCE, "release_tasks"),
            *_without(IN_TIME, "release_tasks"),
            Patch("expire_tasks", "THEN 'READY' ELSE 'FAILED' END", "THEN 'RUNNING' ELSE 'FAILED' END"),
        ),
        is_guarded=False,
    ),
)

REAL = {
    "D14": "a session's advisory lock is taken through a pooler, where the unlock reaches another backend",
    "D18": "SERIALIZABLE is used and a serialization failure is not tried again",
    "D20": "several processes open one DuckDB file",
}
"""What the simulator cannot hold: these are about how real servers behave."""

MUTANTS = {mutant.name: mutant for mutant in SIMULATED}
