"""How everything that is watched stands at one look, and what each channel says of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from takeup.core.channels import Channel
from takeup.core.live import JobLook, LogRow, Watch, WorkerLook
from takeup.core.pulls import Pull
from takeup.engine.telling import Told, gone_worker, of_job, of_pull, of_worker


def watch_of(channels: Iterable[Channel]) -> Watch:
    """What must be looked at for these channels."""
    named = set(channels)
    return Watch(
        jobs=sorted({one.job_id for one in named if one.job_id}),
        subjects=sorted({one.subject for one in named if one.subject}),
        workers=any(one.kind == "worker_status" for one in named),
    )


def pulls_of(channels: Iterable[Channel]) -> list[str]:
    """The pulls that these channels are about."""
    return sorted({one.pull_id for one in channels if one.pull_id})


@dataclass(frozen=True, slots=True)
class Scene:
    """Jobs by their ids, the jobs of each subject with the newest first, workers and pulls by their ids."""

    jobs: Mapping[str, JobLook] = field(default_factory=dict)
    jobs_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    workers: Mapping[str, WorkerLook] = field(default_factory=dict)
    pulls: Mapping[str, Pull] = field(default_factory=dict)

    def job_id(self, channel: Channel) -> str | None:
        """The job that a channel is about now."""
        if channel.subject:
            return next(iter(self.jobs_of.get(channel.subject, ())), None)
        return channel.job_id

    def knows(self, channel: Channel) -> bool:
        """Whether there is what a channel is about."""
        if channel.kind == "worker_status":
            return True
        return channel.pull_id in self.pulls if channel.pull_id else self.job_id(channel) in self.jobs

    def with_rungs(self, channels: Iterable[Channel]) -> set[str]:
        """The jobs of which it is told how far each rung is."""
        found = {self.job_id(one) for one in channels if one.kind == "transcode_progress"}
        return {job_id for job_id in found if job_id}

    def said(self, row: LogRow, channels: Iterable[Channel]) -> dict[Channel, Told]:
        """What each of these channels says of a change in the log, if anything."""
        found: dict[Channel, Told] = {}
        job = self.jobs.get(row.id)
        for channel in channels:
            told: Told | None = None
            if row.noun == "worker" and channel.kind == "worker_status":
                told = of_worker(channel, self.workers.get(row.id) or gone_worker(row.id, row), row)
            elif row.noun == "job" and job and _is_about(channel, job):
                told = of_job(channel, job, row)
            if told is not None:
                found[channel] = told
        return found

    def state(self, channel: Channel) -> Iterator[Told]:
        """How that stands which a channel is about."""
        if channel.kind == "worker_status":
            yield from (of_worker(channel, worker) for worker in self.workers.values())
            return
        if channel.pull_id:
            yield from (of_pull(channel, pull) for pull in self.pulls.values() if pull.id == channel.pull_id)
            return
        job = self.jobs.get(self.job_id(channel) or "")
        told = of_job(channel, job) if job else None
        if told is not None:
            yield told

    def about(self, job: JobLook, channels: Iterable[Channel]) -> list[Channel]:
        """Those of these channels that tell of a job."""
        return [channel for channel in channels if _is_about(channel, job)]


def _is_about(channel: Channel, job: JobLook) -> bool:
    return channel.job_id == job.id or (channel.subject is not None and channel.subject == job.subject)
