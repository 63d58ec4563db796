"""The simulated machine: processes as generators, one clock, a seeded order, one writer's lock.

A process yields how long it sleeps (whole microseconds), a `Wait` for a message, or `ACQUIRE` for the lock
of the only writer. Between two yields nothing else runs; at each of them anything else may happen.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from takeup.testing.crash import Crashed

SECOND = 1_000_000
BUSY_US = 5 * SECOND
"""How long a process waits for the writer's lock before it gives up."""

START: Final = datetime(2030, 1, 1, tzinfo=UTC)


class _Acquire:
    """Ask for the writer's lock; the answer says whether it was given in time."""


ACQUIRE = _Acquire()
GRANTED = "granted"
"""The answer to `ACQUIRE`, or None after too long a wait."""


class Mailbox:
    """Where one process waits for messages of others."""

    __slots__ = ("messages", "reader")

    def __init__(self) -> None:
        """Empty, with nobody waiting."""
        self.messages: list[Any] = []
        self.reader: Process | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Sleep until a message comes, at most this long; the answer is the message or None."""

    mailbox: Mailbox
    timeout_us: int


Effect = int | Wait | _Acquire
Body = Generator[Effect, Any, None]


@dataclass(eq=False, slots=True)
class Process:
    """One running thing; `host` names the machine it dies with."""

    name: str
    host: str
    body: Body = field(init=False)
    ticket: int = 0
    is_alive: bool = True
    paused_until: int = 0
    on_crash: Callable[[], None] | None = None
    waits_at: Mailbox | None = None


class SimClock:
    """The database's clock: it may jump ahead, and stands still when the host's is set back."""

    def __init__(self, kernel: "Kernel") -> None:
        """Follow the kernel's time."""
        self._kernel = kernel
        self.shift_us = 0
        self._latest = 0

    def now(self) -> datetime:
        """The database's time."""
        self._latest = max(self._latest, self._kernel.now + self.shift_us)
        return START + timedelta(microseconds=self._latest)


@dataclass(eq=False)
class Kernel:
    """The scheduler of one schedule."""

    random: Random
    now: int = 0
    faults_until: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """What was injected and what happened, by kind."""

    def __post_init__(self) -> None:
        """Nothing runs yet."""
        self._heap: list[tuple[int, int, Process, int, Any]] = []
        self._number = 0
        self._until = 0
        self.processes: list[Process] = []
        self.lock: Process | None = None
        self._queue: list[Process] = []
        self.clock = SimClock(self)
        self.errors: list[str] = []
        """Errors of the code under test that no outside fault explains."""

    @property
    def may_fault(self) -> bool:
        """Whether anything may still go wrong."""
        return self.now < self.faults_until

    def passes(self, length_us: int) -> bool:
        """Let a short time pass at once if nobody else would run meanwhile; else the caller must yield it."""
        at = self.now + length_us
        if at > self._until or (self._heap and self._heap[0][0] <= at):
            return False
        self.now = at
        return True

    def spawn(self, name: str, host: str, make: Callable[["Process"], Body], delay_us: int = 0) -> Process:
        """Start a process after a delay."""
        process = Process(name, host)
        process.body = make(process)
        self.processes.append(process)
        self._push(delay_us, process, None)
        return process

    def post(self, mailbox: Mailbox, message: Any) -> None:
        """Put a message into a mailbox and wake its reader."""
        reader = mailbox.reader
        if reader is None or not reader.is_alive:
            mailbox.messages.append(message)
            return
        mailbox.reader = reader.waits_at = None
        self._push(0, reader, message)

    def run(self, until_us: int, is_done: Callable[[], bool]) -> None:
        """Let time pass until this moment, or until nothing is left to wait for."""
        heap, self._until = self._heap, until_us
        while heap and heap[0][0] <= until_us:
            at, _, process, ticket, value = heapq.heappop(heap)
            if ticket != process.ticket or not process.is_alive:
                continue
            self.now = at
            if process.paused_until > at:
                self._push(process.paused_until - at, process, value)
                continue
            self._resume(process, value)
            if is_done():
                return
        self.now = max(self.now, min(until_us, heap[0][0]) if heap else until_us)

    def kill(self, process: Process) -> None:
        """End a process where it stands; an open transaction is rolled back."""
        if process.is_alive:
            process.is_alive = False
            process.ticket += 1
            process.body.close()
            if self.lock is process:
                self.release()

    def release(self) -> None:
        """Give the writer's lock to one of those who wait for it, as chance decides."""
        self.lock = None
        self._queue = [process for process in self._queue if process.is_alive]
        if self._queue:
            chosen = self._queue.pop(int(self.random.random() * len(self._queue)))
            self.lock = chosen
            self._push(0, chosen, GRANTED)

    def end(self) -> None:
        """Stop everything."""
        for process in self.processes:
            self.kill(process)

    def _push(self, delay_us: int, process: Process, value: Any) -> None:
        process.ticket += 1
        self._number += 1
        heapq.heappush(self._heap, (self.now + delay_us, self._number, process, process.ticket, value))

    def _resume(self, process: Process, value: Any) -> None:
        if process.waits_at is not None:
            process.waits_at.reader = None
            process.waits_at = None
        if process in self._queue:
            self._queue.remove(process)
            self.counts["busy"] += 1
            value = None
        try:
            effect = process.body.send(value)
        except StopIteration:
            process.is_alive = False
            return
        except Crashed:
            self._fall(process)
            return
        except Exception as error:  # noqa: BLE001 - whatever the code under test throws is a finding
            self.errors.append(f"{process.name}: {type(error).__name__}: {error}")
            self._fall(process)
            return
        if type(effect) is int:
            self._push(effect, process, None)
        elif isinstance(effect, Wait):
            self._wait(process, effect)
        elif self.lock is None:
            self.lock = process
            self._push(0, process, GRANTED)
        else:
            self._queue.append(process)
            self._push(BUSY_US, process, None)

    def _fall(self, process: Process) -> None:
        process.is_alive = False
        if process.on_crash is not None:
            process.on_crash()

    def _wait(self, process: Process, wait: Wait) -> None:
        if wait.mailbox.messages:
            self._push(0, process, wait.mailbox.messages.pop(0))
            return
        wait.mailbox.reader = process
        process.waits_at = wait.mailbox
        self._push(wait.timeout_us, process, None)
