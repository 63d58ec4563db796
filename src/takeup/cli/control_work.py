"""`takeup control work`: the engine on the rows of one table, until there is nothing left to claim."""

import argparse
import asyncio
from collections import Counter

from takeup.app import App, local_worker_id, make_folder, open_app, run_loops
from takeup.cli.control_rows import all_rows
from takeup.cli.opening import must_exist
from takeup.cli.options import settings_of
from takeup.cli.printing import line, print_json
from takeup.cli.run import only_one
from takeup.cli.signals import stop_on_signal
from takeup.cli.submit import is_source, pipeline_named
from takeup.core.control import check_pipeline
from takeup.core.errors import NotFound
from takeup.core.machine import JOB
from takeup.engine.worker import Worker
from takeup.pipelines.loading import INSTALLED
from takeup.store.ops.control import ControlFilter
from takeup.telemetry import logs

LOOK_EVERY_S = 0.5
LOOKS = 3
"""So many looks in a row must find nothing before the work counts as done."""


async def work(options: argparse.Namespace) -> int:
    """Work on the rows here; exit 1 if more of them are in error than before."""
    settings = settings_of(options, log_level="warning")
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    pipeline = pipeline_named(options.pipeline)
    check_pipeline(pipeline)
    must_exist(settings)
    make_folder(settings.data_dir)
    with only_one(settings.data_dir):
        async with open_app(settings) as app:
            before = await _counts(app, pipeline.name)
            worker = app.worker(
                [options.pipeline if is_source(options.pipeline) else INSTALLED],
                worker_id=local_worker_id(settings),
                slots=options.slots,
                stages=(f"{pipeline.name}/*",),
                capabilities=options.capability or (),
            )
            await _work_off(app, worker, pipeline.name)
            after = await _counts(app, pipeline.name)
    if options.json:
        print_json(
            [{"status": status, "task_state": state, "rows": n} for (status, state), n in after.items()]
        )
    else:
        for (status, state), count in sorted(after.items()):
            line(f"{count} rows {status}" + ("" if state == "READY" else f", {state}"))
    return 1 if _errors(after) > _errors(before) else 0


async def _work_off(app: App, worker: Worker, pipeline: str) -> None:
    """Loops and a worker in this process; a signal stops it, nothing is lost."""
    stop = asyncio.Event()
    working = asyncio.create_task(worker.run())
    looping = asyncio.create_task(run_loops(app.job_loops(), stop))
    watching = asyncio.create_task(_until_idle(app, worker.id, pipeline))
    try:
        with stop_on_signal(worker.stop):
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not watching.done():
            await working
            raise KeyboardInterrupt
        await watching
    finally:
        watching.cancel()
        worker.hurry()
        await asyncio.gather(working, return_exceptions=True)
        await app.sweeper().run_once()
        stop.set()
        await looping


async def _until_idle(app: App, worker_id: str, pipeline: str) -> None:
    looks = 0
    while looks < LOOKS:
        await asyncio.sleep(LOOK_EVERY_S)
        looks = looks + 1 if await _is_idle(app, worker_id, pipeline) else 0


async def _is_idle(app: App, worker_id: str, pipeline: str) -> bool:
    """Whether nothing runs here, nothing can be claimed now, and no retry is on its way."""
    read = app.store.read
    try:
        load = (await read.worker(worker_id)).load
    except NotFound:
        return False  # it is still starting
    if load or await read.worklist(pipeline, limit=1):
        return False
    for row in await read.control_rows(pipeline, ControlFilter(status="ERROR", task_state="READY")):
        if (await read.job(row.job_id)).status in JOB.live:
            return False
    return True


async def _counts(app: App, pipeline: str) -> Counter[tuple[str, str]]:
    rows = await all_rows(app.store.read, pipeline)
    return Counter((row.status, row.task_state) for row in rows)


def _errors(counts: Counter[tuple[str, str]]) -> int:
    return sum(count for (status, _), count in counts.items() if status == "ERROR")
