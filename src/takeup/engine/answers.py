"""Answers what a stage asks: what the stages before it made, and where its files are."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from takeup.core.errors import InvalidInput, TakeupError
from takeup.core.model import Brief, InputPage
from takeup.engine.carrier import Carrier, Named
from takeup.engine.holding import Holding
from takeup.engine.loop import Breaker
from takeup.engine.runners import Runner, Runners
from takeup.engine.source import Source
from takeup.engine.wire import Frame, encode
from takeup.telemetry.logs import logger

log = logger("worker")


class Answers:
    """Reads inputs for runners, which have no database."""

    def __init__(
        self, source: Source, runners: Runners, carrier: Carrier, clock: Callable[[], float]
    ) -> None:
        """Answers go back through the runners' lines."""
        self._source = source
        self._runners = runners
        self._carrier = carrier
        self._clock = clock

    async def give(self, runner: Runner, holding: Holding, question: Frame, brief: Brief) -> None:
        """Answer one question; the files that it is about are here then."""
        answer: Mapping[str, Any]
        try:
            if "file" in question:
                answer = {"value": str(await self._carrier.fetch(holding, brief, question["file"]))}
            elif "sparse" in question:
                answer = {"value": await self._sparse(holding, brief, question)}
            else:
                answer = {"value": await self._inputs(holding, question)}
            encode(answer)
        except (TakeupError, OSError) as error:
            is_away = isinstance(error, TakeupError) and not isinstance(error, InvalidInput)
            answer = {"error": str(error), "errno": getattr(error, "errno", None), "is_away": is_away}
        self._runners.tell(runner, {"op": "answer", "n": question["n"], **answer})

    async def _sparse(self, holding: Holding, brief: Brief, question: Frame) -> Any:
        """Open a sparse copy, or fetch a span of one."""
        named = Named(question["sparse"], is_output=question.get("is_output", False))
        if "copy" not in question:
            opened = await self._carrier.open_sparse(holding, brief, named)
            return opened and {**opened._asdict(), "path": str(opened.path)}
        span = question["start"], question["end"]
        return await self._carrier.fetch_span(holding, brief, named, copy_id=question["copy"], span=span)

    async def _inputs(self, holding: Holding, question: Frame) -> Mapping[str, Any]:
        page = await self._read(holding, question)
        if question["stage"] != holding.lease.stage:  # what failed before may be gone, and is made again
            await self._carrier.bring(holding, _of_names(page, question["names"]))
        made = [{"segment": m.segment, "result": m.result, "files": m.files} for m in page.made]
        return {"made": made, "after": page.after}

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


def _of_names(page: InputPage, names: Sequence[str] | None) -> InputPage:
    """The page with no other files than those of these names."""
    if names is None:
        return page
    few = (m._replace(files={n: key for n, key in m.files.items() if n in names}) for m in page.made)
    return page._replace(made=tuple(few))
