"""Runs stages as a worker orders: `python -m takeup.engine.runner`, started by the guardian."""

import asyncio
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.scratch import Scratch
from takeup.core.errors import TakeupError
from takeup.core.pipeline import Pipeline
from takeup.engine.guardian import RUNNER_FD
from takeup.engine.heap import settle_heap
from takeup.engine.runner.channel import Channel
from takeup.engine.runner.execution import Execution
from takeup.engine.wire import Frame
from takeup.pipelines.loading import load_all


def main() -> None:
    """Load the pipelines, say so, and run what comes until the worker is gone."""
    channel = Channel(socket.socket(fileno=RUNNER_FD))
    setup = channel.receive()
    if setup is None:
        return
    try:
        pipelines = load_all(setup["sources"])
    except TakeupError as error:
        channel.send({"op": "broken", "error": str(error), "help": error.help})
        return
    settle_heap(allocations=None)  # how often stages want theirs collected is for them to say
    channel.send({"op": "ready", "pipelines": {name: describe(p) for name, p in pipelines.items()}})
    asyncio.run(serve(channel, pipelines, setup))


def describe(pipeline: Pipeline) -> dict[str, Any]:
    """What the worker needs to know of a pipeline."""
    stages = {
        name: {"timeout_s": stage.timeout_s, "stall_s": stage.stall_s}
        for name, stage in pipeline.stages.items()
    }
    return {"version": pipeline.version, "stages": stages}


async def serve(channel: Channel, pipelines: Mapping[str, Pipeline], setup: Frame) -> None:
    """Obey until the line ends, and then end; if a stage blocks this loop, the guardian ends the process."""
    places = LocalArtifacts(Path(setup["storage"])), Scratch(Path(setup["scratch"]))
    execution = Execution(channel, pipelines, places, threads=setup["threads"])
    channel.listen(execution.obey, lambda: os._exit(0))
    await asyncio.Event().wait()


if __name__ == "__main__":
    main()
