"""The loops that are timed: claim, then complete, until a quota of no-op tasks is done."""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from takeup.core.model import Completion, WorkerSpec
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store

Loop = Callable[[int], Awaitable[list[int]]]
"""Takes a quota, completes exactly so many tasks and answers with their ids."""

RAW_LEASE_S = 300
RAW_NONCE_HASH = "0" * 64
"""As wide as the hash that our own rows hold."""

RAW_CLAIM = f"""
UPDATE raw_tasks SET status = 'RUNNING', attempt = attempt + 1, epoch = epoch + 1, lease_owner = $1,
  lease_slot = id::int, nonce_hash = '{RAW_NONCE_HASH}', claimed_at = now(), claim_request = $2,
  lease_expires_at = now() + interval '{RAW_LEASE_S} s', started_at = COALESCE(started_at, now())
WHERE id = ANY (ARRAY(
  SELECT id FROM raw_tasks
  WHERE lane_id = $3 AND status = 'READY' AND control = 'READY' AND job_control = 'READY'
    AND available_at <= now() AND attempt < max_attempts
  ORDER BY priority DESC, available_at, id LIMIT {{batch}} FOR UPDATE SKIP LOCKED))
RETURNING id, epoch
"""
"""The limit is a literal: with a parameter the planner makes a new plan for every call."""

RAW_DONE = """
UPDATE raw_tasks SET status = 'DONE', result = '{}', progress_percent = 100, finished_at = now(),
  lease_owner = NULL, lease_slot = NULL, nonce_hash = NULL, lease_expires_at = NULL, claimed_at = NULL,
  claim_request = NULL
"""

RAW_COMPLETE_ONE = RAW_DONE + "WHERE id = $1 AND epoch = $2 AND status = 'RUNNING' RETURNING id"

RAW_COMPLETE_MANY = f"""{RAW_DONE}
FROM unnest($1::bigint[], $2::bigint[]) AS g(task_id, epoch)
WHERE raw_tasks.id = g.task_id AND raw_tasks.epoch = g.epoch AND raw_tasks.status || '' = 'RUNNING'
RETURNING raw_tasks.id
"""
"""The status is hidden from the planner, which else walks all running rows instead of the primary key."""


async def takeup_loop(store: Store, worker_id: str, batch: int) -> Loop:
    """Ours, through the public facade, as a worker with as many slots as it claims at once."""
    await store.worker.register(WorkerSpec(worker_id, slots=batch, stages=("bench/work",)))

    async def drain(quota: int) -> list[int]:
        done: list[int] = []
        while len(done) < quota:
            limit = min(batch, quota - len(done))
            request = ClaimRequest(worker_id, secrets.token_hex(8), secrets.token_hex(16), limit)
            leases = await store.worker.claim(request)
            answers = await store.worker.complete(worker_id, [Completion(lease.held) for lease in leases])
            assert leases, f"nothing left to claim after {len(done)} of {quota}"
            assert all(answer.accepted for answer in answers)
            done += [answer.task_id for answer in answers]
        return done

    return drain


async def raw_loop(connection: "asyncpg.Connection[Any]", worker_id: str, batch: int) -> Loop:
    """What one would write by hand: two prepared statements on one connection, each its own transaction."""
    lane_id = await connection.fetchval("SELECT id FROM lanes WHERE stage = 'work'")
    claim = await connection.prepare(RAW_CLAIM.format(batch=batch))
    complete = await connection.prepare(RAW_COMPLETE_ONE if batch == 1 else RAW_COMPLETE_MANY)

    async def drain(quota: int) -> list[int]:
        done: list[int] = []
        while len(done) < quota:
            rows = await claim.fetch(worker_id, secrets.token_hex(8), lane_id)
            ids, epochs = [row["id"] for row in rows], [row["epoch"] for row in rows]
            assert ids, f"nothing left to claim after {len(done)} of {quota}"
            ended = await (complete.fetch(*ids, *epochs) if batch == 1 else complete.fetch(ids, epochs))
            assert len(ended) == len(rows)
            done += [row["id"] for row in ended]
        return done

    return drain
