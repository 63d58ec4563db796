"""Simulated workers: they start, claim, tell progress, complete and beat as real ones do, but do no work."""

import asyncio
import random
import secrets
import time
from dataclasses import dataclass, field

from bench.fleet.calls import Line, Refused
from takeup.core.remote import PROTOCOL

HEARTBEAT_S, PROGRESS_S, TASK_S = 30.0, 10.0, 60.0
CALLS = "/api/worker"
START = {"protocol": PROTOCOL, "version": "bench", "slots": 1, "stages": ["*"]}


@dataclass
class Seen:
    """How long the calls took in the window, and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    is_counting: bool = False
    completed: int = 0

    def note(self, call: str, seconds: float) -> None:
        if self.is_counting:
            self.seconds.setdefault(call, []).append(seconds)


class Fleet:
    """So many workers on one server, each with a key of its own."""

    def __init__(self, host: str, port: int, seen: Seen, *, task_s: float, heartbeat_s: float) -> None:
        self._place = host, port
        self._seen = seen
        self._task_s = task_s
        self._heartbeat_s = heartbeat_s
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._tasks) // 2

    async def grow(self, keys: list[str], over_s: float) -> None:
        """Let these come, evenly spread over a time."""
        for number, key in enumerate(keys):
            self._tasks.append(asyncio.create_task(self._work(key)))
            self._tasks.append(asyncio.create_task(self._beat(key)))
            if number % 10 == 9:
                await asyncio.sleep(10 * over_s / len(keys))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _call(self, line: Line, call: str, body: object) -> object:
        began = time.perf_counter()
        try:
            answer = await line.post(f"{CALLS}/{call}", body)
        except (OSError, Refused, asyncio.IncompleteReadError) as error:
            if self._seen.is_counting:
                self._seen.errors.append(f"{call}: {error}")
            await asyncio.sleep(1)
            return None
        self._seen.note(call, time.perf_counter() - began)
        return answer

    async def _work(self, key: str) -> None:
        line = Line(*self._place, key)
        await self._call(line, "start", START)
        await asyncio.sleep(random.uniform(0, 1))
        while True:
            claim = {"request_id": secrets.token_hex(8), "secret": secrets.token_hex(16), "wait": 0}
            told = await self._call(line, "claim", claim)
            leases = told["leases"] if isinstance(told, dict) else []
            if not leases:
                await asyncio.sleep(1)
                continue
            held = {name: leases[0][name] for name in ("task_id", "epoch", "nonce")}
            await self._do(line, held)

    async def _do(self, line: Line, held: dict[str, object]) -> None:
        """One task, as long as others take."""
        left_s = random.uniform(0.5, 1.5) * self._task_s
        percent = 0.0
        while left_s > 0:
            await asyncio.sleep(min(PROGRESS_S, left_s))
            left_s -= PROGRESS_S
            percent = min(percent + 15.0, 99.0)
            report = {**held, "percent": percent, "note": "encoding"}
            await self._call(line, "progress", {"request_id": secrets.token_hex(8), "reports": [report]})
        await self._call(line, "complete", {"request_id": secrets.token_hex(8), "reports": [held]})
        self._seen.completed += self._seen.is_counting

    async def _beat(self, key: str) -> None:
        line = Line(*self._place, key)
        await asyncio.sleep(random.uniform(0, self._heartbeat_s))
        while True:
            await self._call(line, "heartbeat", {"status": "busy"})
            line.close()  # a connection for two calls a minute would only be one more to keep
            await asyncio.sleep(self._heartbeat_s)
