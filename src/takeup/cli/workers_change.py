"""What `takeup workers` does."""

import argparse
from collections.abc import Callable

from takeup.cli.keys_change import all_keys
from takeup.cli.opening import open_store
from takeup.cli.printing import age, line, plain, print_json, table
from takeup.core.errors import IllegalMove, InvalidInput, NotFound
from takeup.core.model import Worker
from takeup.engine.enrolment import enrol
from takeup.store.ops.read import PAGE_MAX
from takeup.store.store import ReadStore, Store

IDS_SHOWN_MAX = 10


async def show_list(options: argparse.Namespace) -> int:
    """Print the workers that are not offline, or all of them."""
    async with open_store(options) as (store, _):
        workers = await all_workers(store.read)
        now = await store.read.now()
    shown = [worker for worker in workers if options.all or worker.status != "offline"]
    if options.json:
        print_json([{**plain(worker), "shown_status": status_of(worker)} for worker in shown])
        return 0
    rows = [
        (
            worker.id,
            status_of(worker),
            worker.name if worker.name != worker.id else None,
            worker.metadata.get("host"),
            f"{worker.load}/{worker.slots}",
            age(worker.last_heartbeat_at or worker.registered_at, now),
            ", ".join(sorted(worker.capabilities)),
            ", ".join(worker.stages),
        )
        for worker in shown
    ]
    table(("id", "status", "name", "host", "load", "heartbeat", "capabilities", "stages"), rows)
    for worker in shown:
        if worker.quarantined_at is not None:
            since = age(worker.quarantined_at, now)
            line(f"{worker.id} is quarantined since {since}: {worker.quarantine_reason}")
            line(f"  let it back when it is well again: takeup workers enable {worker.id}")
    return 0


async def all_workers(read: ReadStore) -> list[Worker]:
    """Page by page."""
    workers: list[Worker] = []
    while True:
        page = await read.workers(after=workers[-1].id if workers else "", limit=PAGE_MAX)
        workers += page
        if len(page) < PAGE_MAX:
            return workers


def status_of(worker: Worker) -> str:
    """What stands out most: disabled before quarantined before draining."""
    if worker.disabled:
        return "disabled"
    if worker.quarantined_at is not None and worker.status == "active":
        return "quarantined"
    return worker.status


async def register(options: argparse.Namespace) -> int:
    """Make a worker known and print its key."""
    async with open_store(options) as (store, _):
        worker_id, key = await enrol(store, options.name, capabilities=options.capability or ())
    if options.json:
        print_json({"worker_id": worker_id, "api_key": key.text})
    else:
        line(key.text)
    return 0


async def revoke(options: argparse.Namespace) -> int:
    """End every key of these workers."""
    async with open_store(options) as (store, _):
        await _look(store, options)
        keys = [key for key in await all_keys(store.keys) if key.worker_id in options.workers]
        ended = [key.worker_id for key in keys if key.revoked_at is None and await store.keys.revoke(key.id)]
    _tell(options, [worker_id for worker_id in ended if worker_id], "has no key any more", "had no key")
    return 0


async def drain(options: argparse.Namespace) -> int:
    """Give these workers nothing new."""
    async with open_store(options) as (store, _):
        await _look(store, options, lambda worker: worker.status == "offline", "drained")
        changed = await store.operator.drain(options.workers)
    _tell(options, changed, "drains", "drains already")
    return 0


async def disable(options: argparse.Namespace) -> int:
    """Switch these workers off."""
    async with open_store(options) as (store, _):
        before = await _look(store, options)
        await store.operator.disable(options.workers, reason=options.reason)
    changed = [worker.id for worker in before if not worker.disabled]
    _tell(options, changed, "is disabled", "was disabled already")
    return 0


async def enable(options: argparse.Namespace) -> int:
    """Switch these workers on again, and let them out of quarantine."""
    async with open_store(options) as (store, _):
        before = await _look(store, options)
        await store.operator.enable(options.workers, reason=options.reason)
    changed = [worker.id for worker in before if worker.disabled or worker.quarantined_at is not None]
    _tell(options, changed, "is enabled", "was enabled already")
    return 0


async def _look(
    store: Store,
    options: argparse.Namespace,
    refused: Callable[[Worker], bool] | None = None,
    verb: str = "",
) -> list[Worker]:
    """The workers as they are before the change; raises for one that it is not possible for.

    From here on the options have their ids, where they had names.
    """
    workers = [await _named(store.read, name) for name in dict.fromkeys(options.workers)]
    options.workers = [worker.id for worker in workers]
    for worker in workers:
        if refused is not None and refused(worker):
            raise IllegalMove(f"worker {worker.id} is {worker.status} and cannot be {verb}")
    return workers


async def _named(read: ReadStore, name: str) -> Worker:
    """The worker of this id, or the only one of this name."""
    try:
        return await read.worker(name)
    except NotFound:
        found = [worker for worker in await all_workers(read) if worker.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(
            f"{len(found)} workers have the name {name!r}",
            advice=f"Name one by its id: {', '.join(worker.id for worker in found[:IDS_SHOWN_MAX])}.",
        )
    raise NotFound(
        f"no worker has the id or the name {name!r}", advice="`takeup workers list --all` shows them."
    )


def _tell(options: argparse.Namespace, changed: list[str], done: str, already: str) -> None:
    ids = list(dict.fromkeys(options.workers))
    if options.json:
        print_json({"changed": changed, "unchanged": [i for i in ids if i not in changed]})
        return
    for worker_id in ids:
        line(f"{worker_id} {done if worker_id in changed else already}")
