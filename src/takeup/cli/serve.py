"""`takeup serve`: every loop and some local workers in one process."""

import argparse
import asyncio

from takeup.app import local_worker_id, make_folder, open_app, run_loops
from takeup.cli.options import add_common, settings_of
from takeup.cli.run import only_one
from takeup.cli.signals import stop_on_signal
from takeup.cli.work import add_worker_arguments
from takeup.engine.heap import settle_heap
from takeup.pipelines.loading import INSTALLED, load_all
from takeup.telemetry import logs


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    add_worker_arguments(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="the same as --slots; 0: loops only")
    add_common(parser)
    parser.set_defaults(run=serve)


async def serve(options: argparse.Namespace) -> int:
    """Run until a signal; the first lets tasks finish, the second hands them back."""
    settings = settings_of(options)
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    make_folder(settings.data_dir)
    slots = options.slots if options.workers is None else options.workers
    sources = options.pipelines or [INSTALLED]
    pipelines = load_all(sources).values()
    stop, asked = asyncio.Event(), asyncio.Event()
    with only_one(settings.data_dir):
        async with open_app(settings) as app:
            settle_heap()
            looping = asyncio.create_task(run_loops(app.loops(pipelines), stop))
            try:
                if slots == 0:
                    with stop_on_signal(stop.set):
                        await stop.wait()
                    return 0
                worker = app.worker(
                    sources,
                    worker_id=local_worker_id(settings),
                    slots=slots,
                    processes=options.processes,
                    stages=options.stages or (),
                    capabilities=options.capability or (),
                )

                def end() -> None:
                    asked.set()
                    worker.stop()

                with stop_on_signal(end):
                    await worker.run()
                    await asked.wait()  # a worker that an operator drained does not take the loops with it
            finally:
                stop.set()
                await looping
    return 0
