"""Shows how a job goes: live bars on a terminal, plain lines where output is piped, the result at the end."""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from takeup.core.machine import JOB
from takeup.core.model import Artifact, Job
from takeup.core.progress import JobProgress
from takeup.store.store import ReadStore

LOOK_EVERY_S = 0.4
FILES_SHOWN_MAX = 5
"""More files of one stage than this are only counted."""


class Display(Protocol):
    """Where progress is shown."""

    def show(self, job: Job, progress: JobProgress) -> None:
        """Show the state of the job now."""
        ...


async def follow(read: ReadStore, job_id: str, *, every_s: float = LOOK_EVERY_S) -> Job:
    """Show the job until it is finished; answers with its last state."""
    with display() as shown:
        while True:
            job = await read.job(job_id)  # before the counts, so that those of its end are complete
            shown.show(job, await read.progress(job_id))
            if job.status in JOB.final:
                return job
            await asyncio.sleep(every_s)


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

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._last = ""

    def show(self, job: Job, progress: JobProgress) -> None:
        """Write the line, if it is a new one."""
        status = "paused" if job.control == "PAUSED" and job.status in JOB.live else job.status
        stages = [
            f"{stage.stage} {stage.done}/{stage.total}"
            + (f" ({stage.broken} failed)" if stage.broken else "")
            for stage in progress.stages
            if stage.is_expanded
        ]
        text = f"{status}: {', '.join(stages)}"
        if text != self._last:
            self._last = text
            with suppress(OSError):  # nobody may be able to read it; the job goes on
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
