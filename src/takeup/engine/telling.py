"""What is said to those who follow live: each event as one line of JSON."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from takeup.core.channels import VIDEO, Channel
from takeup.core.live import JobLook, LogRow, WorkerLook
from takeup.core.machine import JOB, VIDEO_STATUS
from takeup.core.pulls import Pull

STATE = "state"
"""The event of what is not told for a change in the log: how something stands now."""


class Told(NamedTuple):
    """One event of one channel."""

    kind: str
    channel: str
    data: str
    """A line of JSON: whatever stands in it, it is one line."""
    seq: int | None = None
    """Its number in the log; None for how something stands, of which only the latest counts."""
    key: str = ""
    """What of the channel it tells of, if the channel is about many."""


def line(data: Mapping[str, Any]) -> str:
    """JSON without a line break, whatever is in it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def reset(reason: str, channel: str = "") -> Told:
    """What was missed cannot be told: whoever hears this reads everything anew."""
    return Told("reset", channel, line({"channel": channel or None, "reason": reason}))


def of_job(channel: Channel, job: JobLook, row: LogRow | None = None) -> Told | None:
    """What a channel says of a job, after a change in the log or without one; None if it says nothing."""
    if channel.kind == "job":
        return Told("job", channel.name, line(_job(channel, job, row)), row.seq if row else None)
    if channel.kind == "transcode_progress":
        return None if row else Told(channel.kind, channel.name, line(_video(channel, job)))
    if channel.kind == "transcode_complete" and (row.status in JOB.final if row else job.is_over):
        return Told(channel.kind, channel.name, line(_end(channel, job, row)), row.seq if row else None)
    return None


def of_worker(channel: Channel, worker: WorkerLook, row: LogRow | None = None) -> Told:
    """What is said of a worker."""
    data = {
        "channel": channel.name,
        **_change(row),
        "id": worker.id,
        "name": worker.name,
        "status": row.status if row else worker.status,
        "activity": worker.activity,
        "disabled": worker.is_disabled,
        "quarantined": worker.is_quarantined,
        "load": worker.load,
        "slots": worker.slots,
    }
    return Told(channel.kind, channel.name, line(data), row.seq if row else None, worker.id)


def of_pull(channel: Channel, pull: Pull) -> Told:
    """What is said of a file that is fetched; its address is its owner's affair."""
    length = pull.length_bytes
    data = {
        "channel": channel.name,
        **_change(None),
        "pull": pull.id,
        "status": pull.status,
        "received_bytes": pull.received_bytes,
        "length_bytes": length,
        "percent": round(100 * pull.received_bytes / length, 1) if length else None,
        "failures": pull.failures,
        "error": pull.error,
        "video": pull.video_id if pull.status == "DONE" else None,
    }
    return Told(channel.kind, channel.name, line(data))


def gone_worker(worker_id: str, row: LogRow | None = None) -> WorkerLook:
    """One that is known no more, as it was last."""
    status = (row.status if row else None) or "offline"
    return WorkerLook(
        worker_id, name="", status=status, is_disabled=False, is_quarantined=False, slots=0, load=0
    )


def _change(row: LogRow | None) -> dict[str, Any]:
    if row is None:
        return {"event": STATE, "seq": None, "at": None, "reason": None}
    return {"event": row.event, "seq": row.seq, "at": _moment(row.at), "reason": row.reason}


def _job(channel: Channel, job: JobLook, row: LogRow | None) -> dict[str, Any]:
    status = (row.status if row else None) or job.status
    return {
        "channel": channel.name,
        **_change(row),
        "job": job.id,
        "subject": job.subject,
        "generation": job.generation,
        "status": status,
        "control": job.control,
        "percent": round(job.progress.percent, 1),
        "error": job.error if status in JOB.final else None,
        "stages": [
            {
                "stage": stage.stage,
                "phase": job.phases.get(stage.stage),
                "total": stage.total,
                "done": stage.done,
                "running": stage.running,
                "failed": stage.broken,
                "percent": round(100 * stage.fraction, 1),
            }
            for stage in job.progress.stages
        ],
    }


def _video(channel: Channel, job: JobLook) -> dict[str, Any]:
    return {
        "channel": channel.name,
        "video": (job.subject or "").removeprefix(VIDEO),
        "job": job.id,
        "status": VIDEO_STATUS[job.status],
        "step": job.status,
        "percent": round(job.progress.percent, 1),
        "written_at": _moment(job.written_at) if job.written_at else None,
        "qualities": [
            {
                "quality": rung.rung,
                "status": rung.status,
                "percent": round(rung.percent, 1),
                "done": rung.done,
                "segments": rung.segments,
                "error": rung.error,
            }
            for rung in job.rungs
        ],
    }


def _end(channel: Channel, job: JobLook, row: LogRow | None) -> dict[str, Any]:
    status = (row.status if row else None) or job.status
    at = row.at if row else job.finished_at
    return {
        "channel": channel.name,
        **_change(row),
        "at": _moment(at) if at else None,
        "video": (job.subject or "").removeprefix(VIDEO),
        "job": job.id,
        "generation": job.generation,
        "status": VIDEO_STATUS[status],
        "job_status": status,
        "error": job.error,
    }


def _moment(at: datetime) -> str:
    return at.isoformat()
