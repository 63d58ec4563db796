"""`takeup control`, run as a user runs it: an old table comes in, rows are toggled, claimed and released."""

import asyncio
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call, Called, Cli, upgrade
from tests.conftest import GetPostgres
from tests.control.conftest import ask, old_file, shown

FLOW = """
from takeup import Fatal, Pipeline

flow = Pipeline("flow", key=("url", "iteration"), lease=900)
quick = Pipeline("quick", key=("url", "iteration"), lease=1)
plain = Pipeline("plain")
parts = Pipeline("parts", key=("url", "iteration"))

@flow.stage()
def fetch(ctx): ...

@flow.stage(needs=[fetch])
def align(ctx): ...

@flow.stage(needs=[align], requires={"gpu"})
def score(ctx): ...

@quick.stage()
def work(ctx):
    if ctx.spec["url"] == "bad":
        raise Fatal("boom")

@plain.stage(name="plain")
def run_plain(ctx): ...

@parts.stage()
def split(ctx): ...

@parts.stage(needs=[split], each="segment")
def piece(ctx): ...
"""
ROWS = [
    {"url": "new", "iteration": 1, "title": "first"},
    {"url": "paused", "iteration": 1, "stage": "align", "status": "READY", "process_status": "PAUSED"},
    {"url": "skip", "iteration": 1, "stage": "align", "status": "READY", "process_status": "SKIP"},
    {"url": "half", "iteration": 1, "stage": "fetch", "status": "COMPLETED", "process_status": "READY"},
    {"url": "done", "iteration": 1, "stage": "score", "status": "COMPLETED"},
    {"url": "old", "iteration": 1, "stage": "compare", "status": "ERROR"},
]
SHOWN = {
    ("new", 1): ("fetch", "READY", "READY"),
    ("paused", 1): ("align", "READY", "PAUSED"),
    ("skip", 1): ("score", "COMPLETED", "SKIP"),
    ("half", 1): ("align", "READY", "READY"),
    ("done", 1): ("score", "COMPLETED", "READY"),
    ("old", 1): ("align", "READY", "READY"),
}
HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    file = tmp_path / "flow.py"
    file.write_text(FLOW)
    return file


@pytest.fixture(params=["sqlite", "duckdb", "postgres15"])
def url(request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres) -> Iterator[str]:
    """A database; an embedded one is not there yet."""
    if not request.param.startswith("postgres"):
        yield f"{request.param}:///table.db"
        return
    server = get_postgres(request.param)
    name = f"control_{os.urandom(4).hex()}"
    asyncio.run(server.create_database(name, asyncio.run(server.template(upgrade))))
    yield server.dsn(name)
    asyncio.run(server.drop_database(name))


def good(ran: subprocess.CompletedProcess[str] | Called) -> str:
    code, out, err = outcome(ran)
    assert (code, err) == (0, "")
    return out


def told(ran: subprocess.CompletedProcess[str] | Called) -> str:
    """The one line of a command that was refused."""
    code, out, err = outcome(ran)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "a fault in Takeup" not in err
    return err


def outcome(ran: subprocess.CompletedProcess[str] | Called) -> Called:
    return ran if isinstance(ran, Called) else Called(ran.returncode, ran.stdout, ran.stderr)


def test_an_old_file_is_imported_and_again_nothing_happens(cli: Cli, flow: Path, tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS)
    command = (
        "control",
        "import",
        "old.duckdb",
        "--pipeline",
        "flow.py:flow",
        "--stage-map",
        "compare=align",
    )
    first = good(cli(*command, "--report", "report.csv"))
    assert "6 imported, 0 were there, 0 only kept" in first
    assert "the file as it was: old.duckdb.before-takeup-1" in first
    assert shown(path) == SHOWN
    with (tmp_path / "report.csv").open() as file:
        assert [line["outcome"] for line in csv.DictReader(file)] == ["imported"] * len(ROWS)
    again = json.loads(good(cli(*command, "--report", "report.json", "--json")))
    assert again["counts"] == {"imported": 0, "present": len(ROWS), "kept": 0}
    assert json.loads((tmp_path / "report.json").read_text()) == again
    assert "nothing to do" in good(cli(*command))
    assert shown(path) == SHOWN
    at = ("--pipeline", "flow.py:flow", "--database", "duckdb:///old.duckdb")
    good(cli("control", "resume", "paused", 1, *at))
    good(cli("control", "pause", "new", 1, *at))
    rows = "\n".join(json.dumps({"url": row["url"], "iteration": 1}) for row in ROWS)
    assert good(cli("control", "sync", *at, text=rows)).startswith("0 rows created, 6 were there")
    assert "nothing to do" in good(cli(*command))
    changed = {("paused", 1): ("align", "READY", "READY"), ("new", 1): ("fetch", "READY", "PAUSED")}
    assert shown(path) == {**SHOWN, **changed}
    assert sorted(file.name for file in tmp_path.glob("old*")) == ["old.duckdb", "old.duckdb.before-takeup-1"]


def test_import_into_another_database(cli: Cli, flow: Path, tmp_path: Path, url: str):
    path = old_file(tmp_path / "old.duckdb", [*ROWS[:5], {"url": None, "iteration": 1}])
    before = path.read_bytes()
    for count in (5, 0):
        ran = cli("control", "import", path, "--pipeline", f"{flow}:flow", "--into", url, "--json")
        assert ran.returncode == 1, "a row without a url could not be imported"
        assert "1 rows have no job" in ran.stderr
        assert json.loads(ran.stdout)["counts"] == {"imported": count, "present": 5 - count, "kept": 1}
    assert path.read_bytes() == before
    listed = json.loads(good(cli("control", "rows", "--pipeline", "flow", "--database", url, "--json")))
    found = {
        (row["url"], row["iteration"]): (row["stage"], row["status"], row["task_state"]) for row in listed
    }
    assert found == {pair: row for pair, row in SHOWN.items() if pair != ("old", 1)}


def test_rows_are_synced_toggled_and_listed(call: Call, flow: Path, tmp_path: Path, url: str):
    at = ("--pipeline", "flow.py:flow", "--database", url)
    (tmp_path / "rows.csv").write_text("url,iteration,title\na,1,first\na,2,\nb,-1,third\n")
    assert good(call("control", "sync", "--rows", "rows.csv", *at)).startswith("3 rows created, 0 were there")
    listed = json.dumps([{"url": "a", "iteration": 1}, {"url": "c", "iteration": 1, "n": [1]}])
    (tmp_path / "more.json").write_text(listed)
    synced = call("control", "sync", "--rows", "more.json", "--task-state", "PAUSED", "--json", *at)
    assert json.loads(good(synced)) == {"inserted": 1, "existing": 1}
    work = json.loads(good(call("control", "worklist", "--json", *at)))
    assert [(one["url"], one["iteration"], one["stage"]) for one in work] == [
        ("a", 1, "fetch"), ("a", 2, "fetch"), ("b", -1, "fetch"),
    ]  # fmt: skip
    assert good(call("control", "pause", "a", 2, 1, *at)) == "a 2 paused\na 1 paused\n"
    assert good(call("control", "pause", "a", 2, *at)) == "a 2 was paused already\n"
    assert good(call("control", "skip", "b", -1, "--reason", "no", *at)) == "b -1 skipped\n"
    assert good(call("control", "worklist", "--stage", "fetch", *at)).splitlines() == [
        "URL  ITERATION  STAGE"
    ]
    assert "('b', -1) is completed and cannot be resumed" in told(call("control", "resume", "b", -1, *at))
    assert "has no row ('a', 3)" in told(call("control", "resume", "a", 1, 3, *at)), "all of them or none"
    table = good(call("control", "rows", "--task-state", "PAUSED", *at)).splitlines()
    assert table[0].split()[:6] == ["URL", "ITERATION", "STAGE", "STATUS", "TASK_STATE", "IS_CLAIMED"]
    assert sorted(line.split()[:5] for line in table[1:]) == [
        [url, n, "fetch", "READY", "PAUSED"] for url, n in (("a", "1"), ("a", "2"), ("c", "1"))
    ]
    assert len(json.loads(good(call("control", "rows", "--limit", 2, "--json", *at)))) == 2


def claim(cli: Cli | Call, *arguments: object) -> list[str]:
    return good(cli("control", "claim", *arguments)).rstrip("\n").split("\t")


def test_a_row_is_claimed_renewed_and_released_through_its_stages(cli: Cli, flow: Path, url: str):
    db = ("--database", url)
    at = ("--pipeline", "flow.py:flow", *db)
    me = ("--worker", "me", *at)
    good(cli("control", "sync", *at, text="url,iteration\nu,1\nv,1\n"))
    *row, ticket = claim(cli, "--url", "u", "--iteration", 1, *me)
    assert row == ["u", "1", "fetch"]
    assert "worker me holds 1 of 1 rows" in told(cli("control", "claim", *me))
    you = ("--worker", "you", *at)
    assert "('u', 1) is held by me until" in told(
        cli("control", "claim", "--url", "u", "--iteration", 1, *you)
    )
    assert "no row of flow to claim at stage align" in told(cli("control", "claim", "--stage", "align", *you))
    assert "known with 1 slots" in told(cli("control", "claim", "--slots", 2, *me)), "it would lose its claim"
    assert "u 1 fetch is held until" in good(cli("control", "renew", ticket, "--percent", 50, *db))
    assert good(cli("control", "release", ticket, *db)) == "u 1 released as COMPLETED; it is READY at align\n"
    assert good(cli("control", "release", ticket, *db)), "said again, it is answered the same"
    second = json.loads(good(cli("control", "claim", "--stage", "align", "--json", *me)))
    assert (second["url"], second["stage"], second["attempt"]) == ("u", "align", 1)
    failed = cli("control", "release", "-", "--status", "ERROR", "--error", "boom", "--json", *db,
                 text=second["ticket"] + "\n")  # fmt: skip
    row = json.loads(good(failed))["row"]
    assert (row["status"], row["error"], row["is_claimed"]) == ("ERROR", "boom", False)
    assert "is ERROR at align and not due" in told(
        cli("control", "claim", "--url", "u", "--iteration", 1, *me)
    )
    good(cli("control", "pause", "v", 1, *at))
    assert "('v', 1) is PAUSED" in told(cli("control", "claim", "--url", "v", "--iteration", 1, *me))


def test_a_capability_is_needed_and_a_result_lists_segments(call: Call, flow: Path, tmp_path: Path, url: str):
    (tmp_path / "rows.csv").write_text("url,iteration\nu,1\n")
    (tmp_path / "three.json").write_text('{"segments": 3}')
    db = ("--database", url)
    at = ("--pipeline", "flow.py:flow", *db)
    good(call("control", "sync", "--rows", "rows.csv", *at))
    for _ in range(2):
        *_, ticket = claim(call, "--worker", "me", *at)
        good(call("control", "release", ticket, *db))
    assert "needs what worker me has not" in told(call("control", "claim", "--worker", "me", *at))
    *row, ticket = claim(call, "--worker", "big", "--capability", "gpu", *at)
    assert row == ["u", "1", "score"]
    assert "COMPLETED at score" in good(call("control", "release", ticket, *db))
    at = ("--pipeline", "flow.py:parts", *db)
    good(call("control", "sync", "--rows", "rows.csv", *at))
    assert "for flow/* and holds 0" in told(call("control", "claim", "--worker", "me", *at))
    *_, ticket = claim(call, "--worker", "cutter", *at)
    assert "must list the segments" in told(call("control", "release", ticket, *db))
    good(call("control", "release", ticket, "--result", "three.json", *db))
    assert [claim(call, "--worker", f"w{n}", *at)[2] for n in range(3)] == ["piece"] * 3


def test_a_stale_ticket_is_refused_and_the_watchdog_frees_rows(cli: Cli, flow: Path, url: str):
    db = ("--database", url)
    at = ("--pipeline", "flow.py:quick", *db)
    good(cli("control", "sync", *at, text="url,iteration\nu,1\n"))
    *_, slow = claim(cli, "--worker", "slow", *at)
    time.sleep(1.1)
    assert json.loads(good(cli("control", "watchdog", "--json", *db)))["expired"] == 1
    *_, fast = claim(cli, "--worker", "fast", "--url", "u", "--iteration", 1, *at)
    nonce = slow.split(".")[2]
    for command in (["renew"], ["release"], ["release", "--status", "ERROR"]):
        line = told(cli("control", *command, slow, *db))
        assert "the ticket is of no use any more: the token ended by expire" in line
        assert nonce not in line
    forged = fast.replace(fast.split(".")[2], nonce)
    assert "does not hold this task" in told(cli("control", "release", forged, *db))
    assert "no such task" in told(cli("control", "release", "9" + fast, *db))
    (row,) = json.loads(good(cli("control", "rows", "--pipeline", "quick", "--json", *db)))
    assert (row["status"], row["worker_id"]) == ("IN_PROGRESS", "fast")


def test_what_is_held_by_nobody_who_lives_can_be_claimed_without_a_watchdog(cli: Cli, flow: Path):
    at = ("--pipeline", "flow.py:quick", "--database", "sqlite:///table.db")
    good(cli("control", "sync", *at, text="url,iteration\nu,1\n"))
    claim(cli, "--worker", "slow", *at)
    time.sleep(1.1)
    assert claim(cli, "--worker", "fast", *at)[:3] == ["u", "1", "work"]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_work_ends_when_nothing_can_be_claimed(kind: str, cli: Cli, flow: Path):
    at = ("--pipeline", "flow.py:quick", "--database", f"{kind}:///table.db")
    assert "there is no database table.db" in told(cli("control", "work", *at))
    good(cli("control", "sync", *at, text="url,iteration\nu,1\nv,1\nw,1\n"))
    good(cli("control", "pause", "v", 1, *at))
    expected = ["2 rows COMPLETED", "1 rows READY, PAUSED"]
    for _ in range(2):
        assert good(cli("control", "work", "--slots", 2, *at)).splitlines() == expected
    good(cli("control", "sync", *at, text="url,iteration\nbad,1\n"))
    ran = cli("control", "work", "--json", *at)
    assert ran.returncode == 1, "a row failed"
    assert {"status": "ERROR", "task_state": "READY", "rows": 1} in json.loads(ran.stdout)
    assert cli("control", "work", *at).returncode == 0, "it is not tried again"
    assert "('bad', 1) has failed" in told(
        cli("control", "claim", "--worker", "w", "--url", "bad", "--iteration", 1, *at)
    )


def test_a_second_process_on_one_duckdb_file_is_told_so(cli: Cli, flow: Path, tmp_path: Path):
    path = old_file(tmp_path / "old.duckdb", ROWS)
    at = ("--pipeline", "flow.py:flow", "--database", "duckdb:///old.duckdb")
    good(cli("control", "import", path, "--pipeline", "flow.py:flow", "--stage-map", "compare=align"))
    commands: list[tuple[Any, ...]] = [
        ("import", path, "--pipeline", "flow.py:flow"),
        ("import", path, "--pipeline", "flow.py:flow", "--into", "sqlite:///other.db"),
        ("worklist", *at),
        ("claim", "--worker", "w", *at),
        ("rows", *at),
        ("watchdog", "--database", "duckdb:///old.duckdb"),
    ]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        for command in commands:
            assert "old.duckdb is held by another process. DuckDB allows one" in told(
                cli("control", *command)
            )
        holder.stdin.close()
    assert len(json.loads(good(cli("control", "worklist", "--json", *at)))) == 3
    assert ask(path, "SELECT COUNT(*) FROM workers") == [(0,)]


BAD = {
    "another key": (["worklist", "--pipeline", "flow.py:plain"], "has the key ()"),
    "which one": (["worklist", "--pipeline", "flow.py"], "declares several pipelines"),
    "no pipeline": (["claim", "--worker", "w", "--pipeline", "gone.py"], "there is no file gone.py"),
    "no stage": (["worklist", "--stage", "fech", "--pipeline", "flow.py:flow"], "has no stage 'fech'"),
    "half a pair": (["claim", "--worker", "w", "--url", "u", "--pipeline", "flow.py:flow"], "go together"),
    "no ticket": (["release", "secret.1.2.3"], "a ticket reads TASK.EPOCH.NONCE.WORKER"),
    "no row": (["pause", "u", "1", "--pipeline", "flow.py:flow"], "has no row ('u', 1)"),
    "no limit": (["rows", "--limit", "0", "--pipeline", "flow"], "--limit 0 is not within"),
    "no rows": (["sync", "--rows", "gone.csv", "--pipeline", "flow.py:flow"], "gone.csv cannot be read"),
    "no number": (["sync", "--rows", "bad.csv", "--pipeline", "flow.py:flow"], "row 2 of bad.csv: iteration"),
    "no cells": (["sync", "--rows", "short.csv", "--pipeline", "flow.py:flow"], "not as many cells"),
    "no JSON": (["sync", "--rows", "bad.json", "--pipeline", "flow.py:flow"], "neither a JSON list nor"),
    "no objects": (
        ["sync", "--rows", "list.json", "--pipeline", "flow.py:flow"],
        "row 1 of list.json must be",
    ),
    "no old file": (["import", "gone.duckdb", "--pipeline", "flow.py:flow"], "there is no file gone.duckdb"),
    "no old table": (["import", "a.duckdb", "--pipeline", "flow.py:flow"], "has no table pipeline_control"),
    "no map": (["import", "a.duckdb", "--stage-map", "x", "--pipeline", "flow.py:flow"], "is not OLD=NEW"),
    "no such stage": (
        ["import", "a.duckdb", "--stage-map", "x=y", "--pipeline", "flow.py:flow"],
        "has no stage 'y'",
    ),
    "no report": (
        ["import", "a.duckdb", "--report", "r.txt", "--pipeline", "flow.py:flow"],
        "end in .csv or",
    ),
    "no folder": (
        ["import", "a.duckdb", "--report", "no/r.csv", "--pipeline", "flow.py:flow"],
        "cannot be writ",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_line_and_changes_nothing(name: str, call: Call, flow: Path, tmp_path: Path):
    (tmp_path / "none.csv").write_text("url,iteration\n")
    (tmp_path / "bad.csv").write_text("url,iteration\na,1\nb,two\n")
    (tmp_path / "short.csv").write_text("url,iteration\na\n")
    (tmp_path / "bad.json").write_text('{"url": "a", "iteration"')
    (tmp_path / "list.json").write_text("[1]")
    ask(tmp_path / "a.duckdb", "CREATE TABLE pipeline_old (a INTEGER)")
    database = ("--database", "sqlite:///table.db")
    assert call("control", "sync", "--pipeline", "flow.py:flow", "--rows", "none.csv", *database).code == 0
    arguments, expected = BAD[name]
    ran = call("control", *arguments, *(() if arguments[0] == "import" else database))
    line = told(ran)
    assert expected in line
    assert "secret" not in line
    assert call("control", "rows", "--pipeline", "flow", "--json", *database).json == []
    assert not (tmp_path / "takeup-data").exists()
