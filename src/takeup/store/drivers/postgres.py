"""PostgreSQL: for a fleet. READ COMMITTED, row locks and compare-and-set; works through PgBouncer.

An operation that is one statement needs no BEGIN and COMMIT round trips, so it is sent alone. Behind
PgBouncer in transaction mode (`?pgbouncer=1` in the URL) every operation is an explicit transaction, nothing
is prepared by name and no session state is used.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from takeup.core.errors import (
    InvalidInput,
    OutcomeUnknown,
    StoreConfig,
    StoreError,
    StoreUnavailable,
    TakeupError,
)
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect, Statement
from takeup.store.drivers.pool import Link, Pool
from takeup.store.op import Op, Query, Rows, Script, Step, Together
from takeup.store.sqlfile import catalog

T = TypeVar("T")

POOL_SIZE = 10
STATEMENTS_MAX = 1024
CONNECT_TIMEOUT_S = 10.0
CHANNEL = "takeup"
KEEPALIVE = {
    socket.TCP_KEEPIDLE: 5,
    socket.TCP_KEEPINTVL: 2,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 10_000,
}
"""A silent peer is given up after about ten seconds."""
RACES_MAX = 5
RACE_PAUSE_S = 0.02
SETTINGS = {
    "statement_timeout": "5s",
    "lock_timeout": "1s",
    "idle_in_transaction_session_timeout": "5s",
    "timezone": "UTC",
    "synchronous_commit": "on",
    # The hot statements take longer to plan than to run, and one plan fits all of their parameters. It is
    # kept for the life of a session, so it must not rest on a table having been small when it was made:
    # every row is found by an index.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "default_transaction_isolation": "read committed",
    "application_name": "takeup",
}
LOST_RACES = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.UniqueViolationError,
    asyncpg.InvalidCachedStatementError,
)
BROKEN = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)

REFUSALS = (TakeupError, asyncpg.PostgresError)
SPOILED = (*BROKEN, asyncpg.InvalidCachedStatementError)
"""After a refusal a connection is as good as before; after these or anything else it is not used again."""


async def connect(url: str, clock: Clock | None) -> "PostgresDriver":
    """Open a pool of connections to the database that the URL names."""
    return await PostgresDriver.connect(url, clock=clock)


class PostgresDriver:
    """A pool of connections to one database."""

    def __init__(self, pool: Pool, clock: Clock | None, *, pooled: bool, dsn: str = "") -> None:
        """Use `connect` instead."""
        self._dsn = dsn
        self.dialect = Dialect("postgres", injected_clock=clock is not None)
        self.catalog = catalog(self.dialect)
        self._needless = frozenset(name for name, statement in self.catalog.items() if not statement.sql)
        self._pool = pool
        self._clock = clock
        self._pooled = pooled
        self._begin = "BEGIN"
        if pooled:
            local = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "jit")
            self._begin += "".join(f"; SET LOCAL {name} = '{SETTINGS[name]}'" for name in local)

    @classmethod
    async def connect(cls, url: str, *, clock: Clock | None = None) -> "PostgresDriver":
        """Open a pool; the server must answer once."""
        dsn, pooled = _split_options(url)

        async def connect() -> Link:
            connection = await asyncpg.connect(
                dsn,
                timeout=CONNECT_TIMEOUT_S,
                statement_cache_size=0 if pooled else STATEMENTS_MAX,
                server_settings={} if pooled else SETTINGS,
            )
            keep_watch(connection)
            return Link(connection, prepares=not pooled)

        pool = Pool(connect, POOL_SIZE, CONNECT_TIMEOUT_S)
        try:
            pool.give_back(await pool.lend())
            return cls(pool, clock, pooled=pooled, dsn=dsn)
        except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError) as error:
            raise StoreConfig(f"PostgreSQL refused the user or password of {_name(url)}") from error
        except asyncpg.InvalidCatalogNameError as error:
            raise StoreConfig(
                f"the PostgreSQL server has no database as in {_name(url)}; create it"
            ) from error
        except (ValueError, OverflowError, asyncpg.ClientConfigurationError) as error:
            raise StoreConfig(f"the database URL {_name(url)} cannot be used: {error}") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            raise StoreUnavailable(f"cannot reach PostgreSQL at {_name(url)}: {reason}") from error

    async def run(self, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation as one transaction; a lost race is run again from its start."""
        return await self._race(lambda: operation(*args, **kwargs), is_read=False)

    async def read(self, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation that only reads; each statement sees its own snapshot."""
        return await self._race(lambda: operation(*args, **kwargs), is_read=True)

    async def notify(self, topic: str, text: str) -> None:
        """Send a hint to whoever listens; it is lost if nobody does."""
        link = await self._pool.lend()
        try:
            await link.connection.execute(f"SELECT pg_notify('{CHANNEL}', $1)", f"{topic} {text}")
        except BaseException:
            link.connection.terminate()
            raise
        finally:
            self._pool.give_back(link)

    async def listen(self, hear: Callable[[str, str], None]) -> None:
        """Call back with every hint until the connection breaks; it is one of its own, outside the pool."""
        if self._pooled:  # a pooled connection is another one for each transaction
            await asyncio.Event().wait()
        connection = await asyncpg.connect(self._dsn, timeout=CONNECT_TIMEOUT_S)
        keep_watch(connection)
        closed = asyncio.Event()
        connection.add_termination_listener(lambda _: closed.set())

        def heard(_connection: Any, _pid: int, _channel: str, payload: object) -> None:
            topic, _, text = str(payload).partition(" ")
            hear(topic, text)

        try:
            await connection.add_listener(CHANNEL, heard)
            await closed.wait()
        finally:
            connection.terminate()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def _race(self, make: Callable[[], Op[T]], *, is_read: bool) -> T:
        for race in range(1, RACES_MAX):
            try:
                return await self._attempt(make(), is_read=is_read)
            except LOST_RACES:
                await asyncio.sleep(RACE_PAUSE_S * 2**race * random.random())  # noqa: S311 - spreads, no secret
        try:
            return await self._attempt(make(), is_read=is_read)
        except LOST_RACES as error:
            raise StoreUnavailable(f"PostgreSQL is too contended: {error}") from error

    async def _attempt(self, op: Op[T], *, is_read: bool) -> T:
        transaction = _Transaction(self.catalog, self._needless, self._clock, self._begin, is_read=is_read)
        transaction.may_run_alone = not self._pooled
        try:
            link = await self._pool.lend()
            try:
                return await transaction.run(link, op)
            except BaseException as error:
                if not isinstance(error, REFUSALS) or isinstance(error, SPOILED):
                    link.connection.terminate()
                raise
            finally:
                self._pool.give_back(link)
        except LOST_RACES:
            raise
        except TimeoutError as error:
            raise StoreUnavailable("no connection to PostgreSQL became free in time") from error
        except BROKEN as error:
            if transaction.is_committing:
                raise OutcomeUnknown(f"the connection broke during a commit: {error}") from error
            raise StoreUnavailable(f"the connection to PostgreSQL broke: {error}") from error
        except (
            asyncpg.InsufficientResourcesError,
            asyncpg.QueryCanceledError,
            asyncpg.ReadOnlySQLTransactionError,
        ) as error:
            raise StoreUnavailable(f"PostgreSQL is too busy: {error}") from error
        except (asyncpg.DataError, asyncpg.CharacterNotInRepertoireError, UnicodeEncodeError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error
        except asyncpg.PostgresError as error:
            raise StoreError(f"PostgreSQL refused a statement: {error}") from error


class _Transaction:
    """Runs one operation on one connection; a statement that is the whole operation commits by itself."""

    def __init__(
        self,
        statements: dict[str, Statement],
        needless: frozenset[str],
        clock: Clock | None,
        begin: str,
        *,
        is_read: bool,
    ) -> None:
        self.is_committing = False
        self.may_run_alone = True
        self._statements = statements
        self._clock = clock
        self._begin = begin
        self._is_read = is_read
        self._is_open = False
        self._needless = needless

    async def run(self, link: Link, op: Op[T]) -> T:
        try:
            step = next(op)
            while True:
                is_needless = type(step) is Query and step.name in self._needless
                step = op.send([] if is_needless else await self._execute(link, step))
        except StopIteration as stop:
            await self._commit(link.connection)
            result: T = stop.value
            return result
        except BaseException:
            op.close()
            await self._rollback(link.connection)
            raise

    async def _execute(self, link: Link, step: Step) -> Rows:
        if isinstance(step, Script | Together):
            await self._open(link.connection)
            return list(await link.connection.fetch(step.sql)) if isinstance(step, Script) else []
        statement = self._statements[step.name].fitting(step.params)
        params = step.params
        if self._clock is not None:
            params = {**params, "now_at": self._clock.now()}
        if not ((statement.is_alone or self._is_read) and self.may_run_alone):
            await self._open(link.connection)
        self.is_committing = statement.is_whole and not self._is_open
        rows: Rows = await link.fetch(statement, statement.bind(params))
        self.is_committing = False
        return rows

    async def _open(self, connection: Any) -> None:
        if not self._is_open:
            await connection.execute(self._begin)
            self._is_open = True

    async def _commit(self, connection: Any) -> None:
        if self._is_open:
            self.is_committing = True
            try:
                await connection.execute("COMMIT")
            except BaseException:
                connection.terminate()  # nobody may go on in a transaction whose end is unknown
                raise

    async def _rollback(self, connection: Any) -> None:
        if self._is_open and not connection.is_closed():
            try:
                await connection.execute("ROLLBACK")
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                connection.terminate()


def keep_watch(connection: Any) -> None:
    """Let the kernel notice a peer that is gone without a word, so that nobody waits for it for ever."""
    link = connection._transport.get_extra_info("socket")  # noqa: SLF001 - asyncpg has no other door
    if link is not None and link.family in (socket.AF_INET, socket.AF_INET6):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE.items():
            link.setsockopt(socket.IPPROTO_TCP, option, value)


def _split_options(url: str) -> tuple[str, bool]:
    """The URL as asyncpg wants it, and whether PgBouncer stands in between."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    pooled = options.pop("pgbouncer", "0") not in ("0", "false", "")
    return urlunsplit(parts._replace(query=urlencode(options))), pooled


def _name(url: str) -> str:
    """The URL without its password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query=""))
