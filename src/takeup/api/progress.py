"""How far a job is, in percent and stage by stage."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from takeup.api.access import Reader
from takeup.api.jobs import LOOK, JobId, app_of
from takeup.api.strict import StrictRoute

router = APIRouter(prefix="/api/jobs", tags=["jobs"], route_class=StrictRoute)


class StageLine(BaseModel):
    """How far one stage is."""

    stage: str
    percent: float
    counts: dict[str, int]
    """Its tasks by status; of a stage that is not split yet there are none."""


class JobPercent(BaseModel):
    """How far a job is."""

    percent: float
    stages: list[StageLine]


@router.get("/{job_id}/progress", responses=LOOK)
async def progress(request: Request, _caller: Reader, job_id: JobId) -> JobPercent:
    """How far a job is; a stage that runs for each segment weighs most."""
    read = app_of(request).store.read
    await read.job(job_id)
    found = await read.progress(job_id)
    stages = [
        StageLine(stage=one.stage, percent=100 * one.fraction, counts=dict(one.counts))
        for one in found.stages
    ]
    return JobPercent(percent=found.percent, stages=stages)
