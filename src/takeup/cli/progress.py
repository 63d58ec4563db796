"""Shows how a job goes: live bars on a terminal, plain lines where output is piped, the result at the end."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from takeup.core.machine import JOB
from takeup.core.model import Artifact, Job
from takeup.store.store import ReadStore

LOOK_EVERY_S = 0.5


async def follow(read: ReadStore, job_id: str) -> Job:
    """Show the job until it is finished; answers with its last state."""
    seen = ""
    while True:
        job = await read.job(job_id)
        counts = await read.task_counts(job_id)
        stages: dict[str, list[int]] = {}
        for (stage, status), count in counts.items():
            total = stages.setdefault(stage, [0, 0])
            total[1] += count
            total[0] += count if status in ("DONE", "SKIPPED") else 0
        text = f"{job.status}: " + ", ".join(
            f"{name} {done}/{total}" for name, (done, total) in stages.items()
        )
        if text != seen:
            sys.stderr.write(text + "\n")
            seen = text
        if job.status in JOB.final:
            return job
        await asyncio.sleep(LOOK_EVERY_S)


def show_result(job: Job, artifacts: Sequence[Artifact], storage: Path, *, as_json: bool) -> None:
    """The end of a job: its status, its error, its files."""
    if as_json:
        files = [{"name": a.name, "path": str(storage / a.key), "sha256": a.sha256} for a in artifacts]
        answer = {"job": job.id, "status": job.status, "error": job.error, "files": files}
        sys.stdout.write(json.dumps(answer) + "\n")
        return
    sys.stdout.write(f"{job.id} {job.status}" + (f": {job.error}" if job.error else "") + "\n")
    for artifact in artifacts:
        sys.stdout.write(f"  {storage / artifact.key}\n")
