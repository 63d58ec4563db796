"""The state of every row must be the fold of the audit log, and every step of it a legal move."""

from collections import defaultdict
from typing import Any

from takeup.core.machine import JOB, MACHINES, OUTBOX, Machine
from takeup.testing.conformance.world import World

KEYS = {"task": "task_id", "job": "job_id", "worker": "worker_id", "message": "message_id"}
TABLES = {"task": "tasks", "job": "jobs", "worker": "workers", "message": "outbox"}
BIRTHS = {"task": {"create"}, "job": {"create"}, "worker": {"register", "enrol"}}
NOTES = {
    "task": frozenset({"pause", "resume"}),
    "job": frozenset({"pause", "resume", "skip", "set_priority"}),
    "worker": frozenset({"disable", "enable", "quarantine"}),
    "message": frozenset(),
}
"""Events that note a change of something else than the state."""

Row = dict[str, Any]


async def check_fold(world: World) -> None:
    """Replay the log and compare with the rows."""
    tables = await world.dump()
    histories: dict[tuple[str, Any], list[Row]] = defaultdict(list)
    for event in sorted(tables["audit"], key=lambda row: row["seq"]):
        histories[event["noun"], event[KEYS[event["noun"]]]].append(event)
    for machine in MACHINES:
        noun = machine.noun
        for row in tables[TABLES[noun]]:
            events = histories.pop((noun, row["id"]), [])
            status = fold(machine, events)
            assert status == row["status"], f"{noun} {row['id']} is {row['status']}, its log says {status}"
            if noun == "task":
                check_tokens(row, events)
    assert not histories, f"the log speaks of rows that are not there: {sorted(map(str, histories))}"
    check_hashes(tables["audit"])
    check_messages(tables)


def fold(machine: Machine, events: list[Row]) -> str:
    """The last state of a history in which every step must be legal."""
    moves = {move.name: move for move in machine.moves}
    status, events = born(machine, events)
    for event in events:
        assert event["from_status"] == status, f"{event} follows {status}"
        if event["event"] in NOTES[machine.noun] and event["to_status"] == status:
            continue
        move = moves[event["event"]]
        assert status in move.sources, event
        assert event["to_status"] == move.target, event
        assert event["actor"] == move.actor, event
        status = move.target
    return status


def born(machine: Machine, events: list[Row]) -> tuple[str, list[Row]]:
    """The first state and what follows; a message is written with the end of its job, so it has no birth."""
    if machine is OUTBOX:
        return OUTBOX.initial[0], events
    assert events, f"a {machine.noun} has no audit row"
    birth = events[0]
    assert birth["event"] in BIRTHS[machine.noun], birth
    assert birth["from_status"] is None, birth
    assert birth["to_status"] in machine.initial, birth
    return birth["to_status"], events[1:]


def check_tokens(row: Row, events: list[Row]) -> None:
    """Epochs count the claims, and whatever ends or extends a lease names the token of the last claim."""
    epoch, nonce_hash, owner = 0, None, None
    for event in events:
        if event["event"] == "claim":
            epoch, nonce_hash, owner = epoch + 1, event["nonce_hash"], event["worker_id"]
            assert nonce_hash, event
        assert event["epoch"] == epoch, event
        if event["from_status"] == "RUNNING" and event["event"] not in NOTES["task"]:
            assert (event["nonce_hash"], event["worker_id"]) == (nonce_hash, owner), event
    assert row["epoch"] == epoch, row
    assert row["attempt"] == events[-1]["attempt"], (row, events[-1])
    assert row["lease_expires_at"] == events[-1]["lease_expires_at"], (row, events[-1])


def check_hashes(audit: list[Row]) -> None:
    """No nonce is given out twice."""
    given = [event["nonce_hash"] for event in audit if event["event"] == "claim"]
    assert len(given) == len(set(given)), "a nonce was given out twice"


def check_messages(tables: dict[str, list[Row]]) -> None:
    """Every finished job, and no other, is announced once."""
    told = sorted(message["subject"] for message in tables["outbox"])
    final = {row["id"] for row in tables["jobs"] if row["status"] in JOB.final}
    live = {row["id"] for row in tables["jobs"]} - final
    assert len(told) == len(set(told)), "a job was announced twice"
    assert final <= set(told), "a finished job was not announced"
    assert not live & set(told), "a live job was announced"
