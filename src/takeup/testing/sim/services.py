"""The loops of the control plane: the orchestrator, the recovery loop with its outbox, and the operator."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from takeup.core.budget import ErrorBudget
from takeup.core.errors import TakeupError
from takeup.core.ids import digest
from takeup.core.plan import JobPlan, NewJob, plan_job
from takeup.testing import crash
from takeup.testing.sim.kernel import SECOND, Body, Effect, Mailbox, Process
from takeup.testing.sim.plan import FAULTS_S, OFFLINE_S, PIPELINES, RECOVERY_S, SWEEP_S, Action
from takeup.testing.sim.world import World

Steps = Generator[Effect, Any, None]


@dataclass(eq=False)
class Service:
    """A loop on a host of its own, which comes back after a crash."""

    world: World
    host: str
    loop: Callable[["Service", Process], Body]
    incarnation: int = 0

    def boot(self, delay_s: float = 0.0) -> None:
        """Start, or start again."""
        self.incarnation += 1
        name = f"{self.host}.{self.incarnation}"
        me = self.world.kernel.spawn(name, self.host, lambda me: self.loop(self, me), int(delay_s * SECOND))
        me.on_crash = self.crash

    def crash(self, down_s: float = 1.0) -> None:
        """Die and come back later."""
        kernel = self.world.kernel
        for process in kernel.processes:
            if process.host == self.host:
                kernel.kill(process)
        self.boot(down_s)

    def pause(self, length_s: float) -> None:
        """Stop for a while without noticing it."""
        kernel = self.world.kernel
        for process in kernel.processes:
            if process.host == self.host and process.is_alive:
                process.paused_until = kernel.now + int(length_s * SECOND)


def orchestrate(service: Service, _me: Process) -> Steps:
    """Advance every live job, now and then or when told to look."""
    world, mailbox = service.world, Mailbox()
    while True:
        try:
            jobs = yield from world.run("live_jobs", "", 100)
            if jobs:
                done = yield from world.run("advance", jobs, 1000)
                if done.ready or done.expanded:
                    world.hints.push("worker")
                if done.expanded or done.has_more:
                    continue
        except TakeupError as error:
            note(world, error)
        yield from world.hints.wait("orchestrator", mailbox, int(SWEEP_S * SECOND))


def recover(service: Service, me: Process) -> Steps:
    """Take back leases that are over, wake retries, send messages."""
    world, begun = service.world, service.world.kernel.now
    restart_us = int((world.plan.restart_every_s or 0) * SECOND)
    while True:
        for step in (_take_back, _wake, _lose, _judge, _send):
            try:
                yield from step(world, me, world.kernel.now - begun)
            except TakeupError as error:
                note(world, error)
        if restart_us and world.kernel.now - begun >= restart_us:
            begun = world.kernel.now
            world.log(me, "restart", "ok", {})
        yield int(RECOVERY_S * SECOND * (0.8 + 0.2 * world.kernel.random.random()))


def note(world: World, error: TakeupError) -> None:
    """A loop goes on after an error that will pass; any other is a fault of the store itself."""
    if not error.retryable:
        world.kernel.errors.append(f"{type(error).__name__}: {error}")


def _take_back(world: World, _me: Process, age_us: int) -> Steps:
    if age_us >= world.rules.grace_s * SECOND and (yield from world.run("expire", 100)):
        world.hints.push("worker")
        world.hints.push("orchestrator")


def _wake(world: World, _me: Process, _age_us: int) -> Steps:
    if (yield from world.run("wake", 100)):
        world.hints.push("worker")


def _lose(world: World, _me: Process, _age_us: int) -> Steps:
    if world.kernel.random.random() < 0.4:
        yield from world.run("lose", OFFLINE_S, 100)


def _judge(world: World, _me: Process, _age_us: int) -> Steps:
    """Quarantine with hardly any patience, as long as the operator will let everybody back."""
    if world.kernel.may_fault:
        yield from world.run("quarantine", ErrorBudget(1, FAULTS_S))


def _send(world: World, me: Process, _age_us: int) -> Steps:
    """Send what is due; a finished job's files are published once more, from what the database says."""
    messages = yield from world.run("take", 100, 8.0)
    for message in messages:
        crash.point("recovery.before deliver")
        if world.kernel.may_fault and world.kernel.random.random() < 0.2:
            world.kernel.counts["refused_message"] += 1
            yield from world.run("retry", [message], "refused", 1.0)
            continue
        if message.topic == "job.completed":
            yield from _publish(world, me, message.subject)
        yield from world.run("deliver", [message])


def _publish(world: World, me: Process, job_id: str) -> Steps:
    artifacts = yield from world.run("artifacts", job_id, 1000)
    for artifact in artifacts:
        task, epoch, hash_ = artifact.key.split(":")
        world.write_file(me, "publish", (int(task), int(epoch), hash_), job_id, "outbox")
    if artifacts:
        world.remove_files(me, job_id)


@cache
def _plan(pipeline: int, body: int) -> JobPlan:
    return plan_job(NewJob(PIPELINES[pipeline], {"body": body}))


@dataclass(eq=False)
class Operator:
    """The people: each action is a request of its own."""

    world: World

    def start(self) -> None:
        """Let every action happen at its time."""
        for action in self.world.plan.actions:
            self.world.kernel.spawn(
                f"client {action.kind}", "client", self._act(action), int(action.at_s * SECOND)
            )

    def _act(self, action: Action) -> Callable[[Process], Body]:
        def body(me: Process) -> Body:
            if action.kind in ("submit", "submit_other_body", "again"):
                yield from self._submit(me, action)
            elif action.kind in ("drain", "disable", "enable"):
                yield from self._manage(me, action)
            elif action.job in self.world.job_ids:
                yield from self._change(me, action, self.world.job_ids[action.job])
            self.world.actions_left -= 1

        return body

    def _submit(self, me: Process, action: Action) -> Steps:
        world, job = self.world, self.world.plan.jobs[action.job]
        body = 1 if action.kind == "submit_other_body" else 0
        key = f"{job.key}-again" if job.key and action.kind == "again" else job.key
        plan = replace(
            _plan(job.pipeline, body),
            idempotency_key=key,
            subject=job.subject,
            priority=job.priority,
            user_id="u",
        )
        request_id = world.new_request(me)
        asked = {"user": "u", "key": key, "spec_hash": digest(plan.spec_hash), "priority": job.priority}

        answer = yield from world.call(
            me,
            "submit",
            (plan,),
            {"request_id": request_id},
            {"jobs": [asked]},
            request_id=request_id,
            tries=4 if key else 1,
        )
        if answer.kind == "ok":
            world.job_ids[action.job] = answer.value[0]

    def _manage(self, me: Process, action: Action) -> Steps:
        logged = {"worker": action.value}
        if action.kind == "drain":
            yield from self.world.call(me, "drain", ([action.value],), {}, logged)
        else:
            options = {"disabled": action.kind == "disable"}
            yield from self.world.call(me, "set_disabled", ([action.value],), options, logged)

    def _change(self, me: Process, action: Action, job_id: str) -> Steps:
        controls = {"pause": "PAUSED", "resume": "READY", "skip": "SKIP"}
        if action.kind == "cancel":
            yield from self.world.call(me, "cancel", ([job_id],), {}, {})
        elif action.kind in controls:
            yield from self.world.call(me, "set_control", ([job_id], controls[action.kind]), {}, {})
        elif action.kind == "priority":
            yield from self.world.call(me, "set_priority", ([job_id], action.value), {}, {})
        else:
            yield from self._change_task(me, controls[action.kind.removesuffix("_task")], job_id)

    def _change_task(self, me: Process, control: str, job_id: str) -> Steps:
        rows = self.world.database.peek(f"SELECT id FROM tasks WHERE job_id = '{job_id}' ORDER BY id LIMIT 2")  # noqa: S608
        for row in rows[-1:]:
            yield from self.world.call(me, "set_task_control", ([row["id"]], control), {}, {})

    def calm(self, me: Process) -> Steps:
        """Before the quiet phase, take back everything that would hold work up."""
        peek = self.world.database.peek
        jobs = [
            row["id"] for row in peek("SELECT id FROM jobs WHERE control = 'PAUSED' AND finished_at IS NULL")
        ]
        tasks = [
            row["id"] for row in peek("SELECT id FROM tasks WHERE control = 'PAUSED' AND finished_at IS NULL")
        ]
        workers = [
            row["id"] for row in peek("SELECT id FROM workers WHERE disabled OR quarantined_at IS NOT NULL")
        ]
        for job_id in jobs:
            yield from self.world.call(me, "set_control", ([job_id], "READY"), {}, {})
        for task_id in tasks:
            yield from self.world.call(me, "set_task_control", ([task_id], "READY"), {}, {})
        if workers:
            yield from self.world.call(me, "set_disabled", (workers,), {"disabled": False}, {})
