"""Messages between the simulated machines: requests and answers that get lost, late or doubled, and hints."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from takeup.core.errors import StoreError, StoreUnavailable, TakeupError
from takeup.testing.crash import Crashed
from takeup.testing.sim.kernel import SECOND, Effect, Kernel, Mailbox, Process, Wait
from takeup.testing.sim.plan import HINT_FAULTS, MESSAGE_FAULTS, Fault

Handler = Callable[[], Generator[Effect, Any, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a value, a refusal, or `unknown`."""

    kind: str
    value: Any = None


UNKNOWN = Answer("unknown")


@dataclass(eq=False)
class Network:
    """Carries requests to the server, which handles each in a process of its own."""

    kernel: Kernel
    faults: Mapping[tuple[str, int], Fault]
    """What happens to the n-th request of a name."""
    counts: Counter[str] = field(default_factory=Counter)

    def request(
        self, sender: Process, name: str, handler: Handler, timeout_us: int
    ) -> Generator[Effect, Any, Answer]:
        """Send a request and wait for its answer."""
        fault = self._fault(name)
        kind, length_us = (fault.kind, int(fault.length_s * SECOND)) if fault else ("", 0)
        mailbox = Mailbox()
        if kind != "lose_request":
            late_us = length_us if kind in ("delay_request", "last_words") else 0
            self._deliver(name, handler, mailbox, kind, length_us, late_us)
        if kind == "double":
            self._deliver(name, handler, mailbox, "", 0, length_us)
        if kind == "last_words" and sender.on_crash is not None:
            raise Crashed("after its last words")
        answer = yield Wait(mailbox, timeout_us)
        return UNKNOWN if answer is None else answer

    def _fault(self, name: str) -> Fault | None:
        self.counts[name] += 1
        fault = self.faults.get((name, self.counts[name]))
        if fault is None or not self.kernel.may_fault:
            return None
        self.kernel.counts[fault.kind] += 1
        return fault

    def _deliver(
        self, name: str, handler: Handler, mailbox: Mailbox, fault: str, length_us: int, late_us: int
    ) -> None:
        way_us = 500 + int(self.kernel.random.random() * 20_000)
        self.kernel.spawn(
            name, "server", lambda _: self._serve(handler, mailbox, fault, length_us), way_us + late_us
        )

    def _serve(
        self, handler: Handler, mailbox: Mailbox, fault: str, length_us: int
    ) -> Generator[Effect, Any, None]:
        try:
            answer = Answer("ok", (yield from handler()))
        except StoreUnavailable:
            answer = UNKNOWN
        except StoreError as error:
            self.kernel.errors.append(f"{type(error).__name__}: {error}")
            answer = UNKNOWN
        except TakeupError as error:
            answer = Answer("refused", error)
        if fault == "lose_answer":
            return
        if fault == "unknown_commit":
            answer = UNKNOWN
        late_us = length_us if fault == "delay_answer" else 0
        yield 500 + int(self.kernel.random.random() * 20_000) + late_us
        self.kernel.post(mailbox, answer)


@dataclass(eq=False)
class Hints:
    """The lossy queue of hints: a hint goes to one that waits, or lies in the queue for the next."""

    kernel: Kernel
    faults: Mapping[int, Fault]
    is_on: bool = True
    count: int = 0
    _queues: dict[str, list[str]] = field(default_factory=dict)
    _idle: dict[str, list[Mailbox]] = field(default_factory=dict)

    def push(self, topic: str) -> None:
        """Say that there is something to look at."""
        self.count += 1
        fault = self.faults.get(self.count) if self.kernel.may_fault else None
        kind = fault.kind if fault else ""
        if fault:
            self.kernel.counts[kind] += 1
        if kind == "lose_hint" or not self.is_on:
            return
        late_us = int(fault.length_s * SECOND) if fault and kind == "delay_hint" else 0
        for _ in range(2 if kind == "double_hint" else 1):
            self.kernel.spawn("hint", "hints", lambda _: self._carry(topic), late_us)

    def _carry(self, topic: str) -> Generator[Effect, Any, None]:
        yield 500 + int(self.kernel.random.random() * 5_000)
        idle = [box for box in self._idle.get(topic, ()) if box.reader is not None and box.reader.is_alive]
        if not idle:
            queue = self._queues.setdefault(topic, [])
            if len(queue) < 20:
                queue.append(topic)
            return
        chosen = idle[int(self.kernel.random.random() * len(idle))]
        self._idle[topic].remove(chosen)
        self.kernel.post(chosen, topic)

    def wait(self, topic: str, mailbox: Mailbox, timeout_us: int) -> Generator[Effect, Any, Any]:
        """Wait for a hint or for a message of one's own, at most so long."""
        queue = self._queues.get(topic)
        if queue:
            return queue.pop(0)
        idle = self._idle.setdefault(topic, [])
        idle.append(mailbox)
        message = yield Wait(mailbox, timeout_us)
        if mailbox in idle:
            idle.remove(mailbox)
        return message


def message_faults(faults: tuple[Fault, ...]) -> dict[tuple[str, int], Fault]:
    """What happens to requests."""
    return {(fault.target, int(fault.at)): fault for fault in faults if fault.kind in MESSAGE_FAULTS}


def hint_faults(faults: tuple[Fault, ...]) -> dict[int, Fault]:
    """What happens to hints."""
    return {int(fault.at): fault for fault in faults if fault.kind in HINT_FAULTS}
