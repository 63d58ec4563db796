"""How a task's time with this worker ends: what is reported, what becomes visible, what is cleaned away."""

import asyncio
from collections.abc import Mapping
from typing import Any

from takeup.artifacts import manifest
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.scratch import Scratch
from takeup.core.budget import Excuse
from takeup.core.errors import InvalidInput, LeaseLost, TakeupError
from takeup.core.model import Answer, Artifact, Completion, Failure
from takeup.core.points import point
from takeup.core.report import check_after_s
from takeup.engine.carrier import Carrier
from takeup.engine.holding import Holding
from takeup.engine.notes import Notes
from takeup.engine.reporter import Ending, Release, Reporter
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

log = logger("worker")


class Endings:
    """Turns what runners say, or that they died, into reports; and answers into files."""

    def __init__(
        self, reporter: Reporter, notes: Notes, carrier: Carrier, places: tuple[LocalArtifacts, Scratch]
    ) -> None:
        """`places` are those of outputs and scratch; the carrier takes outputs to where they belong."""
        self._reporter = reporter
        self._notes = notes
        self._carrier = carrier
        self._artifacts, self._scratch = places
        self._cleaning: set[asyncio.Task[Any]] = set()

    def ended(self, holding: Holding, end: Mapping[str, Any]) -> None:
        """A stage ended by itself, or because it was told to."""
        ending = None if holding.stopping is not None else _read_end(holding, end)
        holding.has_ended = True
        if end.get("has_scratch"):
            self.keep(asyncio.create_task(asyncio.to_thread(self._scratch.drop, holding.folder)))
        if ending is None:
            self.stopped(holding)
        elif ending.key is None:
            point("worker.before complete")
            self._reporter.add(ending)
        else:
            self.keep(asyncio.create_task(self._hand_in(ending)))

    async def _hand_in(self, ending: Ending) -> None:
        """Report an end whose outputs have to be where they belong before."""
        holding = ending.holding
        try:
            await self._carrier.take(ending)
        except (TakeupError, OSError) as error:
            if isinstance(error, LeaseLost) or holding.stopping is not None:
                self.stopped(holding)
                return
            retryable = error.retryable if isinstance(error, TakeupError) else True
            text = f"its outputs were not taken: {error}"
            failure = Failure(holding.lease.held, text, retryable, excuse="not_taken")
            ending = Ending(holding, failure)
        point("worker.before complete")
        self._reporter.add(ending)

    def stopped(self, holding: Holding) -> None:
        """A task that was told to stop is over; only where the token still holds is that reported."""
        holding.has_ended = True
        held = holding.lease.held
        if holding.stopping == "stalled":
            text = (
                f"no progress for {holding.stall_s:g} s"
                if holding.stall_s
                else "no progress within the limit"
            )
            self._reporter.add(Ending(holding, Failure(held, text)))
        elif holding.stopping == "timeout":
            text = f"it ran longer than its limit of {holding.timeout_s:g} s"
            self._reporter.add(Ending(holding, Failure(held, text)))
        elif holding.stopping == "drained":
            self.give_back(holding, "its worker was told to stop")
        else:
            self.forget(holding)

    def crashed(self, holding: Holding, how: str) -> None:
        """The process of a task died by itself."""
        holding.has_ended = True
        self._reporter.add(Ending(holding, Failure(holding.lease.held, how)))

    def give_back(self, holding: Holding, reason: str) -> None:
        """Hand a task back unfinished."""
        holding.has_ended = True
        self._reporter.add(Ending(holding, Release(reason)))

    def forget(self, holding: Holding) -> None:
        """The token is void: nothing is written any more, only cleaned."""
        holding.has_ended = True
        self._reporter.drop(holding)

    def settle(self, ending: Ending, answer: Answer | None) -> None:
        """The source answered, or the lease ran out before it could."""
        is_won = answer is not None and answer.accepted and isinstance(ending.report, Completion)
        if is_won and ending.key is not None:
            self.keep(asyncio.create_task(asyncio.to_thread(self._carrier.keep, ending)))
        elif not is_won:
            if isinstance(ending.report, Completion):
                reason = "too late" if answer is None else answer.reason
                log.warning("completion refused", **ending.holding.about, reason=reason)
            elif answer is not None and not answer.accepted:
                log.info("report refused", **ending.holding.about, reason=answer.reason)
            self._clean(ending.holding)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Remember a task until it is done."""
        self._cleaning.add(task)
        task.add_done_callback(self._done)

    async def finish(self) -> None:
        """Wait for what is being published or cleaned."""
        while self._cleaning:
            await asyncio.gather(*self._cleaning, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._cleaning.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("cleaning up failed; the sweep will do it", error=str(task.exception()))

    def _clean(self, holding: Holding) -> None:
        self.keep(asyncio.create_task(asyncio.to_thread(self._remove, holding)))

    def _remove(self, holding: Holding) -> None:
        """Remove what an attempt left; sealed outputs stay for the next one, or for the sweep."""
        if manifest.read(self._artifacts.staged_path(holding.folder)) is None:
            self._artifacts.drop(holding.folder)
        self._scratch.drop(holding.folder)


def _read_end(holding: Holding, end: Mapping[str, Any]) -> Ending:
    """What to report for the end that a runner told; raises if that makes no sense."""
    held = holding.lease.held
    if end["how"] == "done":
        artifacts = tuple(Artifact(*fields) for fields in end.get("artifacts", ()))
        result = end["result"]
        if not isinstance(result, dict):
            raise InvalidInput("a runner told a result that is no object")
        report = Completion(held, result, artifacts) if result or artifacts else Completion(held)
        return Ending(holding, report, end.get("key"))
    if end["how"] != "failed":
        return Ending(holding, Failure(held, "the stage was cancelled from within"))
    error = presentable(str(end["error"]))
    if end.get("is_disk_full"):
        return Ending(holding, Release(f"the worker's disk is full: {error}"))
    after_s = check_after_s(end.get("after"))
    sign = str(end.get("sign", ""))
    excuse: Excuse | None = "asked_again" if end.get("asks_again") is True else None
    return Ending(holding, Failure(held, error, bool(end["retryable"]), after_s, sign, excuse))
