"""Shows how a job goes: live bars on a terminal, plain lines where output is piped, the result at the end."""

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from takeup.core import why as reasons
from takeup.core.machine import JOB
from takeup.core.model import Artifact, Job
from takeup.core.progress import JobProgress, Part
from takeup.dispatch.bell import Ear
from takeup.engine.loop import pause
from takeup.store.store import ReadStore

LOOK_EVERY_S = 0.4
RUNG_LOOK_S = 0.1
"""After a ring it is looked sooner, but not more often than this."""
SHOW_EVERY_S = 0.8
"""Lines tell what changed in whole steps, so they need not be as lively as bars."""
IDLE_S = 1.0
"""When nothing ran for so long, it is said why."""
FILES_SHOWN_MAX = 5
"""More files of one stage than this are only counted."""


class Display(Protocol):
    """Where progress is shown."""

    every_s: float
    """How often it is worth to look how far everything is."""

    def show(self, job: Job, progress: JobProgress, why: str = "", parts: Sequence[Part] = ()) -> None:
        """Show the state of the job now, why nothing happens, and how far its parts are."""
        ...


Parts = Callable[[JobProgress], Awaitable[Sequence[Part]]]


async def no_parts(_: JobProgress) -> Sequence[Part]:
    """Of a job that says nothing about its parts."""
    return ()


async def follow(
    read: ReadStore,
    job_id: str,
    *,
    ear: Ear | None = None,
    every_s: float = LOOK_EVERY_S,
    parts: Parts = no_parts,
) -> Job:
    """Show the job until it is finished; answers with its last state. `ear` hears when something changed."""
    idle_s = shown_s = 0.0
    never, clock = asyncio.Event(), asyncio.get_running_loop().time
    with display() as shown:
        while True:
            job = await read.job(job_id)  # before the counts, so that those of its end are complete
            is_over = job.status in JOB.final
            if is_over or shown_s <= 0:
                progress = await read.progress(job_id)
                idle_s = 0 if any(stage.running for stage in progress.stages) else idle_s
                why = await _why(read, job_id) if idle_s >= IDLE_S and not is_over else ""
                shown.show(job, progress, why, await parts(progress))
                shown_s = shown.every_s
            if is_over:
                return job
            looked_at = clock()
            await asyncio.sleep(min(RUNG_LOOK_S, every_s))
            await pause(never, ear, looked_at + every_s - clock())
            if ear is not None:
                ear.take()
            passed_s = clock() - looked_at
            idle_s, shown_s = idle_s + passed_s, shown_s - passed_s


async def _why(read: ReadStore, job_id: str) -> str:
    return next(iter(reasons.why(await read.why(job_id))), "")


@contextmanager
def display() -> Iterator[Display]:
    """Bars if somebody looks at them, lines else."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from takeup.cli.bars import Bars  # noqa: PLC0415 - Rich is loaded only for a terminal

    with Bars() as bars:
        yield bars


class Lines:
    """One line whenever something changed."""

    every_s = SHOW_EVERY_S

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._last = ""

    def show(self, job: Job, progress: JobProgress, why: str = "", parts: Sequence[Part] = ()) -> None:
        """Write the line, if it says something new; a time that runs down is nothing new."""
        status = "paused" if job.control == "PAUSED" and job.status in JOB.live else job.status
        stages = [
            f"{stage.stage} {stage.done}/{stage.total}"
            + (f" ({stage.broken} failed)" if stage.broken else "")
            for stage in progress.stages
            if stage.is_expanded
        ]
        text = f"{status}: {', '.join(stages)}" + (f" ({why})" if why else "")
        broken = [part for part in parts if part.is_broken]
        text += "".join(f"; {part.name} failed" + (part.note and f": {part.note}") for part in broken)
        news = re.sub(r"in [\d.]+ \w+", "", text)
        if news != self._last:
            self._last = news
            say(text)


def say(text: str) -> None:
    """A line beside the result; nobody may be able to read it, and the job goes on."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def show_result(job: Job, artifacts: Sequence[Artifact], storage: Path, *, as_json: bool) -> None:
    """The end of a job: its status, its error, its files."""
    if as_json:
        files = [{"name": a.name, "path": str(storage / a.key), "sha256": a.sha256} for a in artifacts]
        answer = {"job": job.id, "status": job.status, "error": job.error, "files": files}
        sys.stdout.write(json.dumps(answer) + "\n")
        return
    sys.stdout.write(f"{job.id} {job.status}" + (f": {job.error}" if job.error else "") + "\n")
    folders: dict[Path, list[Artifact]] = {}
    for artifact in artifacts:
        folders.setdefault((storage / artifact.key.removesuffix(artifact.name)).parent, []).append(artifact)
    for folder, made in folders.items():
        if len(made) > FILES_SHOWN_MAX:
            sys.stdout.write(f"  {folder}  ({len(made)} files)\n")
            continue
        for artifact in made:
            sys.stdout.write(f"  {storage / artifact.key}\n")
