"""What differs between the databases in the text of a statement: types, the clock, arrays, locks.

SQL is written once in the common subset; `{word}` is expanded here. A `{rows alias(column type, …)}` is a
table made of a parameter, which is how every statement takes a batch.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Literal

from takeup.core.errors import InvalidInput
from takeup.core.machine import CONTROL_STATUS, MACHINES, PHASES
from takeup.core.policy import PRIORITY_MAX

DialectName = Literal["postgres", "sqlite", "duckdb"]

PLACEHOLDER = re.compile(r"\{([a-z_.]+)(?: ([^{}]*))?\}")
CHOICE = re.compile(r"\{one ((?:[^{}|]|\{[^{}]*\})*)\|((?:[^{}|]|\{[^{}]*\})*)\}")
PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+?(?:__[0-9]+[no]?)?)(?![a-z0-9_])")
BATCH = re.compile(r"\{rows (\w+)\(")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_STATES = {
    f"{machine.noun}.{part}": ", ".join(f"'{state}'" for state in getattr(machine, part))
    for machine in MACHINES
    for part in ("states", "live", "final")
}
_CONTROL_WORDS = " ".join(f"WHEN '{status}' THEN '{word}'" for status, word in CONTROL_STATUS.items())


def to_micros(moment: datetime) -> int:
    """A moment as SQLite stores it."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """A moment as SQLite stored it."""
    return EPOCH + micros * MICROSECOND


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled query: text for one database and how to bind its parameters."""

    name: str
    sql: str
    bind: Callable[[Mapping[str, Any]], Any]
    is_alone: bool = False
    """Whether it needs no transaction around it."""
    is_whole: bool = False
    """Whether it is a transaction by itself, because it does all that the operation would do after it."""
    batches: tuple[str, ...] = ()
    """The parameters that are batches of rows."""
    one: "Statement | None" = None
    """The same for batches of one row each and a limit of one, if that is another text. A batch that it
    leaves out must be empty."""

    def fitting(self, params: Mapping[str, Any]) -> "Statement":
        """The text that suits these batches and this limit."""
        one = self.one
        if one is None or params.get("limit_count", 1) != 1:
            return self
        for batch in self.batches:
            if len(params[batch]) != (1 if batch in one.batches else 0):
                return self
        return one


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one database spells things; `injected_clock` makes time a parameter instead of its own clock.

    `one_row` makes batches of one row plain parameters, and takes the first text of `{one first|second}`:
    PostgreSQL spends more time on starting a plan than on finding a row, and most tasks come one by one.
    """

    name: DialectName
    injected_clock: bool = True
    one_row: bool = False

    def expand(self, sql: str) -> str:
        """The statement with every `{word}` spelled for this database."""
        return PLACEHOLDER.sub(self._placeholder, self._chosen(sql))

    def _chosen(self, sql: str) -> str:
        text = CHOICE.sub(lambda match: match[1 if self.one_row else 2], sql)
        if "{one " in text:
            raise ValueError(f"this is no choice of two texts: {text[text.index('{one ') :][:80]}")
        return text

    def compile(self, name: str, sql: str, *, is_alone: bool = False, is_whole: bool = False) -> Statement:
        """The statement with its parameters in this database's style."""
        text, bind = _COMPILERS[self.name](self.expand(sql))
        batches = tuple(dict.fromkeys(BATCH.findall(self._chosen(sql))))
        statement = Statement(name, text, bind, is_alone or is_whole, is_whole, batches)
        if self.name != "postgres" or self.one_row or not (batches or "{one " in sql):
            return statement
        one = replace(self, one_row=True).compile(f"{name} of one", sql, is_alone=is_alone, is_whole=is_whole)
        return replace(statement, one=one)

    def _placeholder(self, match: re.Match[str]) -> str:
        word, argument = match[1], match[2]
        if word in ("now", "start"):
            return self._now(word)
        if word in ("after", "before"):
            return self._shifted("+" if word == "after" else "-", argument)
        if word == "rows":
            return self._rows(argument)
        if word == "among":
            return self._among(argument)
        text = _SHARED.get(word) or _WORDS[self.name][word]
        return text.replace("*", argument) if argument else text

    def _now(self, word: str) -> str:
        if self.injected_clock:
            return "CAST(:now_at AS TIMESTAMPTZ)" if self.name == "postgres" else ":now_at"
        return "clock_timestamp()" if word == "now" else "statement_timestamp()"

    def _shifted(self, sign: str, seconds: str) -> str:
        now = self._now("now")
        if self.name == "postgres":
            return f"({now} {sign} make_interval(secs => {seconds}))"
        micros = f"CAST({seconds} * 1000000 AS BIGINT)"
        return (
            f"({now} {sign} {micros})"
            if self.name == "sqlite"
            else f"({now} {sign} to_microseconds({micros}))"
        )

    def _among(self, argument: str) -> str:
        """A test against a batch of one column; on PostgreSQL one that an index can always serve."""
        alias, column, kind = re.split(r"[( )]", argument)[:3]
        if self.name == "postgres":
            return f"= ANY({_PG_ARRAYS[kind].format(f':{alias}__0')})"
        return f"IN (SELECT {column} FROM {self._rows(argument)})"  # noqa: S608 - our own SQL files

    def _rows(self, argument: str) -> str:
        alias, _, columns = argument.rstrip(")").partition("(")
        pairs = [column.split() for column in columns.split(",")]
        if self.one_row:
            values = ", ".join(
                f"CAST(:{alias}__{i}o AS {_PG_TYPES[kind]}) AS {column}"
                for i, (column, kind) in enumerate(pairs)
            )
            return f"(SELECT {values}) AS {alias}"
        if self.name == "postgres":
            arrays = ", ".join(_PG_ARRAYS[kind].format(f":{alias}__{i}") for i, (_, kind) in enumerate(pairs))
            names = ", ".join(column for column, _ in pairs)
            return f"unnest({arrays}) AS {alias}({names})"
        if self.name == "duckdb":
            lists = ", ".join(
                f"unnest(:{alias}__{i}::{_DUCKDB_TYPES[kind]}[]) AS {column}"
                for i, (column, kind) in enumerate(pairs)
            )
            return f"(SELECT {lists}) AS {alias}"
        values = ", ".join(
            f"json_extract(value, '$[{i}]') AS {column}" for i, (column, _) in enumerate(pairs)
        )
        return f"(SELECT {values} FROM json_each(:{alias})) AS {alias}"  # noqa: S608 - our own SQL files


_SHARED = {
    **_STATES,
    # A batch must be found by its ids, so the planner may not judge the guard: CASE hides it.
    "guard": "(CASE WHEN",
    "end": "THEN 1 = 1 ELSE 1 = 0 END)",
    # A rank before that of the highest priority.
    "before_first": str(-PRIORITY_MAX - 1),
    # Part of every holder's guard: an operator can switch a worker off in mid-run.
    "enabled": "EXISTS (SELECT 1 FROM workers w WHERE w.id = :worker_id AND NOT w.disabled)",
    "control_status": f"CASE * {_CONTROL_WORDS} END",
}

# A driver encodes an array item by item, and looks up the types of all but text, which changes a setting of
# the session; everything else travels as one text, as the `n` of `g__0n` says.
_PG_ARRAYS = {
    "bigint": "string_to_array({}n, ',', 'N')::bigint[]",
    "bool": "string_to_array({}n, ',', 'N')::bool[]",
    "double": "string_to_array({}n, ',', 'N')::float8[]",
    "hex": "string_to_array({}n, ',', 'N')",
    "text": "{}::text[]",
    "time": "string_to_array({}n, ',', 'N')::timestamptz[]",
}
_PG_TYPES = {
    "bigint": "BIGINT",
    "bool": "BOOLEAN",
    "double": "FLOAT8",
    "hex": "TEXT",
    "text": "TEXT",
    "time": "TIMESTAMPTZ",
}
_DUCKDB_TYPES = {
    "bigint": "BIGINT",
    "hex": "TEXT",
    "text": "TEXT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "TIMESTAMPTZ",
}

_WORDS: dict[DialectName, dict[str, str]] = {
    "postgres": {
        "time": "TIMESTAMPTZ",
        "bool": "BOOLEAN",
        "double": "DOUBLE PRECISION",
        "true": "TRUE",
        "false": "FALSE",
        "serial": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "references": "REFERENCES *",
        "fillfactor": "WITH (fillfactor = *)",
        "greatest": "GREATEST",
        # None for a job that ended, which is before no phase.
        "phase_rank": f"array_position('{{{','.join(PHASES)}}}'::TEXT[], *)",
        # Keeps a subquery from becoming a join, whose order would rest on statistics of the moment.
        "apart": "OFFSET 0",
        "skip_locked": "FOR NO KEY UPDATE SKIP LOCKED",
        "lock": "FOR NO KEY UPDATE",
    },
    "sqlite": {
        "time": "INTEGER",
        "bool": "INTEGER",
        "double": "REAL",
        "true": "1",
        "false": "0",
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "references": "REFERENCES *",
        "fillfactor": "",
        "greatest": "MAX",
        "apart": "",
        "skip_locked": "",
        "lock": "",
    },
    "duckdb": {
        "time": "TIMESTAMPTZ",
        "bool": "BOOLEAN",
        "double": "DOUBLE",
        "true": "TRUE",
        "false": "FALSE",
        "serial": "BIGINT PRIMARY KEY DEFAULT nextval('*_seq')",
        "references": "",
        "fillfactor": "",
        "greatest": "GREATEST",
        "apart": "",
        "skip_locked": "",
        "lock": "",
    },
}


Bind = Callable[[Mapping[str, Any]], Any]


def _getter(parameter: str) -> Callable[[Mapping[str, Any]], Any]:
    """`ids__0` is column 0 of the batch `ids`; `ids__0n` is that as one text, `ids__0o` its one value."""
    name, _, column = parameter.partition("__")
    if not column:
        return itemgetter(name)
    number = int(column.rstrip("no"))
    if column.endswith("o"):
        return lambda params: params[name][0][number]
    if column.endswith("n"):
        return lambda params: _joined([row[number] for row in params[name]])
    return lambda params: [row[number] for row in params[name]]


def _joined(values: list[Any]) -> str:
    if None in values:
        values = ["N" if value is None else value for value in values]
    return ",".join(map(str, values))


def _compile_postgres(sql: str) -> tuple[str, Bind]:
    order = list(dict.fromkeys(PARAMETER.findall(sql)))
    text = PARAMETER.sub(lambda match: f"${order.index(match[1]) + 1}", sql)
    getters = [_getter(parameter) for parameter in order]
    return text, lambda params: [get(params) for get in getters]


def _compile_duckdb(sql: str) -> tuple[str, Bind]:
    getters = {parameter: _getter(parameter) for parameter in PARAMETER.findall(sql)}
    text = PARAMETER.sub(r"$\1", sql)
    return text, lambda params: {name: _storable(get(params)) for name, get in getters.items()}


def _compile_sqlite(sql: str) -> tuple[str, Bind]:
    names = tuple(dict.fromkeys(PARAMETER.findall(sql)))
    return sql, lambda params: {name: _sqlite_value(params[name]) for name in names}


def _sqlite_value(value: Any) -> Any:
    if type(value) is datetime:
        return to_micros(value)
    _storable(value)
    return _encode(value) if type(value) in (list, tuple) else value


_encode = json.JSONEncoder(default=to_micros, ensure_ascii=False, separators=(",", ":")).encode


def _storable(value: Any) -> Any:
    """Refuse what the embedded databases would store wrongly; PostgreSQL refuses it by itself."""
    kind = type(value)
    if kind is str:
        if "\x00" in value or not (value.isascii() or _is_utf8(value)):
            raise InvalidInput(f"text with NUL or a broken surrogate cannot be stored: {value[:80]!r}")
    elif kind is int:
        if not -(2**63) <= value < 2**63:
            raise InvalidInput(f"the number {value} is beyond 64 bits")
    elif kind is list or kind is tuple:
        for item in value:
            _storable(item)
    return value


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


_COMPILERS: dict[DialectName, Callable[[str], tuple[str, Bind]]] = {
    "postgres": _compile_postgres,
    "sqlite": _compile_sqlite,
    "duckdb": _compile_duckdb,
}
