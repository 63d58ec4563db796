"""Importing an old table: every shape it may have, every row told, nothing lost."""

import asyncio
import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from takeup.core.errors import InvalidInput, StoreConfig, StoreInUse, UnknownStage
from takeup.pipelines.control import ControlTable, import_control
from takeup.pipelines.control.backup import back_up
from takeup.store.store import Store
from takeup.testing.clocks import START, ManualClock
from tests.control.conftest import (
    BOTH_COLUMNS,
    DATABASES,
    NEW_COLUMNS,
    OLD_COLUMNS,
    PIPELINE,
    OpenTable,
    ask,
    naive,
    old_file,
    shown,
)

ROWS = [
    {"url": "new", "iteration": 1, "title": "first"},
    {"url": "paused", "iteration": 1, "stage": "align", "status": "READY", "process_status": "PAUSED"},
    {"url": "skip", "iteration": 1, "stage": "align", "status": "READY", "process_status": "SKIP"},
    {"url": "half", "iteration": 1, "stage": "fetch", "status": "COMPLETED", "process_status": "READY"},
    {"url": "half", "iteration": 2, "stage": "align", "status": "ERROR"},
    {"url": "done", "iteration": 1, "stage": "score", "status": "COMPLETED", "process_status": "READY"},
    {"url": "odd", "iteration": 1, "stage": "align", "status": "LOST"},
]
SHOWN = {
    ("new", 1): ("fetch", "READY", "READY"),
    ("paused", 1): ("align", "READY", "PAUSED"),
    ("skip", 1): ("score", "COMPLETED", "SKIP"),
    ("half", 1): ("align", "READY", "READY"),
    ("half", 2): ("align", "READY", "READY"),
    ("done", 1): ("score", "COMPLETED", "READY"),
    ("odd", 1): ("align", "READY", "PAUSED"),
}


def no_toggle(rows: list[dict]) -> list[dict]:
    """The rows after somebody had moved the toggles into the new column."""
    return [{**row, "task_state": row.get("process_status") or "READY"} for row in rows]


def stomped(rows: list[dict]) -> list[dict]:
    """The rows after the seed's migration had set the new column READY everywhere."""
    return [{**row, "task_state": "READY", "is_claimed": False} for row in rows]


SHAPES = {
    "old": ({**OLD_COLUMNS, "process_status": "TEXT"}, ROWS),
    "one new column": ({**OLD_COLUMNS, "process_status": "TEXT", "task_state": "TEXT"}, stomped(ROWS)),
    "a lease column only": ({**OLD_COLUMNS, "process_status": "TEXT", "lease_until": "TIMESTAMP"}, ROWS),
    "half migrated": (BOTH_COLUMNS, stomped(ROWS)),
    "half migrated, empty": (BOTH_COLUMNS, ROWS),
    "migrated": ({**OLD_COLUMNS, **NEW_COLUMNS}, no_toggle(ROWS)),
    "with a key": ({**BOTH_COLUMNS, "iteration": "INTEGER, PRIMARY KEY (url, iteration)"}, ROWS),
    "zoned, upper case": (
        {**{name.upper(): kind for name, kind in BOTH_COLUMNS.items()}, "LEASE_UNTIL": "TIMESTAMPTZ"},
        [{name.upper(): value for name, value in row.items()} for row in ROWS],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_every_shape_ends_the_same(shape: str, tmp_path: Path):
    columns, rows = SHAPES[shape]
    path = old_file(tmp_path / "old.duckdb", rows, columns)
    before = ask(path, "SELECT * FROM pipeline_control ORDER BY rowid")
    report = await import_control(path, PIPELINE)
    assert report.counts == {"imported": len(ROWS), "present": 0, "kept": 0}
    assert shown(path) == SHOWN
    assert ask(path, "SELECT * FROM pipeline_control_old ORDER BY rowid") == before
    assert ask(report.backup, "SELECT * FROM pipeline_control ORDER BY rowid") == before
    assert [line.row for line in report.lines] == list(range(1, len(ROWS) + 1))
    again = await import_control(path, PIPELINE)
    assert (again.is_nothing_new, again.backup, again.counts["present"]) == (True, None, len(ROWS))
    assert any("nothing to do" in line for line in again.summary())
    assert shown(path) == SHOWN
    assert sorted(file.name for file in tmp_path.iterdir()) == ["old.duckdb", "old.duckdb.before-takeup-1"]


async def test_primary_keys_and_indexes_are_no_hindrance(tmp_path: Path):
    path = old_file(
        tmp_path / "old.duckdb",
        ROWS,
        None,
        "CREATE UNIQUE INDEX by_pair ON pipeline_control (url, iteration)",
        'CREATE INDEX "by ""stage""" ON pipeline_control (stage)',
        "CREATE VIEW mine AS SELECT url, iteration FROM pipeline_control",
    )
    report = await import_control(path, PIPELINE)
    assert len(report.notes) == 2
    assert all("the index was dropped: CREATE" in note for note in report.notes)
    assert shown(path) == SHOWN
    assert sorted(ask(path, "SELECT * FROM mine")) == sorted(SHOWN)


@pytest.mark.parametrize("kind", DATABASES)
async def test_another_database_as_target_leaves_the_source_alone(
    kind: str, tmp_path: Path, open_table: OpenTable
):
    path = old_file(tmp_path / "a b?c%.duckdb", ROWS)
    before = path.read_bytes()
    async with open_table(kind) as scene:
        for imported in (len(ROWS), 0):
            report = await import_control(path, PIPELINE, scene.table.store)
            assert (report.counts["imported"], report.backup) == (imported, None)
            rows = await scene.table.rows()
            assert {(r.url, r.iteration): (r.stage, r.status, r.task_state) for r in rows} == SHOWN
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir() if "duckdb" in file.name} >= {path.name}
    assert not list(tmp_path.glob("*.before-takeup*"))


async def test_a_toggle_after_the_import_outlives_a_second_one(tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS)
    await import_control(path, PIPELINE)
    store = await Store.open(f"duckdb:///{path}")
    table = ControlTable(store, PIPELINE)
    await table.resume("paused", 1)
    await table.pause("new", 1)
    await table.enlist("w")
    await table.release(await table.claim("w", "half", 1))
    await store.close()
    expected = {
        **SHOWN,
        ("paused", 1): ("align", "READY", "READY"),
        ("new", 1): ("fetch", "READY", "PAUSED"),
        ("half", 1): ("score", "READY", "READY"),
    }
    assert shown(path) == expected
    assert (await import_control(path, PIPELINE)).is_nothing_new
    assert shown(path) == expected


async def test_a_live_lease_is_waited_for_and_times_are_utc(tmp_path: Path):
    clock = ManualClock()
    until = START + timedelta(minutes=10)
    rows = [
        {"url": "live", "iteration": 1, "stage": "align", "status": "IN_PROGRESS", "is_claimed": True,
         "worker_id": "old", "lease_until": naive(until)},
        {"url": "over", "iteration": 1, "stage": "align", "status": "IN_PROGRESS", "is_claimed": True,
         "worker_id": "old", "lease_until": naive(START)},
        {"url": "null", "iteration": 1, "stage": "align", "status": "IN_PROGRESS", "is_claimed": True},
        {"url": "ever", "iteration": 1, "stage": "align", "status": "IN_PROGRESS", "is_claimed": True,
         "lease_until": naive(datetime.max.replace(tzinfo=UTC))},
    ]  # fmt: skip
    path = old_file(tmp_path / "old.duckdb", rows, BOTH_COLUMNS)
    report = await import_control(path, PIPELINE, clock=clock)
    assert [line.not_before for line in report.lines] == [until, None, None, None]
    assert report.lines[3].task_state == "PAUSED"
    store = await Store.open(f"duckdb:///{path}", clock=clock)
    table = ControlTable(store, PIPELINE)
    assert {one.url for one in await table.worklist()} == {"over", "null"}
    await table.watchdog()
    assert {one.url for one in await table.worklist()} == {"over", "null"}
    clock.advance(600)
    await table.watchdog()
    assert {(one.url, one.stage) for one in await table.worklist("align")} >= {("live", "align")}
    await store.close()


async def test_rows_that_cannot_be_jobs_are_told_and_kept(tmp_path: Path):
    rows = [
        {"url": None, "iteration": 1},
        {"url": "a", "iteration": None},
        {"url": "twice", "iteration": 1, "process_status": "PAUSED"},
        {"url": "twice", "iteration": 1},
        {"url": "good", "iteration": 1},
    ]
    path = old_file(tmp_path / "old.duckdb", rows)
    report = await import_control(path, PIPELINE)
    assert [line.outcome for line in report.lines] == ["kept", "kept", "kept", "kept", "imported"]
    assert all(line.note and line.job_id is None for line in report.lines[:4])
    assert set(shown(path)) == {("good", 1)}
    assert ask(path, "SELECT COUNT(*) FROM pipeline_control_old") == [(5,)]


async def test_columns_of_every_type_travel(tmp_path: Path):
    columns = {
        **OLD_COLUMNS, "iteration": "VARCHAR", "score": "DOUBLE", "price": "DECIMAL(9,2)",
        "seen": "TIMESTAMP", "tags": "VARCHAR[]", "box": "STRUCT(a INTEGER)", "raw": "BLOB",
        "lease_until": "VARCHAR",
    }  # fmt: skip
    row = {
        "url": "u", "iteration": "7", "score": float("nan"), "price": 1.25, "seen": datetime(2024, 5, 6),  # noqa: DTZ001 - as the column is
        "tags": ["a", "b"], "box": {"a": 1}, "raw": b"\x00\xff", "status": "IN_PROGRESS", "stage": "fetch",
        "lease_until": "soon",
    }  # fmt: skip
    path = old_file(tmp_path / "old.duckdb", [row], columns)
    report = await import_control(path, PIPELINE)
    assert (report.lines[0].outcome, report.lines[0].task_state) == ("imported", "PAUSED")
    (spec,) = ask(path, "SELECT spec FROM jobs")[0]
    assert json.loads(spec) == {
        "url": "u", "iteration": 7, "title": None, "score": "nan", "price": 1.25, "box": {"a": 1},
        "seen": "2024-05-06 00:00:00", "tags": ["a", "b"], "raw": "\\x00\\xFF",
    }  # fmt: skip


async def test_an_empty_table(tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", [])
    assert (await import_control(path, PIPELINE)).lines == []
    assert shown(path) == {}


async def test_the_report_as_text(tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS)
    report = await import_control(path, PIPELINE, stages={"ALT": "align"})
    text = io.StringIO()
    report.write_csv(text)
    lines = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert len(lines) == len(ROWS)
    assert (lines[1]["url"], lines[1]["task_state"], lines[1]["stage"]) == ("paused", "PAUSED", "align")
    told = json.loads(json.dumps(report.as_json()))
    assert [line["outcome"] for line in told["lines"]] == ["imported"] * len(ROWS)
    assert any("LOST" in line for line in report.summary())


async def test_what_cannot_be_imported_is_refused_in_one_line(tmp_path: Path):
    cases = {
        "no file": tmp_path / "nothing.duckdb",
        "no table pipeline_control": old_file(
            tmp_path / "a.duckdb", [], None, "ALTER TABLE pipeline_control RENAME TO other"
        ),
        "no column iteration": old_file(tmp_path / "b.duckdb", [], {"url": "TEXT"}),
        "also pipeline_control_old": old_file(
            tmp_path / "c.duckdb", [], None, "CREATE TABLE pipeline_control_old (a INTEGER)"
        ),
    }
    for message, path in cases.items():
        with pytest.raises(InvalidInput, match=message):
            await import_control(path, PIPELINE)
    with pytest.raises(UnknownStage):
        await import_control(cases["no file"], PIPELINE, stages={"x": "nonsense"})
    (tmp_path / "text.duckdb").write_text("no database" * 1000)
    with pytest.raises(StoreConfig):
        await import_control(tmp_path / "text.duckdb", PIPELINE)
    assert not list(tmp_path.glob("*.before-takeup*"))


async def test_a_file_with_tables_of_our_names_is_left_as_it_was(tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS, None, "CREATE TABLE jobs (id INTEGER)")
    with pytest.raises(StoreConfig, match="is as it was"):
        await import_control(path, PIPELINE)
    assert ask(path, "SELECT COUNT(*) FROM pipeline_control") == [(len(ROWS),)]


HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


def test_a_file_that_another_process_holds_is_refused(tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse, match="is held by another process"):
            asyncio.run(import_control(path, PIPELINE))
        with pytest.raises(StoreInUse, match="is held by another process"):
            back_up(path)
        holder.stdin.close()
    assert not list(tmp_path.glob("*.before-takeup*"))
    assert asyncio.run(import_control(path, PIPELINE)).counts["imported"] == len(ROWS)


LEAVE = """
import duckdb, os, sys
c = duckdb.connect(sys.argv[1])
c.execute("SET checkpoint_threshold = '1GB'")
c.execute("UPDATE pipeline_control SET process_status = 'PAUSED' WHERE url = 'new'")
os.kill(os.getpid(), 9)
"""


def test_writes_that_are_only_in_the_log_are_imported_and_backed_up(tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS)
    subprocess.run([sys.executable, "-c", LEAVE, str(path)], check=False)
    assert (tmp_path / "old.duckdb.wal").exists()
    report = asyncio.run(import_control(path, PIPELINE))
    assert shown(path)["new", 1] == ("fetch", "READY", "PAUSED")
    query = "SELECT process_status FROM pipeline_control WHERE url = 'new'"
    assert ask(report.backup, query) == [("PAUSED",)]


async def test_now_is_the_time_of_the_database(tmp_path: Path):
    rows = [{"url": "u", "iteration": 1, "stage": "fetch", "status": "IN_PROGRESS",
             "lease_until": naive(datetime.now(UTC) + timedelta(minutes=5))}]  # fmt: skip
    path = old_file(tmp_path / "old.duckdb", rows, BOTH_COLUMNS)
    (line,) = (await import_control(path, PIPELINE)).lines
    assert line.not_before is not None
