"""An in-memory store that says what a store must answer: plain dicts, one operation after the other.

It is written from the design and the machine tables, not from the SQL, and has the facades of
`takeup.store.store.Store`. Tests run the same operations on it and on a database and compare.
"""

import secrets
from collections.abc import Callable
from dataclasses import asdict
from random import SystemRandom
from typing import Any

from takeup.core.ids import RandomBytes
from takeup.core.ports import Clock
from takeup.testing.oracle.operator import OracleOperator
from takeup.testing.oracle.read import OracleRead
from takeup.testing.oracle.recovery import OracleOrchestrator, OracleRecovery
from takeup.testing.oracle.scheduler import OracleScheduler
from takeup.testing.oracle.state import State
from takeup.testing.oracle.worker import OracleWorker

_CHANCE = SystemRandom()

Tables = dict[str, list[dict[str, Any]]]


class OracleStore:
    """The model of a store with its role facades and its reads."""

    def __init__(
        self,
        clock: Clock,
        *,
        random: RandomBytes = secrets.token_bytes,
        luck: Callable[[], float] = _CHANCE.random,
    ) -> None:
        """Start empty, at the clock's time."""
        self.state = State(clock)
        self.read = OracleRead(self.state)
        self.worker = OracleWorker(self.state, luck)
        self.orchestrator = OracleOrchestrator(self.state)
        self.recovery = OracleRecovery(self.state)
        self.operator = OracleOperator(self.state, random)
        self.scheduler = OracleScheduler(self.state, self.operator)

    async def close(self) -> None:
        """Nothing is held."""

    def dump(self) -> Tables:
        """Every row, with the columns that the databases have too."""
        state = self.state
        return {
            "jobs": [asdict(row.job) for _, row in sorted(state.jobs.items())],
            "tasks": [
                {**asdict(row.task), "nonce_hash": row.nonce_hash, "claim_request": row.claim_request}
                for _, row in sorted(state.tasks.items())
            ],
            "workers": [
                {**_worker_row(worker), "processes": state.processes[name]}
                for name, worker in sorted(state.workers.items())
            ],
            "audit": [asdict(event) for event in state.events],
            "artifacts": [
                {
                    "task_id": task_id,
                    "name": name,
                    "object_key": artifact.key,
                    "sha256": artifact.sha256,
                    "size_bytes": artifact.size_bytes,
                    "epoch": epoch,
                }
                for (task_id, name), (artifact, epoch) in sorted(state.artifacts.items())
            ],
            "outbox": [
                {
                    **asdict(row.message),
                    "lease_expires_at": row.lease_expires_at,
                    "finished_at": row.finished_at,
                    "error": row.error,
                }
                for _, row in sorted(state.messages.items())
            ],
            "schedules": [asdict(row) for _, row in sorted(state.schedules.items())],
            "claims": [
                {"request_id": name, "claimed_at": when} for name, when in sorted(state.claims.items())
            ],
        }


def _worker_row(worker: Any) -> dict[str, Any]:
    row = asdict(worker)
    del row["load"]
    return {**row, "capabilities": sorted(worker.capabilities), "stages": list(worker.stages)}
