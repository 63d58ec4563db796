"""Puts together a worker that is elsewhere: a key, a server, and runners on this machine."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from takeup import __version__
from takeup.config import KIB, MIB, Settings
from takeup.core.errors import InvalidInput, NotFound, TakeupError, WorkerRefused
from takeup.core.pipeline import Pipeline
from takeup.core.remote import PROTOCOL
from takeup.dispatch.bell import Bell
from takeup.engine.clock import boot_clock
from takeup.engine.loop import Breaker
from takeup.engine.options import worker_options
from takeup.engine.remote.cache import Cache
from takeup.engine.remote.carrier import RemoteCarrier
from takeup.engine.remote.client import Client
from takeup.engine.remote.kept_key import KeptKey
from takeup.engine.remote.source import CALLS, HttpSource
from takeup.engine.worker import Worker
from takeup.telemetry.logs import logger

ORDERS_EVERY_S = 10.0
"""Orders come with the answers to progress; so often a worker elsewhere asks besides."""

log = logger("worker")


class NoKey(InvalidInput):
    """A worker that is elsewhere has to show a key."""

    help = (
        "Give --key KEY or TAKEUP_WORKER_API_KEY, as `takeup workers register NAME` printed it beside the "
        "server; or TAKEUP_WORKER_ADMIN_SECRET, with which the worker registers itself."
    )


@dataclass(eq=False)
class RemoteWorker:
    """A worker with what belongs to it."""

    worker: Worker
    source: HttpSource
    cache: Cache

    def stop(self) -> None:
        """Take nothing new; told twice, end now."""
        self.source.stop_waiting()
        self.worker.stop()


@asynccontextmanager
async def remote_worker(
    settings: Settings, pipelines: dict[str, Pipeline], sources: Sequence[str], **options: Any
) -> AsyncIterator[RemoteWorker]:
    """A worker for this server; waits until the server says who the key is of."""
    kept = None if settings.worker_api_key else KeptKey(settings.data_dir, settings.server_url)
    key = settings.worker_api_key if kept is None else await _own_key(kept, settings, **options)
    client = Client(settings.server_url, key)
    try:
        me = await _identity(client, kept, settings.server_url)
        options["capabilities"] = options.get("capabilities") or me["capabilities"]
        source = HttpSource(
            client,
            wait_s=settings.worker_claim_wait,
            pipelines={name: pipeline.version for name, pipeline in pipelines.items()},
        )
        told = worker_options(
            settings, sources, me["worker_id"], name=me["name"], glance_s=ORDERS_EVERY_S, **options
        )
        worker = Worker(
            source,
            told,
            Bell(),
            carrier=lambda artifacts: RemoteCarrier(
                client, artifacts, boot_clock, block_bytes=settings.worker_block_kb * KIB
            ),
        )
        cache = Cache(
            source,
            told.setup.storage,
            told.setup.scratch,
            jobs_held=lambda: [holding.lease.job_id for holding in worker.hand],
            bytes_max=round(settings.worker_cache_gb * 1024) * MIB,
            period_s=settings.sweep_interval,
        )
        yield RemoteWorker(worker, source, cache)
    finally:
        await client.close()


async def _identity(client: Client, kept: KeptKey | None, url: str) -> Any:
    """Who the server says that the key is of."""
    try:
        me = await _patiently(lambda: client.call("GET", f"{CALLS}/me"), url)
    except NotFound:
        raise InvalidInput(
            f"{url} is no Takeup server", advice="Give http(s)://HOST:PORT without a path behind it."
        ) from None
    except WorkerRefused as error:
        if kept is None:
            raise
        raise type(error)(str(error), advice=f"{error.help} {kept.advice}") from None
    if me["protocol"] != PROTOCOL:
        raise InvalidInput(
            f"the server ({me['version']}) and this worker ({__version__}) speak different protocols",
            advice="Install the same Takeup on both.",
        )
    return me


async def _own_key(kept: KeptKey, settings: Settings, **options: Any) -> str:
    """The key with which this worker registered itself, now or before."""
    key = await asyncio.to_thread(kept.read)
    if key is None:
        key = await _register(settings, **options)
        await asyncio.to_thread(kept.write, key)
    return key


async def _register(settings: Settings, **options: Any) -> str:
    """Become known under a new identity, with the secret of the server's administrator."""
    if not settings.worker_admin_secret:
        raise NoKey("there is no key for the server")
    client = Client(settings.server_url, "", headers={"X-Admin-Secret": settings.worker_admin_secret})
    body = {
        "worker_name": socket.gethostname(),
        "capabilities": sorted(options.get("capabilities", ())),
        "metadata": {"host": socket.gethostname()},
    }
    try:
        told = await _patiently(lambda: client.call("POST", f"{CALLS}/register", body), settings.server_url)
    finally:
        await client.close()
    log.info("registered as a new worker", worker=told["worker_id"])
    return str(told["api_key"])


async def _patiently(call: Any, url: str) -> Any:
    """Ask until there is an answer; a server may start later than its workers."""
    breaker = Breaker(last_s=10.0)
    while True:
        try:
            return await call()
        except TakeupError as error:
            if not error.retryable:
                raise
            log.warning("the server does not answer yet", server=url, error=str(error))
            await asyncio.sleep(breaker.fail())
