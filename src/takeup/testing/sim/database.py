"""The real SQLite session in memory, and operations run on it one yield at a time.

The schema is made once for each variant of the store. A schedule runs inside one outer transaction that is
rolled back at its end; its own transactions are savepoints, which commit and roll back the same way.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from takeup.core.errors import StoreUnavailable
from takeup.core.model import Event
from takeup.store import migrate
from takeup.store.drivers.embedded import Moment, WriterClock, drain, execute, run_op
from takeup.store.drivers.sqlite import SqliteSession
from takeup.store.op import Op, Query, Step
from takeup.store.rows import event_of
from takeup.store.sqlfile import load_blocks, select
from takeup.testing import crash
from takeup.testing.history import Tables, read_tables
from takeup.testing.sim.kernel import ACQUIRE, Effect, Kernel

T = TypeVar("T")

STATEMENTS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Patch:
    """A change of one named block of SQL; its old text must be there."""

    block: str
    old: str
    new: str


class SimSession(SqliteSession):
    """Transactions as savepoints within the one transaction that is the schedule."""

    def __init__(self) -> None:
        """Open a database in memory that keeps every statement prepared."""
        super().__init__(None)
        rows = self.connection.row_factory
        self.connection.close()
        self.connection = type(self.connection)(
            ":memory:", isolation_level=None, cached_statements=STATEMENTS_MAX
        )
        self.connection.row_factory = rows
        self.connection.execute("PRAGMA foreign_keys = ON")

    def begin(self) -> None:
        """Start a transaction of the schedule."""
        self.connection.execute("SAVEPOINT op")

    def commit(self) -> None:
        """Keep it."""
        self.connection.execute("RELEASE op")

    def rollback(self) -> None:
        """Undo it."""
        self.connection.execute("ROLLBACK TO op")
        self.connection.execute("RELEASE op")

    def reset(self) -> None:
        """Forget the last schedule and start the next."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self.connection.execute("BEGIN")


@cache
def open_session(patches: tuple[Patch, ...] = (), *, is_guarded: bool = True) -> SimSession:
    """A database with its schema; without guards it has neither triggers nor CHECK constraints."""
    session = SimSession()
    run_op(session, WriterClock(), migrate.upgrade(session.dialect))
    _apply(session, patches)
    if not is_guarded:
        rows = session.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name", None)
        for row in rows:
            session.execute(f"DROP TRIGGER {row['name']}", None)
        session.execute("PRAGMA ignore_check_constraints = ON", None)
    return session


def _apply(session: SimSession, patches: tuple[Patch, ...]) -> None:
    """Put the patched statements into the session's catalog."""
    texts = {block.name: block.sql for block in select(list(load_blocks()), session.dialect)}
    for patch in patches:
        if patch.old not in texts[patch.block]:
            raise AssertionError(f"the block {patch.block} does not hold {patch.old!r}")
        texts[patch.block] = texts[patch.block].replace(patch.old, patch.new)
    for name in {patch.block for patch in patches}:
        session.catalog[name] = session.dialect.compile(name, texts[name])


class Database:
    """One schedule's database."""

    def __init__(self, kernel: Kernel, session: SimSession) -> None:
        """Start with empty tables."""
        self._kernel = kernel
        self.session = session
        self.is_down = False
        self.step_count = 0
        self.step_faults: dict[int, tuple[str, int]] = {}
        """At which step a connection breaks (`cut`) or its client stalls for so many microseconds."""
        session.reset()

    def transact(
        self, name: str, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any
    ) -> Generator[Effect, Any, T]:
        """Run an operation as one transaction, giving up control at every yield."""
        if self.is_down or not (yield ACQUIRE):
            raise StoreUnavailable("the database is down or busy")
        self.session.begin()
        is_open = True
        try:
            result = yield from self._steps(name, operation(*args, **kwargs))
            self.session.commit()
            is_open = False
        finally:
            if is_open:
                self.session.rollback()
            self._kernel.release()
        if crash.is_armed():
            crash.point(f"{name}.after commit")
        return result

    def _steps(self, name: str, op: Op[T]) -> Generator[Effect, Any, T]:
        kernel, session = self._kernel, self.session
        clock, random, is_armed = Moment(kernel.clock), kernel.random.random, crash.is_armed()
        try:
            step: Step = next(op)
            while True:
                rows = execute(session, clock, step)
                if is_armed and isinstance(step, Query):
                    crash.point(f"{name}.after {step.name}")
                self.step_count += 1
                pause_us = 500 + int(random() * 9_500)
                if self.step_count in self.step_faults and kernel.may_fault:
                    kind, length_us = self.step_faults[self.step_count]
                    kernel.counts[kind] += 1
                    if kind == "cut":
                        raise StoreUnavailable("the connection broke")
                    pause_us += length_us
                if not kernel.passes(pause_us):
                    yield pause_us
                if self.is_down:
                    raise StoreUnavailable("the database went away")
                step = op.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            op.close()

    def peek(self, sql: str) -> list[Any]:
        """Look at the tables from outside of the world, between transactions."""
        return self.session.execute(sql, None)

    def history(self) -> tuple[list[Event], Tables]:
        """The audit log and the final tables."""
        events = [event_of(row) for row in self.peek("SELECT * FROM audit ORDER BY seq")]
        return events, drain(self.session, self._kernel.clock, read_tables())
