"""A simulated worker: it follows the protocol that a real one must follow, and may die anywhere in it."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from takeup.core.model import Artifact, Completion, Failure, Lease, Progress, WorkerSpec
from takeup.core.policy import renew_every_s, trusted_until
from takeup.store.ops.claim import ClaimRequest
from takeup.testing import crash
from takeup.testing.sim.kernel import SECOND, Effect, Mailbox, Process
from takeup.testing.sim.plan import DEFER_S, HEARTBEAT_S, MARGIN_S, POLL_S
from takeup.testing.sim.world import World, fence_of

FOREVER_S = 10_000.0
KEEPS_ON_S = 40.0
"""How long a worker that never looks goes on."""
Steps = Generator[Effect, Any, None]


@dataclass(eq=False)
class SimWorker:
    """A worker host: a main loop that claims, and a runner for each lease."""

    world: World
    spec: WorkerSpec
    status: str = "active"
    incarnation: int = 0
    running: dict[int, Process] = field(default_factory=dict)
    hung: bool = False
    """The next attempt that looks will hang."""

    def __post_init__(self) -> None:
        """Nobody has written to it yet."""
        self.mailbox = Mailbox()

    def boot(self, delay_s: float = 0.0) -> None:
        """Start, or start again under the same id."""
        self.incarnation += 1
        self.mailbox = Mailbox()
        self.running = {}
        name = f"{self.spec.id}.{self.incarnation}"
        me = self.world.kernel.spawn(name, self.spec.id, self._main, int(delay_s * SECOND))
        me.on_crash = self.crash

    def crash(self, down_s: float = 1.0) -> None:
        """Die with everything that runs here, and come back later."""
        kernel = self.world.kernel
        for process in kernel.processes:
            if process.host == self.spec.id:
                kernel.kill(process)
        self.boot(down_s)

    def pause(self, length_s: float) -> None:
        """Stop every process of this host for a while; none of them notices."""
        kernel = self.world.kernel
        for process in kernel.processes:
            if process.host == self.spec.id and process.is_alive:
                process.paused_until = kernel.now + int(length_s * SECOND)

    @property
    def mono(self) -> float:
        """The clock of this host."""
        return self.world.mono(self.spec.id)

    def _free(self) -> int:
        return self.spec.slots - sum(process.is_alive for process in self.running.values())

    def _main(self, me: Process) -> Steps:
        yield from self._register(me)
        beat_at = self.mono + HEARTBEAT_S
        while True:
            is_full = False
            if self.status == "active" and self._free() > 0:
                is_full = yield from self._claim(me)
            if self.mono >= beat_at:
                before = self.status
                yield from self._beat(me)
                beat_at = self.mono + HEARTBEAT_S
                if before != "active" and self.status == "active":
                    continue  # it may claim again: at once
            if self.status == "draining" and self._free() == self.spec.slots:
                yield from self._leave(me)
            if is_full and self._free() > 0:
                continue
            wait_s = max(beat_at - self.mono, 0.01)
            if self.status == "active" and self._free() > 0 and self.world.rules.polls:
                wait_s = min(wait_s, POLL_S * (0.75 + 0.25 * self.world.kernel.random.random()))
            topic = "worker" if self.status == "active" and self._free() > 0 else "nothing"
            hint = yield from self.world.hints.wait(topic, self.mailbox, int(wait_s * SECOND))
            if hint == "worker":
                crash.point("worker.after hint")
            elif not self.world.rules.polls:
                yield from self._await_hint(me, beat_at)

    def _await_hint(self, me: Process, beat_at: float) -> Steps:
        """Without polling, only a hint or a free slot leads to the next claim."""
        while True:
            if self.mono >= beat_at:
                yield from self._beat(me)
                beat_at = self.mono + HEARTBEAT_S
            hint = yield from self.world.hints.wait("worker", self.mailbox, int(HEARTBEAT_S * SECOND))
            if hint is not None:
                return

    def _register(self, me: Process) -> Steps:
        spec = self.spec
        logged = {
            "worker": spec.id,
            "slots": spec.slots,
            "capabilities": sorted(spec.capabilities),
            "stages": list(spec.stages),
        }
        while True:
            answer = yield from self.world.call(me, "register", (spec,), {}, logged)
            if answer.kind == "ok":
                self.status = "active"
                return
            yield SECOND

    def _beat(self, me: Process) -> Steps:
        answer = yield from self.world.call(
            me, "heartbeat", ([self.spec.id],), {}, {"worker": self.spec.id}, tries=1
        )
        if answer.kind == "ok":
            self.status = answer.value.get(self.spec.id, "active")

    def _leave(self, me: Process) -> Steps:
        yield from self.world.call(me, "leave", ([self.spec.id],), {}, {"worker": self.spec.id})
        yield 2 * SECOND
        yield from self._register(me)

    def _claim(self, me: Process) -> Generator[Effect, Any, bool]:
        """Claim for every free slot; answers whether all of them were filled, so that more may be waiting."""
        world = self.world
        request_id = world.new_request(me)
        secret = f"{world.kernel.random.getrandbits(160):040x}"
        request = ClaimRequest(self.spec.id, request_id, secret, self._free(), DEFER_S)
        begun = self.mono
        answer = yield from world.call(
            me, "claim", (request,), {}, {"worker": self.spec.id}, request_id=request_id
        )
        if answer.kind != "ok":
            return False
        crash.point("worker.after claim")
        for lease in answer.value:
            if world.rules.removes_at_claim:
                world.remove_files(me, lease.job_id)
            trusted = trusted_until(begun, lease.lease_s, MARGIN_S)
            runner = world.kernel.spawn(me.name, self.spec.id, Attempt(self, lease, trusted).run)
            runner.on_crash = self.crash
            self.running[lease.task_id] = runner
        return len(answer.value) == request.limit


@dataclass(eq=False)
class Attempt:
    """The work on one lease, from its claim to its report."""

    worker: SimWorker
    lease: Lease
    trusted: float
    is_hung: bool = False
    is_told: bool = False
    """Whether the worker was told to drain."""

    def __post_init__(self) -> None:
        """What this attempt will do, decided by the seed, the task and the attempt alone."""
        lease, world = self.lease, self.worker.world
        self.me: Process
        self.fence = fence_of(lease)
        what = (lease.stage, lease.segment, lease.task_id, lease.token.epoch)
        self.luck = world.luck("outcome", *what)
        self.can_stall = lease.pipeline == "gpu" or lease.stage == "right"
        """Its stage has a limit without progress, so that a renewal alone does not keep a hung attempt."""
        self.begun = 0.0
        self.work_s = 0.2 + world.luck("work", *what) ** 1.5 * lease.lease_s * 1.3

    def run(self, me: Process) -> Steps:
        """Work, renew, and report; stop as soon as the lease cannot be trusted."""
        self.me = me
        if (yield from self._work()):
            yield from self._report()
        self.worker.world.kernel.post(self.worker.mailbox, "free")

    def _work(self) -> Generator[Effect, Any, bool]:
        """Work to the end, or stop where the lease is lost; answers whether there is something to report."""
        worker = self.worker
        self.begun = worker.mono
        renew_at, ends_at = self.begun + renew_every_s(self.lease.lease_s), self.begun + self.work_s
        if not self._may_go_on():
            return False  # the answer to the claim came too late
        self._stage()
        while True:
            self._maybe_hang()
            renews = not self.is_hung or self.can_stall
            next_at = min(FOREVER_S if self.is_hung else ends_at, renew_at if renews else FOREVER_S)
            yield from self._sleep_until(next_at)
            if not self._may_go_on():
                return False
            if worker.mono >= ends_at and not self.is_hung:
                self._stage()
                return True
            if renews and worker.mono >= renew_at:
                renew_at = worker.mono + renew_every_s(self.lease.lease_s)
                if not (yield from self._renew(worker.mono)):
                    return False

    def _may_go_on(self) -> bool:
        """Whether the lease can be trusted still, by the worker's own clock."""
        limit = self.begun + KEEPS_ON_S if self.worker.world.rules.keeps_on else self.trusted
        return self.worker.mono < limit

    def _maybe_hang(self) -> None:
        if self.worker.hung and not self.is_hung:
            self.worker.hung, self.is_hung = False, True
            self.worker.world.kernel.counts["hang"] += 1

    def _sleep_until(self, at: float) -> Steps:
        """Sleep, but look at the trust window in time, and at least once in a second."""
        if not self.worker.world.rules.keeps_on:
            at = min(at, self.trusted)
        length_s = min(at - self.worker.mono, 1.0)
        if length_s > 0:
            yield max(int(length_s * SECOND), 1)

    def _stage(self) -> None:
        """Write into the staging folder that the token names."""
        self.worker.world.write_file(self.me, "stage", self.fence, self.lease.job_id, "staging")

    def _renew(self, begun: float) -> Generator[Effect, Any, bool]:
        """Extend the lease; the answer may say to stop."""
        percent = None if self.is_hung else 50.0
        held = {"worker": self.worker.spec.id, "held": [self.fence]}
        request_id = self.worker.world.new_request(self.me)
        answer = yield from self.worker.world.call(
            self.me,
            "renew",
            (self.worker.spec.id, [Progress(self.lease.held, percent)]),
            {"request_id": request_id},
            held,
            request_id=request_id,
            tries=1,
        )
        if answer.kind != "ok":
            return True
        (told,) = answer.value
        if not told.accepted:
            return self.worker.world.rules.keeps_on
        self.trusted = max(self.trusted, trusted_until(begun, self.lease.lease_s, MARGIN_S))
        if told.order == "drain":
            self.worker.status = "draining"
            self.is_told = True
        return True

    def _report(self) -> Steps:
        world, lease, worker_id = self.worker.world, self.lease, self.worker.spec.id
        if world.rules.publishes_early:
            world.write_file(self.me, "publish", self.fence, lease.job_id, "answer")
        crash.point("worker.before complete")
        op, args, options, extra = self._finish()
        request_id = world.new_request(self.me)
        logged = {"worker": worker_id, "held": [self.fence], **extra}
        answer = yield from world.call(
            self.me,
            op,
            (worker_id, args),
            {**options, "request_id": request_id},
            logged,
            request_id=request_id,
        )
        crash.point("worker.after complete")
        is_won = answer.kind == "ok" and answer.value[0].accepted and op == "complete"
        if is_won and not world.rules.publishes_early:
            world.write_file(self.me, "publish", self.fence, lease.job_id, "answer")
            crash.point("worker.after publish")

    def _finish(self) -> tuple[str, list[Any], dict[str, Any], dict[str, Any]]:
        """How this attempt ends: done, failed, failed for good, or handed back."""
        lease = self.lease
        if self.luck < (0.5 if self.is_told else 0.07):
            return "release", [lease.held], {}, {}
        if self.luck < 0.32:
            retryable = self.luck > 0.1
            failure = Failure(lease.held, "the simulated work failed", retryable)
            luck = self.worker.world.luck("jitter", lease.task_id, lease.token.epoch)
            extra = {"retryable": [retryable], "after_s": [None]}
            return "fail", [failure], {"luck": lambda: luck}, extra
        task, epoch, hash_ = self.fence
        artifact = Artifact("out", f"{task}:{epoch}:{hash_}", "0" * 64, 1)
        result = {"segments": self._segments()} if lease.stage == "split" else {}
        return "complete", [Completion(lease.held, result, (artifact,))], {}, {}

    def _segments(self) -> int:
        return int(self.worker.world.luck("segments", self.lease.job_id) * 4)
