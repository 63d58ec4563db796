"""`takeup jobs logs`: what a job logged, and the commands that it ran."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from typing import Any

from takeup.cli.jobs_show import log_text
from takeup.cli.opening import open_store
from takeup.cli.printing import line, moment, print_json
from takeup.core.model import LogLine, Step
from takeup.store.ops.read import PAGE_MAX
from takeup.store.store import ReadStore

LOOK_EVERY_S = 0.5


async def logs(options: argparse.Namespace) -> int:
    """Print all lines, and with --follow those that come until the job ends."""
    show: Callable[[Any], None] = print_json if options.json else _show_step if options.steps else _show_line
    async with open_store(options) as (store, _):
        job_id = await store.read.find_job(options.job)
        after = 0
        while True:
            is_over = (await store.read.job(job_id)).finished_at is not None  # before the lines are read
            after = await _print(store.read, job_id, after, show, steps=options.steps)
            sys.stdout.flush()
            if is_over or not options.follow:
                return 0
            await asyncio.sleep(LOOK_EVERY_S)


async def _print(
    read: ReadStore, job_id: str, after: int, show: Callable[[Any], None], *, steps: bool
) -> int:
    """Print every line after this one; answers with the last."""
    while True:
        page: list[Step] | list[LogLine]
        page = await (read.steps if steps else read.logs)(job_id, after=after, limit=PAGE_MAX)
        for entry in page:
            show(entry)
        if page:
            after = page[-1].id
        if len(page) < PAGE_MAX:
            return after


def _show_line(entry: LogLine) -> None:
    line(log_text(entry))


def _show_step(step: Step) -> None:
    how = "running" if step.completed_at is None else f"exit {step.exit_code}, {step.duration_ms} ms"
    line(f"{moment(step.started_at)} task {step.task_id} [{how}] {step.command}")
    for text in (step.error, step.stderr if step.exit_code else None):
        for part in (text or "").strip().splitlines():
            line(f"    {part}")
