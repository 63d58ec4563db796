"""One schedule from its seed to its verdict."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from takeup.core.model import Event
from takeup.testing import crash
from takeup.testing.history import Call, Settings, Tables, Violation, check
from takeup.testing.sim import plan as plans
from takeup.testing.sim.kernel import SECOND, START, Body, Process
from takeup.testing.sim.plan import Fault, Plan
from takeup.testing.sim.services import Operator, Service, orchestrate, recover
from takeup.testing.sim.worker import SimWorker
from takeup.testing.sim.world import Rules, World

SETTINGS = Settings(
    recovery_s=plans.RECOVERY_S,
    poll_s=plans.POLL_S,
    defer_s=plans.DEFER_S,
    slack_s=2.5,
    log_lag_s=0.0,
    margin_s=plans.MARGIN_S,
    stop_s=2.0,
    offline_s=plans.OFFLINE_S,
    is_serial=True,
)
FAIR = Rules()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a schedule."""

    plan: Plan
    events: list[Event]
    calls: list[Call]
    tables: Tables
    violations: list[Violation]
    counts: Counter[str]
    """Faults that really happened, by kind."""

    def digest(self) -> str:
        """A hash of the whole history: equal for equal runs."""
        text = "\n".join(map(repr, [*self.events, *self.calls]))
        return hashlib.sha256(text.encode()).hexdigest()


def run(seed: int, rules: Rules = FAIR, *, only: frozenset[int] | None = None) -> Outcome:
    """Run the schedule of this seed; `only` keeps just these of its faults, by their place in the plan."""
    plan = plans.draw(seed)
    if only is not None:
        plan = replace(plan, faults=tuple(f for number, f in enumerate(plan.faults) if number in only))
    return run_plan(plan, rules)


def run_plan(plan: Plan, rules: Rules = FAIR) -> Outcome:
    """Run a plan: faults first, then a quiet phase until everything is finished."""
    world = World(plan, rules)
    schedule = _Schedule(world)
    schedule.start()
    points = {fault.target: int(fault.at) for fault in plan.faults if fault.kind == "crash_point"}
    quiet_us, end_us = int(plans.QUIET_S * SECOND), int(plans.END_S * SECOND)
    if points:
        with crash.armed(crash.Armed(points, schedule.collapse)):
            world.kernel.run(int(plans.FAULTS_S * SECOND), schedule.is_done)
    world.kernel.run(quiet_us, schedule.is_done)
    quiet_from = world.kernel.clock.now()
    if not schedule.is_finished:
        schedule.calm()
        world.kernel.run(end_us, schedule.is_done)
    world.kernel.end()
    events, tables = world.database.history()
    ended_at = world.kernel.clock.now()
    settings = replace(SETTINGS, quiet_from=quiet_from, ended_at=ended_at)
    violations = check(events, world.calls, tables, settings)
    violations += [
        Violation("STORE", f"the store refused its own operation: {error}")
        for error in dict.fromkeys(world.kernel.errors)
    ]
    return Outcome(plan, events, world.calls, tables, violations, world.kernel.counts)


class _Schedule:
    """Starts everybody, injects the faults that come by the clock, and knows when all is done."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hosts: dict[str, SimWorker | Service] = {}
        self.operator = Operator(world)
        self.is_finished = False
        self._checked_at = 0

    def start(self) -> None:
        world, plan = self.world, self.world.plan
        for spec in plan.workers:
            self.hosts[spec.id] = SimWorker(world, spec)
        for number in range(plan.orchestrators):
            self.hosts[f"orchestrator{number}"] = Service(world, f"orchestrator{number}", orchestrate)
        for number in range(plan.recoveries):
            self.hosts[f"recovery{number}"] = Service(world, f"recovery{number}", recover)
        for host in self.hosts.values():
            host.boot(0.4 + world.kernel.random.random())
        self.operator.start()
        for fault in plan.faults:
            if fault.kind in ("cut", "stall_step"):
                world.database.step_faults[int(fault.at)] = fault.kind, int(fault.length_s * SECOND)
            elif fault.kind in ("crash", "pause", "hang", "outage", "clock_ahead", "clock_back"):
                world.kernel.spawn(fault.kind, "nemesis", self._strike(fault), int(fault.at * SECOND))

    def collapse(self, name: str) -> None:
        """A crash point fires, unless the time of faults is over."""
        if self.world.kernel.may_fault:
            self.world.kernel.counts["crash_point"] += 1
            self.world.kernel.counts[f"crash_point {name}"] += 1
            raise crash.Crashed(name)

    def calm(self) -> None:
        """The quiet phase begins."""
        self.world.kernel.spawn("client calm", "client", self.operator.calm)

    def is_done(self) -> bool:
        """Looked at often, so it asks the database only once in a simulated second."""
        kernel = self.world.kernel
        if kernel.now < self._checked_at + SECOND or self.world.actions_left or kernel.lock is not None:
            return False
        self._checked_at = kernel.now
        live = self.world.database.peek(
            "SELECT 1 FROM jobs WHERE finished_at IS NULL "
            "UNION ALL SELECT 1 FROM outbox WHERE finished_at IS NULL"
        )
        self.is_finished = not live and not any(
            process.is_alive and process.host == "server" for process in kernel.processes
        )
        return self.is_finished

    def _strike(self, fault: Fault) -> Callable[[Process], Body]:
        def body(_me: Process) -> Body:
            yield 0
            kernel = self.world.kernel
            host = self.hosts.get(fault.target)
            if fault.kind == "hang" and isinstance(host, SimWorker):
                host.hung = True
                return
            kernel.counts[fault.kind] += 1
            if fault.kind == "crash" and host is not None:
                host.crash(fault.length_s)
            elif fault.kind == "pause" and host is not None:
                host.pause(fault.length_s)
            elif fault.kind == "clock_ahead":
                kernel.clock.shift_us += int(fault.length_s * SECOND)
            elif fault.kind == "clock_back":
                kernel.clock.shift_us -= int(fault.length_s * SECOND)
            elif fault.kind == "outage":
                self.world.database.is_down = True
                yield int(fault.length_s * SECOND)
                self.world.database.is_down = False

        return body


def describe(outcome: Outcome) -> list[str]:
    """The history as lines to read."""
    lines: list[tuple[Any, str]] = []
    for event in outcome.events:
        where = f"task {event.task_id}" if event.task_id is not None else event.worker_id or event.job_id
        what = f"{event.from_status} > {event.to_status} epoch {event.epoch} attempt {event.attempt}"
        who = f"{event.actor} {event.worker_id or ''}"
        text = f"  {event.seq:4} {event.noun} {where} {event.event} by {who} {what}"
        lines.append((event.logged_at, f"{text} {event.request_id or ''} {event.reason or ''}".rstrip()))
    for call in outcome.calls:
        value = "" if call.value is None else f" = {call.value}"
        text = f"{call.process} {call.op} {call.phase} {call.request_id or ''} {dict(call.args)}{value}"
        lines.append((call.wall, f"       {text}"))
    ordered = sorted(lines, key=lambda line: line[0])
    return [f"{(at - START) / timedelta(seconds=1):9.4f} {text}" for at, text in ordered]
