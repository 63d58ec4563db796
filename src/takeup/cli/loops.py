"""`takeup orchestrate` and `takeup recover`: the loops by themselves, for a fleet."""

import argparse
import asyncio
from collections.abc import Iterable

from takeup.app import App, open_app, run_loops
from takeup.cli.options import add_common, settings_of
from takeup.cli.signals import stop_on_signal
from takeup.core.pipeline import Pipeline
from takeup.engine.loop import Loop
from takeup.pipelines.loading import load_all
from takeup.telemetry import logs


def add(parser: argparse.ArgumentParser, name: str) -> None:
    """The arguments of these commands."""
    if name == "orchestrate":
        parser.add_argument(
            "--pipelines",
            action="append",
            metavar="FILE.py",
            help="a file or module whose schedules are run here too; may be repeated (default: none)",
        )
    add_common(parser)
    parser.set_defaults(run=run, loop=name)


async def run(options: argparse.Namespace) -> int:
    """Run until a signal."""
    settings = settings_of(options)
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    pipelines = load_all(getattr(options, "pipelines", None) or []).values()
    stop = asyncio.Event()
    async with open_app(settings) as app:
        loops = loops_of(app, options.loop, pipelines)
        with stop_on_signal(stop.set):
            await run_loops(loops, stop)
    return 0


def loops_of(app: App, name: str, pipelines: Iterable[Pipeline]) -> list[Loop]:
    """Recovery brings the loops along that clean up with it, the orchestrator those that make jobs."""
    if name == "orchestrate":
        return [app.orchestrator(), *app.schedulers(pipelines)]
    return [app.recovery(), app.outbox(), app.archiver(), *app.webhook_loops()]
