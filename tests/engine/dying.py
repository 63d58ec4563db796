"""Real processes that die at a named point: one process imports everything, its children run a round and die.

`python -m tests.engine.dying FILE` reads the rounds from a JSON file and prints how each child ended.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from takeup.core.pipeline import Pipeline, Stage
from takeup.dispatch.bell import Bell
from takeup.engine.archiver import Archiver
from takeup.engine.scheduler import Scheduler
from takeup.store.store import Store
from takeup.testing import crash
from takeup.testing.clocks import ManualClock

ROOT = Path(__file__).resolve().parents[2]


class Round(NamedTuple):
    """What a child does: the scheduler of one pipeline at some moments, or the archiver at them."""

    url: str
    pipeline: str
    moments: tuple[str, ...]
    point: str = ""


def pipeline_named(name: str, key: Sequence[str] = ()) -> Pipeline:
    pipeline = Pipeline.of(name, [Stage("work")], key=key)
    pipeline.every("0 3 * * *", spec={"url": "a"}, name="nightly")
    return pipeline


async def play(todo: Round) -> None:
    """The rounds of one child, in its own process or in a test."""
    clock = ManualClock(datetime.fromisoformat(todo.moments[0]))
    store = await Store.open(todo.url, clock=clock)
    run = store.driver.run
    store.driver.run = lambda operation, *args, **options: run(crash.watch(operation), *args, **options)
    loop: Any = Archiver(store.recovery, older_than_s=10.0)
    if todo.pipeline:
        key = ("url",) if todo.pipeline.startswith("busy") else ()
        loop = Scheduler(store.scheduler, Bell(), [pipeline_named(todo.pipeline, key)])
    for moment in todo.moments:
        clock.set(datetime.fromisoformat(moment))
        await loop.run_once()
    await store.close()


async def points_of(todo: Round) -> list[str]:
    """Every point that these rounds come by, in their order."""
    seen = crash.Armed({}, crash.collapse)
    with crash.armed(seen):
        await play(todo)
    return list(seen.passes)


def ends_of(rounds: Sequence[Round], folder: Path) -> list[int]:
    """Play each in a process of its own, one after the other; the exit codes, or minus the signal."""
    file = folder / "rounds.json"
    file.write_text(json.dumps(rounds))
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.dying", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def main(file: str) -> None:
    ends = []
    for fields in json.loads(Path(file).read_text()):
        child = os.fork()
        if child == 0:
            todo = Round(*fields)
            crash.arm(crash.Armed({todo.point: 1}, crash.kill).reach)
            asyncio.run(play(todo))
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(ends))


if __name__ == "__main__":
    main(sys.argv[1])
