"""The files of a worker that is elsewhere: what its tasks need, and what they made; all under the token."""

import asyncio
import os
import re
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import BaseModel

from takeup.api.access import body_of_caller
from takeup.api.edge import large_body
from takeup.api.files import PARTS, file_response
from takeup.api.jobs import CHANGE, LOOK, BadHeader, app_of
from takeup.api.parts import hashed_part
from takeup.api.problems import refusals
from takeup.api.strict import StrictRoute
from takeup.api.worker_calls import WorkerCaller, receiving_of, worker_of
from takeup.core.errors import NotFound
from takeup.core.ids import NONCE_BYTES, Token
from takeup.core.model import Held
from takeup.core.remote import (
    CHANGED_HEADER,
    LENGTH_HEADER,
    OFFSET_HEADER,
    SHA256_HEADER,
    TASK_FILE_BYTES_MAX,
    TOKEN_HEADER,
)
from takeup.media import serving

TOKEN = re.compile(rf"([1-9][0-9]{{0,18}})\.([0-9a-f]{{{2 * NONCE_BYTES}}})\Z")
FETCH = {**PARTS, **LOOK, **refusals(409, 412, 416)}

router = APIRouter(prefix="/api/worker/tasks", tags=["worker"], route_class=StrictRoute)
TaskId = Annotated[int, Path(ge=1, le=2**63 - 1)]
TokenHeader = Annotated[str, Header(alias=TOKEN_HEADER, description="EPOCH.NONCE of the lease")]


class Sent(BaseModel):
    """How much of a file is here."""

    name: str
    size_bytes: int


class Arrived(BaseModel):
    """How much of each file is here."""

    files: dict[str, int]


def held_of(task_id: int, token: str) -> Held:
    """The task and the token that was shown."""
    match = TOKEN.match(token)
    if match is None:
        raise BadHeader(f"{TOKEN_HEADER} must be EPOCH.NONCE of the lease")
    return Held(task_id, Token(int(match[1]), match[2]))


@router.get("/{task_id}/inputs/{key:path}", responses=FETCH, response_class=Response)
async def input_file(
    request: Request, caller: WorkerCaller, task_id: TaskId, key: str, token: TokenHeader
) -> Response:
    """A file that an earlier stage of the job made, or a part of it (`Range`); its ETag is its SHA-256.

    With `Want-Content-Digest` the part comes with its own hash, and is at most 4 MiB; with `If-Match` it is
    refused (412) if the file is another one.
    """
    receiving = receiving_of(request)
    task = await receiving.held(worker_of(caller), held_of(task_id, token))
    found = await app_of(request).store.worker.file_of_job(task.job_id, key)
    if found is None:
        raise NotFound("no stage of this job made such a file")
    path = await receiving.output(found)
    return await _file(request, path, path.stat(), found.file.sha256)


@router.get("/{task_id}/files/{name}", responses=FETCH, response_class=Response)
async def spec_file(
    request: Request,
    caller: WorkerCaller,
    task_id: TaskId,
    name: Annotated[str, Path(max_length=64)],
    token: TokenHeader,
) -> Response:
    """A file that the job's spec names, such as its source; parts are sent as of any input."""
    receiving = receiving_of(request)
    task = await receiving.held(worker_of(caller), held_of(task_id, token))
    path = await receiving.named_file(task, name)
    facts = path.stat()
    answer = await _file(request, path, facts, f"{facts.st_size}-{facts.st_mtime_ns}")
    answer.headers[CHANGED_HEADER] = str(facts.st_mtime_ns)
    return answer


async def _file(request: Request, path: FilePath, facts: os.stat_result, tag: str) -> Response:
    """The file or a part of it; `tag` names its content."""
    part = await hashed_part(request, path, facts, tag)
    if part is not None:
        return part
    told = await asyncio.to_thread(serving.download, path, path.name, dict(request.headers), tag=tag)
    return await file_response(told)


@router.get("/{task_id}/outputs", responses={**LOOK, **refusals(409)})
async def outputs(request: Request, caller: WorkerCaller, task_id: TaskId, token: TokenHeader) -> Arrived:
    """How much of each output has arrived, so that a broken transfer can go on."""
    sizes = await receiving_of(request).sizes(worker_of(caller), held_of(task_id, token))
    return Arrived(files=sizes)


@router.post("/{task_id}/outputs.tar.gz", responses={**CHANGE, **refusals(507)})
@large_body(TASK_FILE_BYTES_MAX)
async def archive(
    request: Request,
    caller: WorkerCaller,
    task_id: TaskId,
    token: TokenHeader,
    length: Annotated[int, Header(alias=LENGTH_HEADER, ge=1, le=TASK_FILE_BYTES_MAX)],
    sha256: Annotated[str, Header(alias=SHA256_HEADER, pattern=r"^[0-9a-f]{64}$")],
) -> Arrived:
    """Send a whole stream as one gzipped tar of plain files; it takes the place of what was sent before."""
    body = body_of_caller(request, "worker")
    files = await receiving_of(request).unpack(
        worker_of(caller), held_of(task_id, token), body, sha256=sha256, size_bytes=length
    )
    return Arrived(files=files)


@router.put("/{task_id}/outputs/{name:path}", responses={**CHANGE, **refusals(507)})
@large_body(TASK_FILE_BYTES_MAX)
async def output(
    request: Request,
    caller: WorkerCaller,
    task_id: TaskId,
    name: str,
    token: TokenHeader,
    length: Annotated[int, Header(alias=LENGTH_HEADER, ge=0, le=TASK_FILE_BYTES_MAX)],
    offset: Annotated[int, Header(alias=OFFSET_HEADER, ge=0, le=TASK_FILE_BYTES_MAX)] = 0,
) -> Sent:
    """Send an output from `Upload-Offset` on; at 0 it begins anew. It is seen when its task is done."""
    body = body_of_caller(request, "worker")
    size = await receiving_of(request).receive(
        worker_of(caller), held_of(task_id, token), name, body, offset=offset, length=length
    )
    return Sent(name=name, size_bytes=size)
