"""Whether the server can do its work; how much of it there is, only for those who may know."""

import shutil
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from takeup.api.access import Reader
from takeup.api.jobs import LOOK, app_of
from takeup.api.problems import refusals
from takeup.core.errors import TakeupError

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """One word, for probes and balancers."""

    status: str


class Details(BaseModel):
    """What operators look at."""

    status: str
    database: str
    tasks: dict[str, int]
    workers_active: int
    workers_offline: int
    storage_free_bytes: int
    has_room: bool


@router.get("/health", responses=refusals(503))
async def health(request: Request, response: Response) -> Health:
    """Whether the database answers; asked without a key, so nothing more is told."""
    try:
        await app_of(request).store.read.now()
    except TakeupError:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return Health(status="unavailable")
    return Health(status="ok")


@router.get("/api/health", responses=LOOK)
async def details(request: Request, _caller: Reader) -> Details:
    """Database, queue, workers and the room that is left for files."""
    app = app_of(request)
    read, settings = app.store.read, app.settings
    workers = await read.worker_counts()
    settings.storage.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.storage).free
    has_room = free >= settings.disk_reserve_mb * 1024 * 1024
    return Details(
        status="ok" if has_room else "full",
        database=app.store.driver.dialect.name,
        tasks=await read.queue_counts(),
        workers_active=workers.get("active", 0) + workers.get("draining", 0),
        workers_offline=workers.get("offline", 0),
        storage_free_bytes=free,
        has_room=has_room,
    )
