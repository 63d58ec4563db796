"""The worker: claims what its runners can take, keeps the leases alive, and reports how the tasks ended.

It runs no user code itself, so nothing that a stage does can keep it from renewing, and it can kill any stage
at any moment. It trusts a lease only until `request sent + lease - margin` by its own clock; past that its
guardian has killed the runner, and the worker writes nothing more for that task.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.scratch import Scratch
from takeup.core.errors import InvalidPipeline, TakeupError
from takeup.core.model import Answer, Brief, Lease, WorkerSpec
from takeup.core.report import check_percent
from takeup.dispatch.bell import Bell
from takeup.engine.answers import Answers
from takeup.engine.carrier import Carrier, LocalCarrier
from takeup.engine.claimer import Claimer
from takeup.engine.clock import boot_clock
from takeup.engine.endings import Endings
from takeup.engine.holding import Hand, Holding, Why
from takeup.engine.keeper import Keeper
from takeup.engine.loop import Breaker, pause
from takeup.engine.notes import Notes
from takeup.engine.options import WorkerOptions
from takeup.engine.reporter import Ending, Reporter
from takeup.engine.runners import Runner, Runners
from takeup.engine.source import Source
from takeup.engine.wire import Frame
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

CANCEL_GRACE_S = 1.0
WATCH_TICK_S = 0.25
LEAVE_TIMEOUT_S = 2.0
UNKNOWN = Brief({}, None)

log = logger("worker")


class Worker:
    """One worker process: a hand of leases, its runners, and the loops around them."""

    def __init__(
        self,
        source: Source,
        options: WorkerOptions,
        bell: Bell,
        *,
        carrier: Callable[[LocalArtifacts], Carrier] | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """Nothing happens before `run`; without a carrier the worker works on the storage itself."""
        self.options = options
        self.id = options.spec.id
        self.hand = Hand()
        self._source = source
        self._bell = bell
        self._clock = clock
        self._artifacts = LocalArtifacts(options.setup.storage)
        self._scratch = Scratch(options.setup.scratch)
        self.runners = Runners(
            options.setup,
            options.processes,
            on_frame=self._hear,
            on_end=self._ended,
            on_line=self._printed,
        )
        self._notes = Notes(source, clock)
        self._reporter = Reporter(source, self.id, clock=clock, settle=self._settle)
        files = carrier(self._artifacts) if carrier else LocalCarrier(source, self._artifacts, clock)
        self._endings = Endings(self._reporter, self._notes, files, (self._artifacts, self._scratch))
        self._answers = Answers(source, self.runners, files, clock)
        self._keeper = Keeper(
            source,
            self.id,
            self.hand,
            clock=clock,
            obey=self._obey,
            glance_every_s=options.glance_s,
            news_every_s=options.news_s,
        )
        self._claimer = Claimer(
            source,
            options,
            runners=self.runners,
            hand=self.hand,
            ear=bell.listen("work"),
            clock=clock,
            place=self._place,
        )
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def stop(self) -> None:
        """Take nothing new and end when all is done; told twice, hand back what runs and end now."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def hurry(self) -> None:
        """Hand back what runs and end now."""
        self._stop.set()
        self._hurry.set()

    async def run(self) -> None:
        """Work until told to stop."""
        await asyncio.to_thread(self._sweep_trash)
        await self.runners.start()
        loops: list[asyncio.Task[None]] = []
        try:
            await self._loaded()
            if self._stop.is_set():
                return
            await self._register()
            loops = [
                self._start_loop(work)
                for work in (
                    self._keeper.run(),
                    self._reporter.run(),
                    self._notes.run(),
                    self._watch(),
                    self._beat(),
                )
            ]
            await self._claimer.run(self._stop, lambda: self._keeper.status == "draining")
            await self._drain()
        finally:
            await self._bounded("runners", self.runners.close())
            await self._bounded("files", self._endings.finish())
            await self._bounded("notes", self._notes.flush_quietly())
            for loop in loops:
                loop.cancel()
            ends = await asyncio.gather(*loops, return_exceptions=True)
            if loops:
                await self._bounded("goodbye", self._say_goodbye())
        faults = [end for end in ends if isinstance(end, Exception)]
        if faults:
            raise faults[0]

    async def _bounded(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """A part of the end that may not hold up the end."""
        try:
            await asyncio.wait_for(work, LEAVE_TIMEOUT_S)
        except TimeoutError:
            log.warning("not done in time", what=what)

    def _start_loop(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A part that must not end before the worker does; if it does, the worker ends too."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else self.hurry())
        return task

    async def _loaded(self) -> None:
        """Wait until a runner knows the pipelines, or knows why it cannot."""
        while self.runners.pipelines is None:
            if self.runners.broken is not None:
                raise InvalidPipeline(self.runners.broken["error"])
            self.runners.changed.clear()
            stopped = asyncio.ensure_future(self._stop.wait())
            changed = asyncio.ensure_future(self.runners.changed.wait())
            await asyncio.wait((stopped, changed), return_when=asyncio.FIRST_COMPLETED)
            for wait in (stopped, changed):
                wait.cancel()
            if self._stop.is_set():
                return

    async def _register(self) -> None:
        """Become known under the stages that the runners can run; wait for a source that is not there yet."""
        spec, breaker = self.options.spec, Breaker(last_s=5.0)
        known = self.runners.pipelines or {}
        stages = tuple(
            f"{pipeline}/{stage}" for pipeline, about in known.items() for stage in about["stages"]
        )
        if not known:
            raise InvalidPipeline(
                "there is no pipeline to work for",
                advice="Name a file: --pipelines flow.py (may be repeated).",
            )
        if spec.stages != ("*",):
            stages = tuple(s for s in stages if s in spec.stages or f"{s.partition('/')[0]}/*" in spec.stages)
        if not stages:
            raise InvalidPipeline(f"none of the stages {', '.join(spec.stages)} is in the loaded pipelines")
        spec = WorkerSpec(**{**{n: getattr(spec, n) for n in spec.__slots__}, "stages": stages})
        while not self._stop.is_set():
            try:
                await self._source.register(spec)
            except TakeupError as error:
                if not error.retryable:
                    raise
                log.warning("not registered yet", error=str(error))
                await pause(self._stop, None, breaker.fail())
            else:
                served = sorted({stage.partition("/")[0] for stage in stages})
                log.info("registered", worker=self.id, slots=spec.slots, pipelines=" ".join(served))
                return

    def _place(self, leases: list[Lease], asked_at: float, is_known: bool) -> None:  # noqa: FBT001 - a callback
        """Hand the tasks to runners with room, the emptiest first; what finds none is handed back."""
        now, waiting = self._clock(), list(leases)
        for runner in sorted(self.runners.all.values(), key=lambda r: -r.free) if is_known else ():
            share, waiting = waiting[: runner.free], waiting[runner.free :]
            if share:
                holdings = [self._hold(lease, runner, asked_at, now) for lease in share]
                until = min(h.trusted_until for h in holdings)
                self.runners.give(runner, [h.start for h in holdings], self._claimer.jobs, until)
        for (
            lease
        ) in waiting:  # a runner ended between the claim and its answer, or nothing is known of the job
            holding = Holding(lease, 0, asked_at, now)
            self.hand.add(holding)
            self._endings.give_back(holding, "it could not be begun")

    def _hold(self, lease: Lease, runner: Runner, asked_at: float, now: float) -> Holding:
        about = (self.runners.pipelines or {})[lease.pipeline]["stages"][lease.stage]
        holding = Holding(
            lease, runner.number, asked_at, now, timeout_s=about["timeout_s"], stall_s=about["stall_s"]
        )
        self.hand.add(holding)
        return holding

    def _hear(self, runner: Runner, frame: Frame) -> None:
        """Something that a runner says about its tasks; only about its own."""
        if frame["op"] == "ended":
            for end in frame["tasks"]:
                self._hear_end(runner, end)
            self.runners.changed.set()
            return
        holding = self.hand.get(frame["id"], frame["epoch"])
        if holding is None or holding.runner != runner.number:
            return
        if frame["op"] == "progress":
            holding.percent = check_percent(frame["percent"])
            holding.note = None if frame["note"] is None else presentable(str(frame["note"]))
            holding.has_news = True
        elif frame["op"] == "ask":
            brief = self._claimer.jobs.get(holding.lease.job_id, UNKNOWN)
            self._endings.keep(asyncio.create_task(self._answers.give(runner, holding, frame, brief)))
        else:
            self._notes.add(holding, frame)

    def _hear_end(self, runner: Runner, end: Frame) -> None:
        task = end["id"], end["epoch"]
        if task not in runner.tasks:
            return
        holding = self.hand.get(*task)
        if holding is not None and holding.runner == runner.number:
            self._endings.ended(holding, end)
        runner.tasks.discard(task)
        if end.get("is_disk_full"):
            self._claimer.note_full_disk()
        if end.get("is_dirty") and not runner.tasks:
            log.warning("a stage left processes behind; they are killed", task=end["id"])
            self.runners.kill(runner)

    def _ended(self, runner: Runner, how: str) -> None:
        """A runner is gone; what ran in it failed, was stopped, or is handed back if others are to blame."""
        lost = self.hand.on(runner.number)
        for holding in lost:
            if holding.stopping is not None:
                self._endings.stopped(holding)
            elif holding.trusted_until <= self._clock():
                self._endings.forget(holding)
            elif runner.fault:
                self._endings.crashed(holding, f"its process {runner.fault}")
            elif len(lost) > 1 or runner.is_ordered:
                self._endings.give_back(holding, f"its runner {how}")
            elif runner.until is not None and runner.until <= self._clock():
                self._endings.give_back(holding, "its worker stood still for too long")
            else:
                self._endings.crashed(holding, f"its process {how}")

    def _printed(self, runner: Runner, line: str) -> None:
        held = self.hand.on(runner.number)
        if line.strip():
            self._notes.printed(held[0] if len(held) == 1 else None, line)

    def _obey(self, holding: Holding, answer: Answer) -> None:
        if answer.accepted:
            if answer.order == "drain":
                self._keeper.status = "draining"
        elif not holding.has_ended and holding.stopping is None:
            why: Why = "lost"
            if answer.order in ("cancel", "stalled"):
                why = answer.order
            log.info("stopping a task", **holding.about, why=why, reason=answer.reason)
            self._halt(holding, why)

    def _halt(self, holding: Holding, why: Why) -> None:
        """Ask a task to stop, and kill its runner if it does not within a moment."""
        holding.stopping = why
        holding.kill_at = self._clock() + CANCEL_GRACE_S
        runner = self.runners.all.get(holding.runner)
        if runner is not None:
            task = {"id": holding.lease.task_id, "epoch": holding.lease.token.epoch}
            self.runners.tell(runner, {"op": "cancel", **task})

    def _reckon(self) -> None:
        """Tell the guardian until when each runner may live: as long as the shortest trust of its tasks."""
        until: dict[int, float] = {}
        for holding in self.hand:
            if not holding.has_ended:
                until[holding.runner] = min(until.get(holding.runner, holding.dies_at), holding.dies_at)
        for runner in self.runners.all.values():
            self.runners.extend(runner, until.get(runner.number), self._clock())

    async def _watch(self) -> None:
        """Kill what does not stop, what takes too long and what can no longer be trusted."""
        while True:
            await asyncio.sleep(WATCH_TICK_S)
            now = self._clock()
            self._reckon()
            for holding in self.hand:
                runner = self.runners.all.get(holding.runner)
                if holding.has_ended:
                    continue
                if holding.kill_at is not None and holding.kill_at <= now:
                    holding.kill_at = None
                    if runner is not None:
                        self.runners.kill(runner)
                    else:
                        self._endings.stopped(holding)
                elif holding.stopping is None and holding.trusted_until <= now:
                    log.warning("lease not trusted any more", **holding.about)
                    self._halt(holding, "lost")
                    holding.kill_at = now
                elif holding.stopping is None and _is_too_long(holding, now):
                    self._halt(holding, "timeout")

    async def _beat(self) -> None:
        while True:
            try:
                statuses = await self._source.heartbeat([self.id])
                self._claimer.note_contact()
                self._claimer.note_standing(statuses.get(self.id))
                if self.id not in statuses:
                    log.warning("the database does not know this worker; it registers again")
                    await self._register()
            except TakeupError as error:
                log.warning("no heartbeat", error=str(error))
            await asyncio.sleep(self.options.heartbeat_s)

    def _settle(self, settled: Sequence[tuple[Ending, Answer | None]]) -> None:
        """Reports were answered, or can no longer be sent."""
        jobs = set()
        for ending, answer in settled:
            self.hand.drop(ending.holding)
            self._endings.settle(ending, answer)
            if answer is not None and answer.accepted:
                jobs.add(ending.holding.lease.job_id)
                if answer.status == "DONE":
                    self._claimer.note_success()
        self.runners.changed.set()
        if jobs:
            self._bell.ring("jobs", sorted(jobs))

    async def _drain(self) -> None:
        """Let running tasks end; when the time is over end them, and hand back what they were."""
        deadline = self._clock() + self.options.drain_s
        while len(self.hand) and not self._hurry.is_set() and self._clock() < deadline:
            await pause(self._hurry, None, WATCH_TICK_S)
        for holding in self.hand:
            if not holding.has_ended and holding.stopping is None:
                holding.stopping = "drained"
        for runner in list(self.runners.all.values()):
            self.runners.kill(runner)
        await self._bounded("runners", self._no_stage_runs())
        for holding in self.hand:
            if not holding.has_ended:
                self._endings.stopped(holding)
        await self._bounded("reports", self._reporter.wait_idle())

    async def _no_stage_runs(self) -> None:
        while any(not holding.has_ended for holding in self.hand):
            self.runners.changed.clear()
            await self.runners.changed.wait()

    async def _say_goodbye(self) -> None:
        try:
            await self._source.leave([self.id])
        except TakeupError as error:
            log.warning("left without a word", error=str(error))

    def _sweep_trash(self) -> None:
        for folder in (self.options.setup.storage, self.options.setup.scratch):
            folder.mkdir(parents=True, exist_ok=True)
        self._artifacts.sweep_trash()
        self._scratch.sweep_trash()


def _is_too_long(holding: Holding, now: float) -> bool:
    return holding.timeout_s is not None and now - holding.started_at > holding.timeout_s
