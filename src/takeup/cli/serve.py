"""`takeup serve`: the HTTP API, every loop and some local workers in one process."""

import argparse
import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping

from takeup.app import App, local_worker_id, make_folder, open_app, run_loops
from takeup.cli.options import add_common, settings_of
from takeup.cli.run import only_one
from takeup.cli.signals import stop_on_signal
from takeup.cli.work import add_worker_arguments, sources_of
from takeup.config import Settings
from takeup.core.errors import WorkerRefused
from takeup.core.pipeline import Pipeline
from takeup.core.remote import STORAGE
from takeup.engine.heap import settle_heap
from takeup.pipelines.loading import INSTALLED, load_all
from takeup.telemetry import logs

SECOND = (
    "Give a second server a data directory of its own (--data DIR); on one PostgreSQL both need the same "
    "storage_url and media_dir, as docs/guides/operate.md says."
)

log = logs.logger("serve")


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    add_worker_arguments(parser)
    parser.add_argument(
        "--workers", type=int, metavar="N", help="the same as --slots; 0: only what needs this disk"
    )
    parser.add_argument("--host", metavar="ADDRESS", help="listen there (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="N", help="listen there (default: 8080); 0: any free one")
    add_common(parser)
    parser.set_defaults(run=serve)


async def serve(options: argparse.Namespace) -> int:
    """Run until a signal; the first lets tasks finish, the second hands them back."""
    from takeup.cli.first_admin import first_admin, take_secret  # noqa: PLC0415 - see below

    settings = settings_of(options, "host", "port")
    secret = take_secret(os.environ)
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    if settings.insecure_cookies:
        log.warning("insecure_cookies is on: who listens on the network can take over a session")
    make_folder(settings.data_dir)
    make_folder(settings.media)
    slots = options.slots if options.workers is None else options.workers
    offered = load_all(options.pipelines or [INSTALLED])
    sources = sources_of(options)
    pipelines = load_all(sources)  # what is sent as a video is made here; no job of it is taken from afar
    stop, asked = asyncio.Event(), asyncio.Event()
    with only_one(settings.data_dir, SECOND), opened_socket(settings) as opened:
        async with (
            open_app(settings) as app,
            first_admin(app, opened, secret),
            answering(app, offered, pipelines, opened) as http,
        ):
            settle_heap()
            looping = asyncio.create_task(run_loops(app.loops(pipelines.values()), stop))
            try:
                stages = options.stages or (on_this_disk(pipelines) if slots == 0 else ())
                worker = app.worker(
                    sources,
                    worker_id=local_worker_id(settings),
                    slots=slots if slots is None else max(slots, 1),
                    processes=options.processes,
                    stages=stages,
                    capabilities=options.capability or (),
                )

                def end() -> None:
                    if asked.is_set():
                        log.info("stopping at once: tasks are handed back")
                    else:
                        log.info(
                            "stopping", tasks_go_on_s=settings.worker_drain_timeout, again="hands them back"
                        )
                    asked.set()
                    worker.stop()

                http.add_done_callback(lambda _: end())
                with stop_on_signal(end):
                    try:
                        await worker.run()
                    except WorkerRefused as error:  # whoever disabled it must be able to enable it again
                        log.warning("no work is done here", error=str(error))
                    await asked.wait()  # a worker that an operator drained does not take the loops with it
            finally:
                stop.set()
                await looping
    return 0


def on_this_disk(pipelines: Mapping[str, Pipeline]) -> list[str]:
    """The stages that nobody elsewhere can run."""
    return [
        f"{pipeline.name}/{stage.name}"
        for pipeline in pipelines.values()
        for stage in pipeline.stages.values()
        if STORAGE in stage.requires
    ]


@contextlib.contextmanager
def opened_socket(settings: Settings) -> Iterator[socket.socket]:
    """The address of the server, before anything else is begun."""
    from takeup.api.listening import listen  # noqa: PLC0415 - the framework is slow to load

    opened = listen(settings.host, settings.port)
    try:
        yield opened
    finally:
        opened.close()


@contextlib.asynccontextmanager
async def answering(
    app: App,
    offered: Mapping[str, Pipeline],
    pipelines: Mapping[str, Pipeline],
    opened: socket.socket,
) -> AsyncIterator[asyncio.Task[None]]:
    """Answer over HTTP meanwhile; at the end, after the workers, what is being answered is finished."""
    from takeup.api.build import build_api  # noqa: PLC0415 - see above
    from takeup.api.listening import serve as serve_http  # noqa: PLC0415

    stop = asyncio.Event()
    running = asyncio.create_task(serve_http(build_api(app, offered, pipelines), opened, stop))
    host, port = opened.getsockname()[:2]
    log.info("listening", address=f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        yield running
    finally:
        stop.set()
        await running
