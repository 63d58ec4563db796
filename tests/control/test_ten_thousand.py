"""Ten thousand rows in the old shape: imported, worked off by four slots, and imported again."""

import json
import secrets
import time
from pathlib import Path

from takeup.core.model import Completion, WorkerSpec
from takeup.pipelines.control import import_control
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store
from tests.control.conftest import PIPELINE, ask, old_file, shown

COUNT, RUNNING = 10_000, 400
SLOTS = 4


def rows() -> list[dict]:
    """A few hundred to run; the others are done, paused or to be skipped."""
    made = []
    for i in range(COUNT):
        row = {"url": f"https://x.example/{i // 2}", "iteration": i % 2, "stage": "score", "title": f"t {i}"}
        if i % (COUNT // RUNNING) == 0:
            made.append({**row, "status": "ERROR", "process_status": "READY"})
        else:
            status, toggle = [("COMPLETED", "READY"), ("READY", "PAUSED"), ("IN_PROGRESS", "SKIP")][i % 3]
            made.append({**row, "status": status, "process_status": toggle})
    return made


async def work(path: Path) -> int:
    store = await Store.open(f"duckdb:///{path}")
    await store.worker.register(WorkerSpec("w", slots=SLOTS))
    done = 0
    while leases := await store.worker.claim(
        ClaimRequest("w", secrets.token_hex(8), secrets.token_hex(16), SLOTS)
    ):
        answers = await store.worker.complete("w", [Completion(lease.held) for lease in leases])
        done += sum(answer.accepted for answer in answers)
    await store.close()
    return done


async def test_ten_thousand_rows(tmp_path: Path, capsys, record_property):
    path = old_file(tmp_path / "old.duckdb", [], None)
    fill(path)
    started = time.monotonic()
    report = await import_control(path, PIPELINE)
    imported_s = time.monotonic() - started
    assert report.counts == {"imported": COUNT, "present": 0, "kept": 0}
    before = shown(path)
    started = time.monotonic()
    assert await work(path) == RUNNING
    worked_s = time.monotonic() - started
    after = shown(path)
    untouched = {pair: row for pair, row in before.items() if row[2] != "READY" or row[1] == "COMPLETED"}
    assert len(untouched) == COUNT - RUNNING
    assert {pair: after[pair] for pair in untouched} == untouched
    assert {row[1] for pair, row in after.items() if pair not in untouched} == {"COMPLETED"}
    started = time.monotonic()
    assert (await import_control(path, PIPELINE)).is_nothing_new
    again_s = time.monotonic() - started
    assert shown(path) == after
    started = time.monotonic()
    assert len(ask(path, "SELECT * FROM pipeline_control WHERE url = 'https://x.example/7'")) == 2
    looked_s = time.monotonic() - started
    told = (
        f"import {imported_s:.1f} s, {RUNNING} tasks with {SLOTS} slots {worked_s:.1f} s, "
        f"import again {again_s:.1f} s, one url in the view {looked_s:.2f} s"
    )
    record_property("timing", told)
    with capsys.disabled():
        print(f"\n10,000 rows: {told}")


def fill(path: Path) -> None:
    """The rows in one statement: ten thousand single inserts would take longer than the import."""
    listed = path.with_suffix(".json")
    listed.write_text("\n".join(map(json.dumps, rows())))
    ask(path, f"INSERT INTO pipeline_control BY NAME SELECT * FROM read_json('{listed}')")
