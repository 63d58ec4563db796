"""Answers what a stage asks: what the stages before it made, and where those files are."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from takeup.core.errors import NotFound, TakeupError
from takeup.core.model import InputPage
from takeup.engine.endings import Endings
from takeup.engine.holding import Holding
from takeup.engine.loop import Breaker
from takeup.engine.runners import Runner, Runners
from takeup.engine.source import Source
from takeup.engine.wire import Frame, encode
from takeup.telemetry.logs import logger

INPUT_WAIT_S = 10.0
INPUT_LOOK_S = 0.05

log = logger("worker")


class Answers:
    """Reads inputs for runners, which have no database."""

    def __init__(
        self, source: Source, runners: Runners, endings: Endings, clock: Callable[[], float]
    ) -> None:
        """Answers go back through the runners' lines."""
        self._source = source
        self._runners = runners
        self._endings = endings
        self._clock = clock

    async def give(self, runner: Runner, holding: Holding, question: Frame) -> None:
        """Answer one question; the files that it is about are visible then."""
        try:
            page = await self._read(holding, question)
            if question["stage"] != holding.lease.stage:  # what failed before may be gone, and is made again
                await self._see_to_it(page)
            made = [{"segment": m.segment, "result": m.result, "files": m.files} for m in page.made]
            answer: Mapping[str, Any] = {"value": {"made": made, "after": page.after}}
            encode(answer)
        except TakeupError as error:
            answer = {"error": str(error)}
        self._runners.tell(runner, {"op": "answer", "n": question["n"], **answer})

    async def _read(self, holding: Holding, question: Frame) -> InputPage:
        """Read a page; a source that is away for a while costs time and no attempt."""
        breaker = Breaker(last_s=2.0)
        while True:
            try:
                return await self._source.inputs(holding.lease, question["stage"], after=question["after"])
            except TakeupError as error:
                if not error.retryable or holding.has_ended or self._clock() >= holding.trusted_until:
                    raise
                log.warning("inputs not read yet", **holding.about, error=str(error))
                await asyncio.sleep(breaker.fail())

    async def _see_to_it(self, page: InputPage) -> None:
        """Wait until the files of these inputs are visible, and publish them if nobody else does."""
        deadline = self._clock() + INPUT_WAIT_S
        while missing := await asyncio.to_thread(self._endings.unpublished, page):
            folders = [folder for staged in missing for folder in staged]
            for fate in await self._source.fates(folders) if folders else ():
                await asyncio.to_thread(self._endings.publish_late, fate)
            if self._clock() > deadline:
                raise NotFound("the files of an input are not in the storage of this worker")
            await asyncio.sleep(INPUT_LOOK_S)
