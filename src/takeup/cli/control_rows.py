"""`takeup control sync|worklist|rows|pause|resume|skip|watchdog`."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from takeup.cli.control_input import read_rows
from takeup.cli.opening import open_store, ring
from takeup.cli.options import settings_of
from takeup.cli.printing import line, moment, print_json, table
from takeup.cli.submit import is_source, pipeline_named
from takeup.core.control import ControlRow
from takeup.core.errors import IllegalMove, InvalidInput
from takeup.core.model import Control
from takeup.pipelines.control import ControlTable, WatchdogReport
from takeup.pipelines.control.watchdog import watch
from takeup.store.ops.control import ControlFilter
from takeup.store.ops.read import PAGE_MAX
from takeup.store.store import ReadStore

ROWS_MAX = 100_000
PASSES_MAX = 1000
"""How many times the watchdog looks before it leaves the rest to its next run."""
DONE: dict[Control, tuple[str, str]] = {
    "PAUSED": ("paused", "was paused already"),
    "READY": ("resumed", "was not paused"),
    "SKIP": ("skipped", "was skipped already"),
}


async def sync(options: argparse.Namespace) -> int:
    """Create the rows that never were there, all of them checked first."""
    from takeup.app import open_app  # noqa: PLC0415 - only here a new database may be made

    settings = settings_of(options)
    pipeline = pipeline_named(options.pipeline)
    rows = read_rows(options.rows, pipeline)
    async with open_app(settings) as app:
        report = await ControlTable(app.store, pipeline).sync(rows, task_state=options.task_state)
        app.bell.ring("work")
    if options.json:
        print_json(report)
    else:
        line(f"{report.inserted} rows created, {report.existing} were there and are as they were")
    return 0


async def worklist(options: argparse.Namespace) -> int:
    """Print what can be claimed now."""
    pipeline = pipeline_named(options.pipeline)
    if not 1 <= options.limit <= PAGE_MAX:
        raise InvalidInput(f"--limit {options.limit} is not within 1 to {PAGE_MAX}")
    async with open_store(options) as (store, _):
        found = await ControlTable(store, pipeline).worklist(options.stage, limit=options.limit)
    if options.json:
        print_json(found)
    else:
        table(("url", "iteration", "stage"), [(one.url, one.iteration, one.stage) for one in found])
    return 0


async def rows(options: argparse.Namespace) -> int:
    """Print the table."""
    text = options.pipeline
    name = pipeline_named(text).name if is_source(text) else text
    if not 1 <= options.limit <= ROWS_MAX:
        raise InvalidInput(f"--limit {options.limit} is not within 1 to {ROWS_MAX}")
    where = ControlFilter(options.stage, options.status, options.task_state)
    async with open_store(options) as (store, _):
        found = await all_rows(store.read, name, where, options.limit)
    if options.json:
        print_json(found)
        return 0
    names = [field.name for field in fields(ControlRow) if field.name not in ("pipeline", "generation")]
    shown = [
        [moment(value) if isinstance(value, datetime) else value for value in _cells(row, names)]
        for row in found
    ]
    table(names, shown)
    return 0


async def all_rows(
    read: ReadStore, pipeline: str, where: ControlFilter | None = None, limit: int = ROWS_MAX
) -> list[ControlRow]:
    """Page by page until there are enough."""
    found: list[ControlRow] = []
    while len(found) < limit:
        size = min(limit - len(found), PAGE_MAX)
        after = found[-1].job_id if found else ""
        page = await read.control_rows(pipeline, where, after=after, limit=size)
        found += page
        if len(page) < size:
            break
    return found


def _cells(row: ControlRow, names: Sequence[str]) -> list[Any]:
    return [getattr(row, name) for name in names]


async def pause(options: argparse.Namespace) -> int:
    """Let nothing new of these rows be claimed."""
    return await _toggle(options, "PAUSED")


async def resume(options: argparse.Namespace) -> int:
    """Let these rows go on."""
    return await _toggle(options, "READY")


async def skip(options: argparse.Namespace) -> int:
    """End these rows without their work."""
    return await _toggle(options, "SKIP")


async def _toggle(options: argparse.Namespace, control: Control) -> int:
    """All of the rows or none."""
    pipeline = pipeline_named(options.pipeline)
    done, already = DONE[control]
    async with open_store(options) as (store, _):
        control_table = ControlTable(store, pipeline)
        iterations = list(dict.fromkeys(options.iterations))
        before = [await control_table.row(options.url, iteration) for iteration in iterations]
        for row in before:
            status = (await store.read.job(row.job_id)).status
            if status in ("completed", "failed", "cancelled") and row.task_state != control:
                raise IllegalMove(f"({row.url!r}, {row.iteration}) is {status} and cannot be {done}")
        live = [row.job_id for row in before if row.task_state != control]
        changed = await store.operator.set_control(live, control, reason=options.reason) if live else []
        await ring(store)
        after = [await control_table.row(row.url, row.iteration) for row in before]
    if options.json:
        print_json({"changed": len(changed), "rows": after})
        return 0
    for row in after:
        line(f"{row.url} {row.iteration} {done if row.job_id in changed else already}")
    return 0


async def watchdog(options: argparse.Namespace) -> int:
    """One pass over everything that is overdue or due."""
    expired = woken = advanced = 0
    after = ""
    async with open_store(options) as (store, _):
        for _ in range(PASSES_MAX):
            report, after = await watch(store, after=after, limit=PAGE_MAX)
            expired, woken = expired + report.expired, woken + report.woken
            advanced += report.advanced
            if not after and PAGE_MAX not in (report.expired, report.woken):
                break
        await ring(store)
    total = WatchdogReport(expired, woken, advanced)
    if options.json:
        print_json(total)
    else:
        line(f"{expired} leases taken back, {woken} retries woken, {advanced} tasks and jobs moved on")
    return 0
