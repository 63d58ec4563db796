"""What stages log, print and run, on its way to the log of this process and to tables that people read."""

import asyncio
import shlex
from collections.abc import Callable
from typing import Any

from takeup.core.errors import InvalidInput, TakeupError
from takeup.core.model import LogLine, Step, StepEnd
from takeup.engine.holding import Holding
from takeup.engine.source import Source
from takeup.engine.wire import Frame
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

FLUSH_EVERY_S = 0.5
WAITING_MAX = 10_000
BATCH_MAX = 500
STEPS_MAX = 50
STEPS_WAITING_MAX = 1000
LEVELS = {"debug": "debug", "info": "info", "warn": "warning", "error": "error"}

log = logger("stage")


class Notes:
    """Gathers notes and writes them in batches; when too many wait the oldest are dropped and counted."""

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        """Notes go to the source."""
        self._source = source
        self._clock = clock
        self._lines: list[LogLine] = []
        self._begun: dict[str, tuple[Step, float]] = {}
        self._known: dict[str, tuple[int, Any]] = {}
        self._ended: dict[str, tuple[Frame, float]] = {}
        self._dropped = 0
        self._flushing = asyncio.Lock()

    def add(self, holding: Holding, frame: Frame) -> None:
        """A log line or a step of a stage."""
        if frame["op"] == "log":
            self._log(holding, frame["level"], presentable(frame["message"]), dict(frame["fields"]))
        elif len(self._begun) + len(self._ended) >= STEPS_WAITING_MAX:
            self._dropped += 1
        elif frame["op"] == "step" and frame["state"] == "begun":
            lease = holding.lease
            step = Step(
                lease.job_id,
                lease.task_id,
                lease.token.epoch,
                frame["step_id"],
                frame["kind"],
                presentable(shlex.join(frame["command"])),
            )
            self._begun[frame["step_id"]] = step, self._clock()
        elif frame["op"] == "step":
            self._ended[frame["step_id"]] = frame, self._clock()

    def printed(self, holding: Holding | None, line: str) -> None:
        """A line that a stage printed; whose it is, if only one stage runs there."""
        if holding is None:
            log.info("printed", line=line)
        else:
            self._log(holding, "info", presentable(line), {"printed": True})

    async def run(self) -> None:
        """Write now and then, for ever."""
        while True:
            await asyncio.sleep(FLUSH_EVERY_S)
            await self.flush_quietly()

    async def flush_quietly(self) -> None:
        """Write what waits; nothing depends on it, so a failure is only logged."""
        try:
            async with self._flushing:
                await self.flush()
        except TakeupError as error:
            log.warning("notes not written", error=str(error))

    async def flush(self) -> None:
        """Write what waits."""
        if self._dropped:
            log.warning("log lines were dropped", count=self._dropped)
            self._dropped = 0
        lines = self._lines[:BATCH_MAX]
        if lines:
            await self._add_lines(lines)
            del self._lines[: len(lines)]
        now = self._clock()
        begun = dict(list(self._begun.items())[:STEPS_MAX])
        if begun:
            ages_s = [now - at for _, at in begun.values()]
            self._known |= await self._source.add_steps([step for step, _ in begun.values()], ages_s)
            for step_id in begun:
                del self._begun[step_id]
        known = [step_id for step_id in self._ended if step_id in self._known]
        ended = {step_id: self._ended[step_id] for step_id in known[:STEPS_MAX]}
        if ended:
            await self._source.end_steps([self._end(step_id, *end) for step_id, end in ended.items()])
            for step_id in ended:
                del self._ended[step_id]
                del self._known[step_id]

    async def _add_lines(self, lines: list[LogLine]) -> None:
        """Write lines; one that cannot be stored is dropped alone."""
        try:
            await self._source.add_logs(lines)
        except InvalidInput as error:
            if len(lines) == 1:
                log.warning("a log line cannot be stored", error=str(error))
                return
            for line in lines:
                await self._add_lines([line])

    def _end(self, step_id: str, frame: Frame, at: float) -> StepEnd:
        key, started_at = self._known[step_id]
        stdout, stderr, error = (frame.get(name) for name in ("stdout", "stderr", "error"))
        return StepEnd(
            key,
            started_at,
            self._clock() - at,
            frame.get("duration_ms"),
            frame.get("exit_code"),
            None if stdout is None else presentable(stdout),
            None if stderr is None else presentable(stderr),
            None if error is None else presentable(error),
        )

    def _log(self, holding: Holding, level: Any, message: str, fields: dict[str, Any]) -> None:
        lease = holding.lease
        fields = {
            name: presentable(value) if isinstance(value, str) else value for name, value in fields.items()
        }
        getattr(log, LEVELS[level])(
            message,
            **holding.about,
            **{f"field_{name}" if name in _TAKEN else name: value for name, value in fields.items()},
        )
        if len(self._lines) >= WAITING_MAX:
            self._dropped += 1
            return
        epoch = lease.token.epoch
        self._lines.append(LogLine(lease.job_id, lease.task_id, epoch, level, lease.stage, message, fields))


_TAKEN = frozenset({"job", "task", "stage", "attempt", "epoch", "event", "level", "timestamp", "part"})
