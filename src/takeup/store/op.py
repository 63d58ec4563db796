"""The shape of a store operation: a generator that yields named queries, receives rows and does no I/O.

One operation is one transaction. A driver runs it; the simulator and the tests can stop it at every yield.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

Row = Mapping[str, Any]
Rows = list[Row]


class Query(NamedTuple):
    """A named block of `store/sql` with its parameters."""

    name: str
    params: Mapping[str, Any]


class Script(NamedTuple):
    """Literal SQL without parameters; only migrations use it."""

    sql: str


class Together(NamedTuple):
    """What follows must commit together; only a driver that may send a statement alone needs to be told."""


Step = Query | Script | Together
Op = Generator[Step, Rows, T]


def is_whole(rows: Rows) -> bool:
    """Whether one statement did all that the operation would do next, as some of PostgreSQL's do."""
    return bool(rows) and "whole" in rows[0]


def query(name: str, /, **params: Any) -> Query:
    """A query by name, with its parameters as keywords."""
    return Query(name, params)
