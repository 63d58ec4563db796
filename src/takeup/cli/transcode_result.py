"""What came of a transcode: a table for people, JSON for machines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeup.cli.printing import line, near, print_json, size, table
from takeup.core.model import Job
from takeup.core.quality import Quality
from takeup.core.why import length
from takeup.media.package import MANIFEST, MASTER, PAGE
from takeup.store.store import ReadStore

STAGES = ("plan", "package", "check", "publish")


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a job and what its stages said."""

    job: Job
    folder: Path
    stages: dict[str, dict[str, Any]]
    failed: list[Quality]

    @property
    def took_s(self) -> float:
        """From the first claim to the end."""
        job = self.job
        return (
            (job.finished_at - job.started_at).total_seconds() if job.finished_at and job.started_at else 0.0
        )

    @property
    def speed(self) -> float:
        """How many seconds of the source in one second."""
        return float(self.stages["plan"].get("seconds", 0.0)) / self.took_s if self.took_s else 0.0


async def result_of(read: ReadStore, job: Job, folder: Path) -> Result:
    """Read the results of the job's stages."""
    found: dict[str, dict[str, Any]] = {stage: {} for stage in STAGES}
    for task in await read.tasks_in(job.id, "DONE", limit=1000):
        if task.stage in found:
            found[task.stage] = dict(task.result or {})
    failed = [one for one in await read.qualities(job.id) if one.status == "failed"]
    return Result(job, folder, found, failed)


def show_result(result: Result, *, as_json: bool) -> None:
    """Streams, sizes, rates, the time it took and what the checker said."""
    if as_json:
        print_json(_as_json(result))
        return
    if result.job.status != "completed":
        line(f"{result.job.id} {result.job.status}" + (f": {result.job.error}" if result.job.error else ""))
        return
    table(
        ("stream", "codec", "size", "bytes", "mean", "peak"),
        [
            (
                one["name"],
                one["codec"],
                one["size"] or _sound(one),
                size(one["bytes"]),
                _kbps(one["mean_rate"]),
                _kbps(one["peak_rate"]),
            )
            for one in result.stages["package"]["streams"]
        ],
    )
    for one in result.failed:
        line(f"not made: {one.rung}: {one.error or 'its segments failed'}")
    line(_summary(result))
    line(f"the stream is {near(result.folder / MASTER)}; to watch it: takeup watch {near(result.folder)}")


def _summary(result: Result) -> str:
    package, check = result.stages["package"], result.stages["check"]
    seconds = float(result.stages["plan"].get("seconds", 0.0))
    parts = [
        f"{length(seconds)} of video in {length(result.took_s)}, {result.speed:.2f}× real time",
        f"{package['files']} files, {size(package['bytes'])}",
    ]
    parts += [str(check["verdict"])] if check else []
    return "; ".join([*parts, f"version {result.stages['publish'].get('version')}"])


def _as_json(result: Result) -> dict[str, Any]:
    job, folder = result.job, result.folder
    is_done = job.status == "completed"
    return {
        "job": job.id,
        "status": job.status,
        "error": job.error,
        "seconds": result.stages["plan"].get("seconds"),
        "took_s": result.took_s,
        "streams": result.stages["package"].get("streams", []),
        "failed": {one.rung: one.error for one in result.failed},
        "check": result.stages["check"],
        "version": result.stages["publish"].get("version"),
        "folder": str(folder),
        **({"master": str(folder / MASTER), "manifest": str(folder / MANIFEST)} if is_done else {}),
        **({"page": str(folder / PAGE)} if is_done else {}),
    }


def _sound(one: dict[str, Any]) -> str:
    channels = f"{one['channels']} channel{'s' if one['channels'] > 1 else ''}"
    return f"{channels}, {one['language']}" if one["language"] else channels


def _kbps(rate: int) -> str:
    return f"{rate / 1000:.0f} kbit/s"
