"""A worker's source that writes down every call and its answer, for the history checker."""

import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from takeup.core.errors import TakeupError
from takeup.core.ids import nonce_hash
from takeup.core.model import Answer, Held, Lease
from takeup.testing.history import Call


class CallLog:
    """One file a process; a line is out before the call it announces is made."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self._file = os.open(folder / f"{process}.calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, op: str, phase: str, request_id: str | None, args: Any, value: Any = None) -> None:
        line = [self.process, op, phase, time.monotonic(), request_id, args, value]
        os.write(self._file, json.dumps(line).encode() + b"\n")

    async def call(
        self, op: str, request_id: str | None, args: Any, call: Callable[[], Awaitable[Any]], show: Any
    ) -> Any:
        self.write(op, "invoke", request_id, args)
        try:
            value = await call()
        except TakeupError as error:
            self.write(op, "info" if error.retryable else "fail", request_id, args, type(error).__name__)
            raise
        self.write(op, "ok", request_id, args, show(value))
        return value


def read_calls(folder: Path) -> list[Call]:
    """The calls of all processes; a line that a kill cut off was never acted upon."""
    calls = []
    for file in sorted(folder.glob("*.calls")):
        for line in file.read_text().splitlines():
            process, op, phase, mono, request_id, args, value = json.loads(line)
            calls.append(Call(process, op, phase, mono, request_id, args, value))
    return calls


class LoggedSource:
    """The worker facade of a store, with a log of what is asked and answered."""

    def __init__(self, source: Any, log: CallLog) -> None:
        self._source = source
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def register(self, spec: Any) -> None:
        args = {
            "worker": spec.id,
            "slots": spec.slots,
            "capabilities": sorted(spec.capabilities),
            "stages": list(spec.stages),
        }
        await self._log.call("register", None, args, lambda: self._source.register(spec), lambda _: None)

    async def claim(self, request: Any, *, takes_back: bool = True) -> list[Lease]:
        return await self._log.call(
            "claim",
            request.request_id,
            {"worker": request.worker_id},
            lambda: self._source.claim(request, takes_back=takes_back),
            lambda leases: [(*_fence(lease.held), lease.lease_s) for lease in leases],
        )

    async def renew(self, worker_id: str, reports: Sequence[Any], *, request_id: str | None = None) -> Any:
        args = {"worker": worker_id, "held": [_fence(report.held) for report in reports]}
        call = lambda: self._source.renew(worker_id, reports, request_id=request_id)  # noqa: E731
        return await self._log.call("renew", request_id, args, call, _shown)

    async def complete(self, worker_id: str, reports: Sequence[Any], *, request_id: str | None = None) -> Any:
        args = {"worker": worker_id, "held": [_fence(report.held) for report in reports]}
        call = lambda: self._source.complete(worker_id, reports, request_id=request_id)  # noqa: E731
        return await self._log.call("complete", request_id, args, call, _shown)

    async def fail(self, worker_id: str, reports: Sequence[Any], *, request_id: str | None = None) -> Any:
        args = {
            "worker": worker_id,
            "held": [_fence(report.held) for report in reports],
            "retryable": [report.retryable for report in reports],
            "after_s": [report.after_s for report in reports],
        }
        call = lambda: self._source.fail(worker_id, reports, request_id=request_id)  # noqa: E731
        return await self._log.call("fail", request_id, args, call, _shown)

    async def release(
        self, worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
    ) -> Any:
        args = {"worker": worker_id, "held": [_fence(one) for one in held]}
        call = lambda: self._source.release(worker_id, held, reason=reason, request_id=request_id)  # noqa: E731
        return await self._log.call("release", request_id, args, call, _shown)


def _fence(held: Held) -> tuple[int, int, str]:
    return held.task_id, held.token.epoch, nonce_hash(held.token.nonce)


def _shown(answers: list[Answer]) -> list[tuple[int, bool, str | None]]:
    return [(answer.task_id, answer.accepted, answer.status) for answer in answers]
