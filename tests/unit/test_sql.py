"""The SQL files: how blocks are found, and how each database spells and binds them."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from takeup.core.errors import InvalidInput
from takeup.store import ops
from takeup.store.dialect import Dialect, from_micros, to_micros
from takeup.store.schema import TABLES, fingerprint, guards, illegal_insert, illegal_update
from takeup.store.sqlfile import catalog, load_blocks, parse, select

DIALECTS = [Dialect("postgres"), Dialect("sqlite"), Dialect("duckdb")]
OPS = Path(ops.__file__).parent
FILE = """-- a file says what it is

-- name: one
-- why it is so
SELECT 1;
-- name: two [postgres, sqlite]
-- whole
SELECT 2
  FROM x;

-- name: two
-- alone
SELECT 3;
-- name: three [duckdb]
"""


def test_blocks_are_found_by_their_headers():
    one, two, common, three = parse(FILE)
    assert (one.name, one.sql, one.dialects) == ("one", "SELECT 1", set())
    assert (one.is_alone, one.is_whole) == (False, False)
    assert (two.name, two.sql) == ("two", "SELECT 2\n  FROM x")
    assert (two.dialects, two.is_whole) == ({"postgres", "sqlite"}, True)
    assert (common.name, common.dialects, common.is_alone) == ("two", set(), True)
    assert (three.name, three.sql) == ("three", "")


def test_a_variant_hides_the_common_block():
    blocks = list(parse(FILE))
    chosen = {d.name: [(b.name, b.sql[:8]) for b in select(blocks, d)] for d in DIALECTS}
    assert chosen["postgres"] == chosen["sqlite"] == [("one", "SELECT 1"), ("two", "SELECT 2")]
    assert chosen["duckdb"] == [("one", "SELECT 1"), ("two", "SELECT 3"), ("three", "")]


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_every_database_has_every_query_once(dialect: Dialect):
    chosen = [block.name for block in select(list(load_blocks()), dialect)]
    assert len(set(chosen)) == len(chosen)
    source = "".join(file.read_text() for file in sorted(OPS.glob("*.py")))
    asked = set(re.findall(r'query\(\s*"(\w+)"', source))
    assert len(asked) > 50
    assert asked <= set(catalog(dialect))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_nothing_is_left_to_expand(dialect: Dialect):
    for statement in catalog(dialect).values():
        for text in (statement, statement.one or statement):
            assert not re.search(r"\{[a-z_]+[ }]", text.sql), text.name


def test_a_statement_that_is_a_whole_operation_says_so_in_its_rows():
    for block in load_blocks():
        assert block.is_whole == bool(re.search(r"\bAS whole\b", block.sql) and block.dialects), block.name


def test_a_batch_of_one_has_its_own_text():
    sql = "SELECT {one 1|COUNT(*)} FROM {rows g(x bigint, y text, z bool)} WHERE w = :a"
    many = Dialect("postgres").compile("q", sql, is_whole=True)
    rows = [(1, None, True), (2, "b", None)]
    assert many.fitting({"g": rows, "a": 5}) is many
    assert many.fitting({"g": [], "a": 5}) is many
    assert sorted(map(str, many.bind({"g": rows, "a": 5}))) == ["1,2", "5", "True,N", "[None, 'b']"]
    one = many.fitting({"g": rows[:1], "a": 5})
    assert (one.name, one.is_whole, one.bind({"g": rows[:1], "a": 5})) == (
        "q of one",
        True,
        [1, None, True, 5],
    )
    assert "COUNT" in many.sql
    assert "unnest" in many.sql
    assert "COUNT" not in one.sql
    assert "unnest" not in one.sql
    assert [Dialect(name).compile("q", sql).one for name in ("sqlite", "duckdb")] == [None, None]


def test_a_limit_of_one_has_its_own_text():
    claim = Dialect("postgres").compile("q", "SELECT {one 1|2} LIMIT :limit_count")
    assert claim.fitting({"limit_count": 1}).sql == "SELECT 1 LIMIT $1"
    assert claim.fitting({"limit_count": 2}).sql == "SELECT 2 LIMIT $1"


def test_parameters_are_bound_in_each_style():
    sql = "SELECT :b, :a, :b FROM {rows g(x bigint, y text)} WHERE z::text = :a"
    params = {"a": 1, "b": "two", "g": [(1, "p"), (2, None)]}
    postgres, sqlite, duckdb = (d.compile("q", sql) for d in DIALECTS)
    assert postgres.sql.startswith("SELECT $1, $2, $1")
    assert "z::text = $2" in postgres.sql
    assert postgres.bind(params)[:2] == ["two", 1]
    assert "1,2" in postgres.bind(params) or [1, 2] in postgres.bind(params)
    assert ["p", None] in postgres.bind(params)
    bound = sqlite.bind(params)
    assert (bound["a"], bound["b"], json.loads(bound["g"])) == (1, "two", [[1, "p"], [2, None]])
    bound = duckdb.bind(params)
    assert (bound["a"], bound["g__0"], bound["g__1"]) == (1, [1, 2], ["p", None])


def test_one_row_of_each_batch_has_a_text_of_its_own():
    sql = "SELECT {one 'alone'|'many'} FROM {rows g(x bigint)}{one |, {rows n(y text)}}"
    many = DIALECTS[0].compile("q", sql)
    assert (many.batches, many.sql[:13]) == (("g", "n"), "SELECT 'many'")
    alone = many.fitting({"g": [(1,)], "n": []})
    assert (alone.batches, alone.sql) == (("g",), "SELECT 'alone' FROM (SELECT CAST($1 AS BIGINT) AS x) AS g")
    for g, n in ([(1,)], [("y",)]), ([(1,), (2,)], []), ([], []):
        assert many.fitting({"g": g, "n": n}) is many, "what the short text leaves out must be empty"


def test_time_is_a_parameter_or_the_servers():
    assert Dialect("postgres").expand("{now}") == "CAST(:now_at AS TIMESTAMPTZ)"
    assert Dialect("postgres", injected_clock=False).expand("{now}") == "clock_timestamp()"
    assert Dialect("sqlite").expand("{after t.lease_s}") == "(:now_at + CAST(t.lease_s * 1000000 AS BIGINT))"
    assert "make_interval(secs => x)" in Dialect("postgres").expand("{before x}")
    assert "to_microseconds" in Dialect("duckdb").expand("{before x}")


def test_states_come_from_the_machines():
    assert Dialect("sqlite").expand("{task.live}") == "'NEW', 'READY', 'RUNNING', 'ERROR'"
    assert Dialect("sqlite").expand("{job.final}") == "'completed', 'failed', 'cancelled'"


def test_an_unknown_word_is_an_error():
    with pytest.raises(KeyError):
        Dialect("sqlite").expand("{nonsense}")


def test_moments_survive_sqlite():
    moment = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    assert from_micros(to_micros(moment)) == moment
    assert to_micros(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000
    east = moment.astimezone(datetime.now().astimezone().tzinfo) + timedelta(0)
    assert to_micros(east) == to_micros(moment)


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", 2**63, [["\x00"]]])
def test_what_embedded_databases_would_store_wrongly(value: object):
    for dialect in (Dialect("sqlite"), Dialect("duckdb")):
        with pytest.raises(InvalidInput):
            dialect.compile("q", "SELECT :a").bind({"a": value})


def test_guards_are_rendered_for_two_databases_and_have_a_fingerprint():
    assert guards("duckdb") == []
    for name in ("postgres", "sqlite"):
        text = "\n".join(guards(name))
        assert all(f"{table}_guard_update" in text for table in TABLES)
    assert fingerprint("postgres") != fingerprint("sqlite")


def test_guards_name_every_pair_and_every_birth():
    for machine in TABLES.values():
        rule = illegal_update(machine)
        for source, target in machine.pairs():
            assert (f"'{source}>{target}'" in rule) == (source != target)
        for source, target in machine.illegal_pairs():
            assert f"'{source}>{target}'" not in rule
        assert all(f"'{state}'" in illegal_insert(machine) for state in machine.initial)
