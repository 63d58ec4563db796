"""Jobs: create, look at, change; and what is known of one: tasks, log, commands, files, why."""

import re
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from takeup.api.access import Reader, Writer
from takeup.api.pages import LIMIT_DEFAULT, After, Body, Limit, Page, page_of
from takeup.api.problems import HttpError, refusals
from takeup.api.strict import StrictRoute, words_in_path
from takeup.app import App
from takeup.core.errors import InvalidInput, NotFound, UnknownPipeline
from takeup.core.files import JobFile
from takeup.core.machine import JOB
from takeup.core.model import Control, Job, LogLine, Step, Task
from takeup.core.pipeline import Pipeline
from takeup.core.plan import NewJob
from takeup.core.policy import PRIORITY_DEFAULT, PRIORITY_MAX
from takeup.core.why import why
from takeup.store.ops.read import JobFilter

KEY_CHARS_MAX = 255
FILE_PLACE = r"^[1-9][0-9]{0,17}/[^\x00-\x1f\x7f]{1,512}$"
TAG = re.compile(r'"([1-9][0-9]{0,17})"\Z')

router = APIRouter(prefix="/api/jobs", tags=["jobs"], route_class=StrictRoute)
JobId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
Text = Annotated[str | None, Query(max_length=512)]
CHANGES: dict[str, Control] = {"pause": "PAUSED", "resume": "READY", "skip": "SKIP"}
words_in_path("job_change", CHANGES)
LOOK = refusals(400, 401, 403, 404, 413, 422, 429, 431, 500, 503)
CHANGE = refusals(400, 401, 403, 404, 409, 413, 415, 422, 429, 431, 500, 503)


class BadHeader(HttpError):
    """A header has not its form."""

    http_status = 400
    help = "Correct the header that the message names."


def key_of(idempotency_key: Annotated[str | None, Header()] = None) -> str | None:
    """The key under which a call may come twice, if it has one."""
    if idempotency_key is not None and not 0 < len(idempotency_key) <= KEY_CHARS_MAX:
        raise BadHeader(f"Idempotency-Key has 1 to {KEY_CHARS_MAX} characters")
    return idempotency_key


Key = Annotated[str | None, Depends(key_of)]


class NewJobBody(Body):
    """A request for one run of a pipeline."""

    pipeline: str = Field(min_length=1, max_length=200)
    spec: dict[str, Any] = Field(default_factory=dict)
    subject: str | None = Field(default=None, min_length=1, max_length=512)
    priority: int = Field(default=PRIORITY_DEFAULT, ge=0, le=PRIORITY_MAX)
    paused: bool = False
    not_before: datetime | None = Field(default=None, strict=False)


class ChangeBody(Body):
    """Why something is changed."""

    reason: str | None = Field(default=None, max_length=500)


class PatchBody(Body):
    """What of a job may be changed."""

    priority: int = Field(ge=0, le=PRIORITY_MAX)


class Created(BaseModel):
    """The new job."""

    id: str


class Changed(BaseModel):
    """Whether anything is other than before."""

    id: str
    changed: bool


class JobLine(BaseModel):
    """A job in a list: all of it but its spec, which may be long."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    pipeline: str
    subject: str | None
    generation: int
    user_id: str
    priority: int
    control: Control
    status: str
    error: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class TaskLine(BaseModel):
    """A task in a list: all of it but its parameters and its result, which may be long."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    stage: str
    segment: int | None
    status: str
    phase: str
    priority: int
    control: Control
    attempt: int
    max_attempts: int
    lease_owner: str | None
    lease_expires_at: datetime | None
    progress_percent: float
    progress_note: str | None
    error: str | None
    available_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def app_of(request: Request) -> App:
    """What all routes work with."""
    app: App = request.app.state.takeup
    return app


@router.post("", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def create(request: Request, caller: Writer, body: NewJobBody, key: Key) -> Created:
    """Create a job. Sent again with the same `Idempotency-Key` it is created once, and answered the same."""
    if body.not_before is not None and body.not_before.tzinfo is None:
        raise InvalidInput("not_before has no zone; write Z for UTC, or +02:00, at its end")
    job = NewJob(
        _pipeline(request, body.pipeline),
        body.spec,
        subject=body.subject,
        user_id=caller.user,
        idempotency_key=key,
        priority=body.priority,
        control="PAUSED" if body.paused else "READY",
        not_before=body.not_before,
        exact=True,
    )
    (job_id,) = await app_of(request).submit([job])
    return Created(id=job_id)


def _pipeline(request: Request, name: str) -> Pipeline:
    known: dict[str, Pipeline] = request.app.state.pipelines
    if name not in known:
        raise UnknownPipeline(f"there is no pipeline {name!r}; there are: {', '.join(sorted(known))}")
    return known[name]


@router.get("", responses=LOOK)
async def jobs(
    request: Request,
    _caller: Reader,
    pipeline: Text = None,
    status: Annotated[str | None, Query(max_length=40)] = None,
    subject: Text = None,
    before: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9_.-]{1,128}$")] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> Page[JobLine]:
    """Jobs, newest first."""
    if status is not None and status not in JOB.states:
        raise InvalidInput(f"there is no status {status!r}; there are: {', '.join(JOB.states)}")
    read = app_of(request).store.read
    last = await read.job_place(before) if before else None
    rows = await read.jobs(JobFilter(pipeline, status, subject), before=last, limit=limit)
    return page_of([JobLine.model_validate(row) for row in rows], limit, "id")


@router.get("/{job_id}", responses=LOOK)
async def job(request: Request, response: Response, _caller: Reader, job_id: JobId) -> Job:
    """One job; its `ETag` is what `If-Match` wants."""
    found = await app_of(request).store.read.job(job_id)
    response.headers["ETag"] = f'"{found.version}"'
    return found


@router.patch("/{job_id}", responses=CHANGE)
async def patch(
    request: Request,
    _caller: Writer,
    job_id: JobId,
    body: PatchBody,
    if_match: Annotated[str | None, Header()] = None,
) -> Job:
    """Change a job; with `If-Match` only if nobody else did meanwhile."""
    tag = TAG.match(if_match) if if_match is not None else None
    if if_match is not None and tag is None:
        raise BadHeader('If-Match must be the ETag of the job, such as "3"')
    app = app_of(request)
    await app.store.operator.set_priority([job_id], body.priority, version=int(tag[1]) if tag else None)
    return await app.store.read.job(job_id)


@router.post("/{job_id}/cancel", responses=CHANGE)
async def cancel(request: Request, _caller: Writer, job_id: JobId, body: ChangeBody) -> Changed:
    """Stop a job for good; what runs is told to stop, and its tokens are void at once."""
    app = app_of(request)
    reason = body.reason or "cancelled by an operator"
    changed = await app.store.operator.cancel([job_id], reason=reason, must_be_live=True)
    app.bell.ring("work")
    return Changed(id=job_id, changed=bool(changed))


@router.post("/{job_id}/retry", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def retry(request: Request, _caller: Writer, job_id: JobId) -> Created:
    """Run a finished job again, as a new generation."""
    app = app_of(request)
    (new,) = await app.store.operator.retry([job_id])
    app.bell.ring("work")
    return Created(id=new)


@router.post("/{job_id}/{change:job_change}", responses=CHANGE)
async def change_control(
    request: Request,
    _caller: Writer,
    job_id: JobId,
    change: Literal["pause", "resume", "skip"],
    body: ChangeBody,
) -> Changed:
    """Start nothing more of a job; go on with it; let it count as done."""
    app = app_of(request)
    changed = await app.store.operator.set_control([job_id], CHANGES[change], reason=body.reason)
    app.bell.ring("work")
    return Changed(id=job_id, changed=bool(changed))


@router.get("/{job_id}/tasks", responses=LOOK)
async def tasks(
    request: Request, _caller: Reader, job_id: JobId, after: After = 0, limit: Limit = LIMIT_DEFAULT
) -> Page[TaskLine]:
    """The tasks of a job, in the order in which they were created."""
    read = app_of(request).store.read
    await read.job(job_id)
    rows = await read.tasks(job_id, after=after, limit=limit)
    return page_of([TaskLine.model_validate(row) for row in rows], limit, "id")


@router.get("/{job_id}/tasks/{task_id}", responses=LOOK)
async def task(
    request: Request, _caller: Reader, job_id: JobId, task_id: Annotated[int, Path(ge=1, le=2**63 - 1)]
) -> Task:
    """One task, with what it was given and what it made."""
    found = await app_of(request).store.read.task(task_id)
    if found.job_id != job_id:
        raise NotFound(f"job {job_id} has no task {task_id}")
    return found


@router.get("/{job_id}/logs", responses=LOOK)
async def logs(
    request: Request, _caller: Reader, job_id: JobId, after: After = 0, limit: Limit = LIMIT_DEFAULT
) -> Page[LogLine]:
    """What was logged about a job."""
    read = app_of(request).store.read
    await read.job(job_id)
    return page_of(await read.logs(job_id, after=after, limit=limit), limit, "id")


@router.get("/{job_id}/steps", responses=LOOK)
async def steps(
    request: Request, _caller: Reader, job_id: JobId, after: After = 0, limit: Limit = LIMIT_DEFAULT
) -> Page[Step]:
    """The commands that the stages of a job ran."""
    read = app_of(request).store.read
    await read.job(job_id)
    return page_of(await read.steps(job_id, after=after, limit=limit), limit, "id")


@router.get("/{job_id}/artifacts", responses=LOOK)
async def artifacts(
    request: Request,
    _caller: Reader,
    job_id: JobId,
    after: Annotated[str | None, Query(pattern=FILE_PLACE)] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> Page[JobFile]:
    """The files that a job made, by task and name."""
    read = app_of(request).store.read
    await read.job(job_id)
    task_id, _, name = (after or "0/").partition("/")
    return page_of(await read.files(job_id, after=(int(task_id), name), limit=limit), limit, "place")


@router.get("/{job_id}/why", responses=LOOK)
async def explain(request: Request, _caller: Reader, job_id: JobId) -> list[str]:
    """Why a job is not running, or what it does: most telling first."""
    return why(await app_of(request).store.read.why(job_id))
