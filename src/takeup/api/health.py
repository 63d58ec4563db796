"""Whether the server can do its work; how much of it there is, only for those who may know."""

import asyncio
import shutil
from pathlib import Path

from fastapi import APIRouter, Request
from pydantic import BaseModel

from takeup.api.access import Reader
from takeup.api.jobs import LOOK, app_of
from takeup.api.problems import HttpError, refusals
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


class Unavailable(HttpError):
    """The database does not answer."""

    http_status = 503
    help = "Ask again in a moment; the log of the server says what is wrong."


@router.get("/health", responses=refusals(400, 413, 431, 500, 503))
async def health(request: Request) -> Health:
    """Whether the database answers; asked without a key, so nothing more is told."""
    try:
        await app_of(request).store.read.now()
    except TakeupError:
        raise Unavailable("the database does not answer") from None
    return Health(status="ok")


@router.get("/api/health", responses=LOOK)
async def details(request: Request, _caller: Reader) -> Details:
    """Database, queue, workers and the room that is left for files."""
    app = app_of(request)
    read, settings = app.store.read, app.settings
    workers = await read.worker_counts()
    disks = (settings.storage, settings.media, settings.data_dir)
    free = await asyncio.to_thread(lambda: min(map(_free_bytes, disks)))
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


def _free_bytes(folder: Path) -> int:
    """The room in a folder, or where it would be made; none if nobody can say."""
    for place in (folder, *folder.absolute().parents):
        if place.exists():
            try:
                return shutil.disk_usage(place).free
            except OSError:
                return 0
    return 0
