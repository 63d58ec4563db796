"""Judges what a chaotic run left behind: the log, the tables, the files, the processes."""

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from takeup.artifacts import manifest
from takeup.artifacts.local import LocalArtifacts
from takeup.core.machine import JOB
from takeup.core.model import Event, Job
from takeup.engine.sweeper import Sweeper
from takeup.store.store import Store
from takeup.testing.history import Call, Settings, check, read_tables
from tests.chaos.logged import read_calls
from tests.chaos.pipeline import FILES, LINES
from tests.chaos.roles import OFFLINE_MIN, RECOVERY_S

PAGE = 1000


async def events_of(store: Store) -> list[Event]:
    found: list[Event] = []
    while page := await store.read.events(after=found[-1].seq if found else 0, limit=PAGE):
        found += page
    return found


async def jobs_of(store: Store) -> list[Job]:
    found: list[Job] = []
    while page := await store.read.jobs(before=found[-1] if found else None, limit=PAGE):
        found += page
    return found


async def judge(store: Store, folder: Path, job_ids: Sequence[str], quiet_from: datetime) -> dict[str, int]:
    """Everything must be done, once, by the rules; answers with what was counted."""
    jobs = {job.id: job for job in await jobs_of(store)}
    lost = [job_id for job_id in job_ids if job_id not in jobs]
    assert not lost, f"lost: {lost}"
    unfinished = {job.id: (job.status, job.error) for job in jobs.values() if job.status != "completed"}
    assert not unfinished, unfinished
    assert all(job.status in JOB.final for job in jobs.values())
    events = await events_of(store)
    tables = await store.driver.read(read_tables)
    settings = Settings(
        recovery_s=RECOVERY_S,
        offline_s=OFFLINE_MIN * 60,
        slack_s=3.0,
        poll_s=OFFLINE_MIN * 60 + 2,  # a killed worker looks idle until it is found to be silent
        log_lag_s=6.0,
        margin_s=2 / 6,
        quiet_from=quiet_from,
        ended_at=await store.read.now(),
    )
    calls: list[Call] = read_calls(folder)
    violations = check(events, calls, tables, settings)
    assert not violations, "\n".join(map(str, violations[:20]))
    await check_files(store, folder / "data", list(jobs))
    return {
        "jobs": len(jobs),
        "events": len(events),
        "calls": len(calls),
        "claims": sum(event.event == "claim" for event in events),
        "completions": sum(event.noun == "task" and event.event == "complete" for event in events),
        "expired": sum(event.event in ("expire", "bury") for event in events),
    }


async def check_files(store: Store, data: Path, job_ids: Sequence[str]) -> None:
    """Every output is there, whole, and from the attempt that won; nothing else is left."""
    storage, scratch = data / "artifacts", data / "scratch"
    await Sweeper(store.worker, storage, scratch).run_once()
    artifacts = LocalArtifacts(storage)
    left = [path for path in (*(storage / ".staging").glob("*"), *scratch.glob("*")) if path.name[0] != "."]
    assert not left, left
    for job_id in job_ids:
        for artifact in await store.read.artifacts(job_id):
            assert artifacts.open_path(artifact.key).is_file(), artifact
    winners = await asyncio.to_thread(_winners, storage)
    rows = await store.driver.read(_artifact_epochs)
    for task_id, epoch in rows:
        assert winners.pop(task_id).epoch == epoch, (task_id, epoch)
    assert not winners, f"published without a row: {winners}"


def _winners(storage: Path) -> dict[int, manifest.Manifest]:
    """The manifest of every published folder, each verified; by task."""
    artifacts = LocalArtifacts(storage)
    found = {}
    for path in storage.glob("*/*/g*/*/*/manifest.json"):
        made = manifest.read(path.parent)
        assert made is not None, path
        assert artifacts.verify(made) == [], path
        if path.parent.parent.name.startswith("work."):
            texts = {(path.parent / name).read_text() for name in FILES}
            assert len(texts) == 1, f"{path.parent} is from several attempts"
            assert len(texts.pop().splitlines()) == LINES, path
        assert made.task_id not in found
        found[made.task_id] = made
        json.dumps(dict(made.result))
    return found


def _artifact_epochs():
    from takeup.store.op import Script  # noqa: PLC0415 - one small read past the facades

    rows = yield Script("SELECT DISTINCT task_id, epoch FROM artifacts")
    return [(row["task_id"], row["epoch"]) for row in rows]
