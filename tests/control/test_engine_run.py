"""Ten thousand rows of an old DuckDB file, imported and worked off by the real engine with four slots."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from takeup.history import live
from takeup.pipelines.control import import_control
from takeup.pipelines.loading import load_one
from takeup.store.op import Op, Row, Script
from takeup.store.store import Store
from tests.control.conftest import BOTH_COLUMNS, ask, old_file
from tests.engine.conftest import no_orphans
from tests.engine.scene import scene_on

__all__ = ["no_orphans"]

FLOW = str(Path(__file__).with_name("table_flow.py"))
COUNT = 10_000
SLOTS = 4
LIVE_S = 12.0
"""How long the live leases of the old table have still to go when it is imported."""
STAGES = ("fetch", "align", "score")
EXPECTED = {
    "whole": ("READY", "READY", 5, STAGES),
    "error": ("ERROR", "READY", 10, STAGES[1:]),
    "over": ("IN_PROGRESS", "READY", 5, STAGES[1:]),
    "live": ("IN_PROGRESS", "READY", 5, STAGES[1:]),
    "half": ("COMPLETED", "READY", 120, STAGES[2:]),
    "paused": ("READY", "PAUSED", 300, ()),
    "skip": ("READY", "SKIP", 300, ()),
}
"""A kind of row: its status and toggle in the old table, how many there are, and what is to run of each."""

UNTOUCHED = ("done", "paused", "skip")
IS_UNTOUCHED = f"split_part(url, '.', 1) IN {tuple(f'https://{kind}' for kind in UNTOUCHED)}"
SEED_COLUMNS = [
    "url", "iteration", "stage", "status", "task_state", "is_claimed", "worker_id", "lease_until",
    "updated_at",
]  # fmt: skip
EARLY = "j.spec LIKE '%https://live.example%' AND a.logged_at < TIMESTAMPTZ '{}'"


@dataclass(frozen=True)
class Old:
    """The old file, and when its live leases end."""

    path: Path
    live_until: datetime


@pytest.fixture
def old(tmp_path: Path) -> Old:
    path = old_file(tmp_path / "old.duckdb", [], BOTH_COLUMNS)
    live_until = datetime.now(UTC) + timedelta(seconds=LIVE_S)
    listed = path.with_suffix(".json")
    listed.write_text("\n".join(map(json.dumps, rows(live_until))))
    ask(path, f"INSERT INTO pipeline_control BY NAME SELECT * FROM read_json('{listed}')")
    return Old(path, live_until)


def rows(live_until: datetime) -> list[dict]:
    """Most are done; of the others each kind has its own url."""
    made = []
    for kind, (status, toggle, count, stages) in EXPECTED.items():
        row = {"status": status, "process_status": toggle, "task_state": "READY", "is_claimed": False}
        stage = {"whole": None, "half": "align"}.get(kind, "align" if len(stages) < 3 else stages[0])
        if kind in ("over", "live"):
            until = live_until if kind == "live" else live_until - timedelta(hours=1)
            row |= {"is_claimed": True, "worker_id": "gone", "lease_until": until.strftime("%F %T.%f")}
        made += [
            {"url": f"https://{kind}.example", "iteration": i, "stage": stage, **row} for i in range(count)
        ]
    done = {"stage": "score", "status": "COMPLETED", "process_status": "READY", "task_state": "READY"}
    made += [{"url": "https://done.example", "iteration": i, **done} for i in range(COUNT - len(made))]
    return [{**row, "title": f"title {i}"} for i, row in enumerate(made)]


async def work_off(old: Old, folder: Path) -> tuple[float, int]:
    """Run the engine until nothing that may run is left; how long it took, and the claims in the log."""
    query = "SELECT COUNT(*) AS count FROM jobs WHERE control = 'READY' AND finished_at IS NULL"
    async with scene_on(f"duckdb:///{old.path}", folder) as scene:
        started = time.monotonic()
        await scene.start_worker("w", sources=(FLOW,), slots=SLOTS)
        while (await scene.store.driver.read(script, query))[0]["count"]:
            assert time.monotonic() - started < 60, "the engine is too slow on DuckDB"
            await asyncio.sleep(0.25)
        took_s = time.monotonic() - started
        assert await scene.store.read.worklist("table", limit=1) == []
        await asyncio.sleep(0.5)  # whatever would still be done without a reason is done now
    return took_s, ask(old.path, "SELECT COUNT(*) FROM audit WHERE event = 'claim'")[0][0]


def script(sql: str) -> Op[list[Row]]:
    return (yield Script(sql))


def view(path: Path, where: str = "TRUE") -> list[tuple]:
    columns = "url, iteration, stage, status, task_state, is_claimed, worker_id, lease_until"
    return ask(
        path, f"SELECT {columns}, updated_at FROM pipeline_control WHERE {where} ORDER BY url, iteration"
    )


@pytest.mark.usefixtures("no_orphans")
async def test_ten_thousand_rows_are_imported_and_worked_off(
    old: Old, tmp_path: Path, monkeypatch, capsys, record_property
):
    runs = tmp_path / "runs"
    monkeypatch.setenv("TAKEUP_TEST_RUNS", str(runs))
    pipeline = load_one(FLOW)
    started = time.monotonic()
    report = await import_control(old.path, pipeline)
    imported_s = time.monotonic() - started
    assert report.counts == {"imported": COUNT, "present": 0, "kept": 0}
    before = view(old.path, IS_UNTOUCHED)
    assert Counter((row[4], row[3]) for row in before) == {
        ("READY", "COMPLETED"): COUNT - sum(count for *_, count, _ in EXPECTED.values()),
        ("PAUSED", "READY"): EXPECTED["paused"][2],
        ("SKIP", "COMPLETED"): EXPECTED["skip"][2],
    }
    worked_s, claims = await work_off(old, tmp_path)
    expected = Counter(
        f"{stage} https://{kind}.example {i}"
        for kind, (_, _, count, stages) in EXPECTED.items()
        for i in range(count)
        for stage in stages
    )
    assert Counter(runs.read_text().splitlines()) == expected, "each stage once, and nothing else"
    assert claims == sum(expected.values())
    columns = [row[0] for row in ask(old.path, "DESCRIBE pipeline_control")]
    assert columns[:9] == SEED_COLUMNS
    assert view(old.path, IS_UNTOUCHED) == before, "paused, skipped and finished rows are as they were"
    after = view(old.path)
    assert {row[2:8] for row in after if kind_of(row) not in UNTOUCHED} == {
        ("score", "COMPLETED", "READY", False, None, None)
    }
    assert len(after) == COUNT
    early = f"SELECT COUNT(*) FROM audit a JOIN jobs j ON j.id = a.job_id WHERE a.event = 'claim' AND {EARLY}"
    assert ask(old.path, early.format(old.live_until.strftime("%F %T.%f"))) == [(0,)], (
        "a live lease is left alone"
    )
    started = time.monotonic()
    assert (await import_control(old.path, pipeline)).is_nothing_new
    again_s = time.monotonic() - started
    assert (await work_off(old, tmp_path))[1] == claims
    assert view(old.path) == after
    assert Counter(runs.read_text().splitlines()) == expected, "again, and nothing ran"
    store = await Store.open(f"duckdb:///{old.path}")
    verdict = await store.driver.read(live.verify, "duckdb")
    await store.close()
    assert (verdict.violations, verdict.jobs) == ((), COUNT)
    told = (
        f"import {imported_s:.1f} s, {claims} tasks with {SLOTS} slots {worked_s:.1f} s "
        f"({claims / worked_s:.0f} a second), import again {again_s:.1f} s"
    )
    record_property("timing", told)
    with capsys.disabled():
        print(f"\n10,000 rows by the engine on DuckDB: {told}")


def kind_of(row: tuple) -> str:
    return row[0].removeprefix("https://").removesuffix(".example")
