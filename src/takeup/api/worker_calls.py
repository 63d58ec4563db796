"""The calls of a worker elsewhere: it registers, starts, claims, tells how far it is and how tasks ended."""

import asyncio
import hmac
from collections.abc import Coroutine, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import JSONResponse

from takeup import __version__
from takeup.api.access import Caller, Unauthenticated, check_still, need
from takeup.api.gate import Gate
from takeup.api.jobs import CHANGE, LOOK, app_of
from takeup.api.lobby import Lobby
from takeup.api.problems import HttpError
from takeup.api.strict import OpenRoute, StrictRoute
from takeup.api.worker_bodies import (
    Answers,
    BriefLine,
    ClaimBody,
    Claimed,
    CompleteBody,
    FailBody,
    FateLine,
    Fates,
    FatesBody,
    GlanceBody,
    Glanced,
    HeartbeatBody,
    Inputs,
    InputsBody,
    LeaseLine,
    LogsBody,
    MadeLine,
    Me,
    ProgressBody,
    RegisterBody,
    Registered,
    ReleaseBody,
    StartBody,
    Status,
    StepEndsBody,
    StepKey,
    StepsBody,
)
from takeup.core.errors import AlreadyStarted, Conflict, LeaseLost, WorkerRefused
from takeup.core.model import Answer, Lease, Worker, WorkerSpec
from takeup.core.remote import PROTOCOL
from takeup.engine.enrolment import check_about, enrol
from takeup.engine.receiving import Receiving
from takeup.store.ops.claim import ClaimRequest

entrance = APIRouter(prefix="/api/worker", tags=["worker"], route_class=OpenRoute)
router = APIRouter(prefix="/api/worker", tags=["worker"], route_class=StrictRoute)


class OtherVersion(Conflict):
    """The worker and the server are of versions that do not fit together."""

    help = "Install the same Takeup, with the same pipelines, on the worker and on the server."


class NoRegistration(HttpError):
    """Nobody can register over HTTP here."""

    http_status = 403
    help = (
        "Set TAKEUP_WORKER_ADMIN_SECRET for the server, or use `takeup workers register NAME` on its machine."
    )


WorkerCaller = Annotated[Caller, Depends(need("worker"))]


def worker_of(caller: Caller) -> str:
    """The worker whose key was shown."""
    if caller.worker_id is None:
        raise WorkerRefused(
            "this key is of no worker", advice="Use a key that `takeup workers register NAME` printed."
        )
    return caller.worker_id


def receiving_of(request: Request) -> Receiving:
    """What takes outputs."""
    receiving: Receiving = request.app.state.receiving
    return receiving


@entrance.post("/register", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def register(
    request: Request, body: RegisterBody, x_admin_secret: Annotated[str | None, Header()] = None
) -> Registered:
    """Make a worker known, and get the key that it shows from then on."""
    app = app_of(request)
    wanted = app.settings.worker_admin_secret
    if not wanted:
        raise NoRegistration("this server has no secret for registering workers")
    gate: Gate = request.app.state.gate
    if not hmac.compare_digest((x_admin_secret or "").encode(), wanted.encode()):
        gate.fail(request)
        raise Unauthenticated(
            "the secret for registering workers is missing or wrong",
            advice="Send the server's TAKEUP_WORKER_ADMIN_SECRET in the header X-Admin-Secret.",
        )
    worker_id, key = await enrol(
        app.store, body.worker_name, capabilities=body.capabilities, metadata=body.metadata
    )
    return Registered(worker_id=worker_id, api_key=key.text)


@router.get("/me", responses=LOOK)
async def me(request: Request, caller: WorkerCaller) -> Me:
    """Which worker the key is of."""
    found = await app_of(request).store.read.worker(worker_of(caller))
    return Me(
        worker_id=found.id,
        name=found.name,
        capabilities=sorted(found.capabilities),
        protocol=PROTOCOL,
        version=__version__,
    )


@router.post("/start", responses=CHANGE)
async def start(request: Request, caller: WorkerCaller, body: StartBody) -> Status:
    """A process of the worker begins; what an earlier one held is over."""
    if body.protocol != PROTOCOL:
        raise OtherVersion(
            f"the worker is of version {body.version} and speaks protocol {body.protocol}, "
            f"this server is of version {__version__} and speaks {PROTOCOL}"
        )
    for name, version in body.pipelines.items():
        known = request.app.state.known_pipelines.get(name)
        if known is not None and known.version != version:
            raise OtherVersion(
                f"pipeline {name} has version {version} at the worker and {known.version} here"
            )
    app, worker_id = app_of(request), worker_of(caller)
    abilities = frozenset(body.capabilities)
    known_as = await app.store.read.worker(worker_id)
    metadata = {**known_as.metadata, **body.metadata, "version": body.version}
    check_about(abilities, metadata)
    spec = WorkerSpec(
        worker_id, known_as.name, "remote", body.slots, abilities, tuple(body.stages), metadata, body.process
    )
    try:
        await app.store.worker.register(spec)
    except AlreadyStarted as again:
        if not again.is_latest:
            raise
        return _seen(known_as, known_as.status)
    lobby_of(request).forget(worker_id)
    return _seen(known_as, "active")


def _seen(worker: Worker, status: str) -> Status:
    """As heartbeats say it: a new process does not end a quarantine."""
    is_quarantined = worker.quarantined_at is not None and status == "active"
    return Status(status="quarantined" if is_quarantined else status)


@router.post("/heartbeat", responses=CHANGE)
async def heartbeat(request: Request, caller: WorkerCaller, body: HeartbeatBody) -> Status:
    """Say that the worker lives."""
    del body  # idle and busy are known by what it holds
    worker_id = worker_of(caller)
    statuses = await app_of(request).store.worker.heartbeat([worker_id])
    return Status(status=statuses.get(worker_id, "unknown"))


@router.post("/leave", responses=CHANGE)
async def leave(request: Request, caller: WorkerCaller) -> Status:
    """Say good-bye."""
    await app_of(request).store.worker.leave([worker_of(caller)])
    return Status(status="offline")


@router.post("/claim", responses=CHANGE)
async def claim(request: Request, caller: WorkerCaller, body: ClaimBody) -> Claimed:
    """Take work; with `wait` this call is answered when there is some, or when the time is over."""
    app, worker_id = app_of(request), worker_of(caller)
    wanted = ClaimRequest(
        worker_id, body.request_id, body.secret, body.limit, app.settings.defer_s, may_skim=True
    )

    async def ask() -> list[Lease]:
        await check_still(request, "worker")  # he may have waited for long
        return await app.store.worker.claim(wanted, takes_back=body.takes_back)

    leases = await unless_gone(request, lobby_of(request).claim(worker_id, ask, body.wait))
    if not leases:
        seen = await app.store.read.worker(worker_id)
        return Claimed(
            leases=[], jobs={}, reason=seen.quarantine_reason and f"quarantined: {seen.quarantine_reason}"
        )
    known = {lease.job_id: lease.brief for lease in leases if lease.brief is not None}
    missing = sorted({lease.job_id for lease in leases} - known.keys())
    briefs = {**known, **(await app.store.worker.briefs(missing) if missing else {})}
    return Claimed(
        leases=[LeaseLine.of(lease) for lease in leases],
        jobs={job_id: BriefLine(spec=brief.spec, subject=brief.subject) for job_id, brief in briefs.items()},
    )


async def unless_gone(request: Request, claiming: Coroutine[Any, Any, list[Lease]]) -> list[Lease]:
    """Wait for as long as somebody waits for the answer: nobody hears of what is granted after that."""
    waiting, leaving = asyncio.create_task(claiming), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
        return await waiting if waiting.done() else []
    finally:
        for task in (waiting, leaving):
            task.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def lobby_of(request: Request) -> Lobby:
    """Where claims wait."""
    lobby: Lobby = request.app.state.lobby
    return lobby


@router.post("/progress", responses=CHANGE, response_model=Answers)
async def progress(request: Request, caller: WorkerCaller, body: ProgressBody) -> Answers | JSONResponse:
    """Extend leases and tell how far tasks are; the answers carry orders: continue, drain, cancel, lost."""
    reports = [line.report for line in body.reports]
    store = app_of(request).store.worker
    return told(await store.renew(worker_of(caller), reports, request_id=body.request_id))


@router.post("/complete", responses=CHANGE, response_model=Answers)
async def complete(request: Request, caller: WorkerCaller, body: CompleteBody) -> Answers | JSONResponse:
    """Finish tasks whose outputs have been sent."""
    reports = [line.report for line in body.reports]
    answers = await receiving_of(request).complete(worker_of(caller), reports, request_id=body.request_id)
    return await settled(request, answers)


@router.post("/fail", responses=CHANGE, response_model=Answers)
async def fail(request: Request, caller: WorkerCaller, body: FailBody) -> Answers | JSONResponse:
    """End attempts that failed."""
    reports = [line.report for line in body.reports]
    store = app_of(request).store.worker
    answers = await store.fail(worker_of(caller), reports, request_id=body.request_id)
    return await settled(request, answers)


@router.post("/release", responses=CHANGE, response_model=Answers)
async def release(request: Request, caller: WorkerCaller, body: ReleaseBody) -> Answers | JSONResponse:
    """Hand tasks back unfinished."""
    held = [line.held for line in body.reports]
    store = app_of(request).store.worker
    answers = await store.release(worker_of(caller), held, reason=body.reason, request_id=body.request_id)
    return await settled(request, answers)


async def settled(request: Request, answers: Sequence[Answer]) -> Answers | JSONResponse:
    """The answers to reports that end something; who advances jobs hears of it."""
    ended = [answer.task_id for answer in answers if answer.accepted]
    if ended:
        app = app_of(request)
        app.bell.ring("jobs", await app.store.worker.jobs_of(ended))
    return told(answers)


def told(answers: Sequence[Answer]) -> Answers | JSONResponse:
    """The answers; 409 if every report was refused, for then nothing at all was changed."""
    body = Answers.of(answers)
    if any(answer.accepted for answer in answers):
        return body
    refused = LeaseLost("; ".join(sorted({answer.reason or "the lease is lost" for answer in answers})[:3]))
    document = {
        "type": "about:blank",
        "title": "Conflict",
        "status": HTTPStatus.CONFLICT.value,
        "code": refused.code,
        "detail": str(refused),
        "advice": refused.help,
        **body.model_dump(mode="json"),
    }
    return JSONResponse(document, HTTPStatus.CONFLICT, media_type="application/problem+json")


@router.post("/glance", responses=CHANGE)
async def glance(request: Request, caller: WorkerCaller, body: GlanceBody) -> Glanced:
    """Which tasks the worker still holds; changes nothing."""
    seen = await app_of(request).store.worker.glance(worker_of(caller), [one.held for one in body.held])
    return Glanced(status=seen.status, held=sorted(seen.held))


@router.post("/inputs", responses=CHANGE)
async def inputs(request: Request, caller: WorkerCaller, body: InputsBody) -> Inputs:
    """What the stages made that a held task needs."""
    task = await receiving_of(request).held(worker_of(caller), body.held)
    page = await app_of(request).store.worker.inputs(task, body.needs, after=body.after)
    return Inputs(made=[MadeLine.model_validate(one) for one in page.made], after=page.after)


@router.post("/fates", responses=CHANGE)
async def fates(request: Request, _caller: WorkerCaller, body: FatesBody) -> Fates:
    """What became of attempts whose files are left with the worker."""
    found = await app_of(request).store.worker.fates(body.folders)
    return Fates(fates=[FateLine(folder=one.folder, fate=one.fate) for one in found])


@router.post("/logs", status_code=HTTPStatus.NO_CONTENT, responses=CHANGE, response_class=Response)
async def logs(request: Request, caller: WorkerCaller, body: LogsBody) -> None:
    """Keep lines that stages of this worker wrote."""
    store = app_of(request).store.worker
    lines = [one.line for one in body.lines]
    await _must_be_own(request, caller, [(one.job_id, one.task_id, one.epoch) for one in body.lines])
    await store.add_logs(lines)


@router.post("/steps", responses=CHANGE)
async def steps(request: Request, caller: WorkerCaller, body: StepsBody) -> dict[str, StepKey]:
    """Note commands that stages of this worker began."""
    await _must_be_own(request, caller, [(one.job_id, one.task_id, one.epoch) for one in body.steps])
    store = app_of(request).store.worker
    known = await store.add_steps([one.step for one in body.steps], [one.ago_s for one in body.steps])
    return {step_id: StepKey(id=key, started_at=at) for step_id, (key, at) in known.items()}


@router.post("/steps/end", status_code=HTTPStatus.NO_CONTENT, responses=CHANGE, response_class=Response)
async def end_steps(request: Request, caller: WorkerCaller, body: StepEndsBody) -> None:
    """Note how those commands ended."""
    store = app_of(request).store.worker
    own = await store.own_steps(worker_of(caller), [(one.id, one.started_at) for one in body.ends])
    if any(one.id not in own for one in body.ends):
        raise LeaseLost("one of the commands is of no task of this worker")
    await store.end_steps([one.end for one in body.ends])


async def _must_be_own(request: Request, caller: Caller, attempts: list[tuple[str, int, int]]) -> None:
    own = await app_of(request).store.worker.claimed(worker_of(caller), attempts)
    if any(attempt[1:] not in own for attempt in attempts):
        raise LeaseLost("one of the tasks was never this worker's")
