"""`takeup work`: a worker, straight on the database or over HTTP."""

import argparse
import asyncio
import secrets
import socket

from takeup.app import make_folder, open_app, run_loops
from takeup.cli.options import add_capability, add_common, positive, settings_of
from takeup.cli.signals import stop_on_signal
from takeup.config import Settings
from takeup.core.errors import InvalidInput
from takeup.engine.heap import settle_heap
from takeup.pipelines.loading import INSTALLED, OURS, load_all
from takeup.telemetry import logs

log = logs.logger("work")


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    add_worker_arguments(parser)
    parser.add_argument(
        "--server",
        metavar="URL",
        dest="server_url",
        help="work for this server, over HTTP; needs no database; several on one database: URL,URL",
    )
    parser.add_argument(
        "--key", dest="worker_api_key", help="the worker's key (better: TAKEUP_WORKER_API_KEY)"
    )
    parser.add_argument(
        "--name", help="a fixed name: restarted under it, the worker drops what it held before"
    )
    add_common(parser)
    parser.set_defaults(run=work)


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """What a worker runs and how much of it."""
    parser.add_argument(
        "--pipelines",
        action="append",
        metavar="FILE.py",
        help="a file or module with pipelines; may be repeated (default: the installed ones)",
    )
    parser.add_argument(
        "--stages",
        action="append",
        metavar="PIPELINE/STAGE",
        help="serve only these; PIPELINE/* for all of one",
    )
    add_capability(parser)
    parser.add_argument("--slots", type=positive, metavar="N", help="tasks at once (default: the processors)")
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="processes for them (default: one a slot)"
    )


def sources_of(options: argparse.Namespace) -> list[str]:
    """What a worker runs: what is named, or all that is installed; and what makes streams of videos."""
    return [*(options.pipelines or [INSTALLED]), OURS]


async def work(options: argparse.Namespace) -> int:
    """Run a worker until a signal; the first lets tasks finish, the second hands them back."""
    settings = settings_of(options, "server_url", "worker_api_key")
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    make_folder(settings.data_dir)
    if not options.pipelines and not load_all([INSTALLED]):
        log.info("only videos are worked on; name pipelines of your own: --pipelines flow.py")
    if settings.server_url:
        return await work_afar(options, settings)
    name = options.name or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    async with open_app(settings) as app:
        settle_heap()
        worker = app.worker(
            sources_of(options),
            worker_id=name,
            name=name,
            slots=options.slots,
            processes=options.processes,
            stages=options.stages or (),
            capabilities=options.capability or (),
        )
        stop = asyncio.Event()
        sweeping = asyncio.create_task(run_loops([app.sweeper()], stop))
        try:
            with stop_on_signal(worker.stop):
                await worker.run()
        finally:
            stop.set()
            await sweeping
    return 0


async def work_afar(options: argparse.Namespace, settings: Settings) -> int:
    """Run a worker that has nothing but a server's address and a key."""
    from takeup.engine.remote.starting import remote_worker  # noqa: PLC0415 - the HTTP client is slow to load

    if options.name:
        raise InvalidInput(
            "--name is for workers on the database",
            advice="A worker elsewhere has the name that its key was made for.",
        )
    sources = sources_of(options)
    stop = asyncio.Event()
    async with remote_worker(
        settings,
        load_all(sources),
        sources,
        slots=options.slots,
        processes=options.processes,
        stages=options.stages or (),
        capabilities=options.capability or (),
    ) as afar:
        settle_heap()
        sweeping = asyncio.create_task(run_loops([afar.cache], stop))
        try:
            with stop_on_signal(afar.stop):
                await afar.worker.run()
        finally:
            stop.set()
            await sweeping
    return 0
