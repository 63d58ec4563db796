"""`takeup orchestrate` and `takeup recover`: one loop alone, for a fleet."""

import argparse
import asyncio

from takeup.app import App, open_app, run_loops
from takeup.cli.options import add_common, settings_of
from takeup.cli.signals import stop_on_signal
from takeup.engine.loop import Loop
from takeup.telemetry import logs


def add(parser: argparse.ArgumentParser, name: str) -> None:
    """The arguments of these commands."""
    add_common(parser)
    parser.set_defaults(run=run, loop=name)


async def run(options: argparse.Namespace) -> int:
    """Run until a signal."""
    settings = settings_of(options)
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    stop = asyncio.Event()
    async with open_app(settings) as app:
        with stop_on_signal(stop.set):
            await run_loops(loops_of(app, options.loop), stop)
    return 0


def loops_of(app: App, name: str) -> list[Loop]:
    """Recovery brings the loops along that clean up with it."""
    if name == "orchestrate":
        return [app.orchestrator()]
    return [app.recovery(), app.outbox()]
