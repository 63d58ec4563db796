"""Workers and keys, as those who manage them see them."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from takeup.api.access import Admin, Reader
from takeup.api.jobs import CHANGE, LOOK, ChangeBody, Changed, app_of
from takeup.api.pages import LIMIT_DEFAULT, Body, Limit, Page, page_of
from takeup.api.strict import StrictRoute, words_in_path
from takeup.core.access import ApiKey, Scope
from takeup.core.model import Worker

ID_CHARS_MAX = 200
DAYS_MAX = 3650
words_in_path("worker_change", ("disable", "enable", "drain"))

workers = APIRouter(prefix="/api/workers", tags=["workers"], route_class=StrictRoute)
keys = APIRouter(prefix="/api/keys", tags=["keys"], route_class=StrictRoute)
WorkerId = Annotated[str, Path(min_length=1, max_length=ID_CHARS_MAX)]
"""May hold slashes, written as they are or as `%2F`: the routes take all of it."""
KeyId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]
Days = Annotated[float | None, Field(gt=0, le=DAYS_MAX)]


class WorkerKeyBody(Body):
    """A further key of a worker."""

    name: str = Field(min_length=1, max_length=ID_CHARS_MAX)
    life_days: Days = None
    replaces: str | None = Field(default=None, pattern=r"^[0-9a-f]{12}$")
    """A key that ends when the overlap is over."""
    overlap_s: float = Field(default=3600.0, ge=0, le=86_400)


class KeyBody(Body):
    """A key of a program."""

    name: str = Field(min_length=1, max_length=ID_CHARS_MAX)
    scopes: list[Scope] = Field(min_length=1, max_length=10)
    life_days: Days = None


class NewKey(BaseModel):
    """A new key; its text is shown this once."""

    id: str
    key: str


@workers.get("", responses=LOOK)
async def list_workers(
    request: Request,
    _caller: Reader,
    after: Annotated[str, Query(max_length=ID_CHARS_MAX)] = "",
    limit: Limit = LIMIT_DEFAULT,
) -> Page[Worker]:
    """Workers with their load, in the order of their ids."""
    rows = await app_of(request).store.read.workers(after=after, limit=limit)
    return page_of(rows, limit, "id")


@workers.post("/{worker_id:path}/keys", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def add_worker_key(
    request: Request, _caller: Admin, worker_id: WorkerId, body: WorkerKeyBody
) -> NewKey:
    """A further key of a worker; the one that it replaces goes on for a while."""
    made = await app_of(request).store.keys.add(
        body.name,
        frozenset({"worker"}),
        worker_id=worker_id,
        life_days=body.life_days,
        replaces=(body.replaces, body.overlap_s) if body.replaces else None,
    )
    return NewKey(id=made.id, key=made.text)


@workers.delete("/{worker_id:path}/keys/{key_id}", responses=CHANGE)
async def revoke_worker_key(request: Request, _caller: Admin, worker_id: WorkerId, key_id: KeyId) -> Changed:
    """End a key of this worker; it is refused everywhere a second later at the latest."""
    store = app_of(request).store.keys
    return Changed(id=key_id, changed=await store.revoke(key_id, worker_id=worker_id))


@workers.post("/{worker_id:path}/{change:worker_change}", responses=CHANGE)
async def change_worker(
    request: Request,
    _caller: Admin,
    worker_id: WorkerId,
    change: Literal["disable", "enable", "drain"],
    body: ChangeBody,
) -> Worker:
    """Switch a worker off, or on and out of quarantine, or give it nothing new."""
    app = app_of(request)
    if change == "drain":
        await app.store.operator.drain([worker_id])
    elif change == "disable":
        await app.store.operator.disable([worker_id], reason=body.reason)
    else:
        await app.store.operator.enable([worker_id], reason=body.reason)
    return await app.store.read.worker(worker_id)


@keys.get("", responses=LOOK)
async def list_keys(
    request: Request,
    _caller: Admin,
    after: Annotated[str, Query(max_length=12)] = "",
    limit: Limit = LIMIT_DEFAULT,
) -> Page[ApiKey]:
    """Keys: whose they are and what they open; never what would let anybody in."""
    rows = await app_of(request).store.keys.list(after=after, limit=limit)
    return page_of(rows, limit, "id")


@keys.post("", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def add_key(request: Request, _caller: Admin, body: KeyBody) -> NewKey:
    """A key of a program."""
    made = await app_of(request).store.keys.add(body.name, frozenset(body.scopes), life_days=body.life_days)
    return NewKey(id=made.id, key=made.text)


@keys.delete("/{key_id}", responses=CHANGE)
async def revoke_key(request: Request, _caller: Admin, key_id: KeyId) -> Changed:
    """End a key; it is refused everywhere a second later at the latest."""
    return Changed(id=key_id, changed=await app_of(request).store.keys.revoke(key_id))
