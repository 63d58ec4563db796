"""`takeup jobs cancel|pause|resume|skip|retry|priority`: what is asked happens, or is refused with why."""

import argparse
from collections.abc import Sequence

from takeup.cli.opening import open_store, ring
from takeup.cli.printing import line, print_json
from takeup.core.errors import InvalidInput, NotFound
from takeup.core.model import Control
from takeup.store.store import Store

WORDS: dict[Control, tuple[str, str]] = {
    "PAUSED": ("paused", "was paused already"),
    "READY": ("resumed", "was not paused"),
    "SKIP": ("skipped", "was skipped already"),
}


async def pause(options: argparse.Namespace) -> int:
    """Start nothing more of these jobs."""
    return await _set_control(options, "PAUSED", options.reason)


async def resume(options: argparse.Namespace) -> int:
    """Go on with these jobs."""
    return await _set_control(options, "READY", None)


async def skip(options: argparse.Namespace) -> int:
    """Let these jobs count as done."""
    return await _set_control(options, "SKIP", options.reason)


async def _set_control(options: argparse.Namespace, control: Control, reason: str | None) -> int:
    async with open_store(options) as (store, _):
        ids = await _find(store, options.jobs)
        if options.task is not None:
            return await _set_task(options, store, ids, control, reason)
        changed = await store.operator.set_control(ids, control, reason=reason)
        await ring(store)
    _tell(options, ids, changed, *WORDS[control])
    return 0


async def _set_task(
    options: argparse.Namespace, store: Store, ids: Sequence[str], control: Control, reason: str | None
) -> int:
    if len(ids) > 1:
        raise InvalidInput("--task changes one task of one job; name one job")
    task = await store.read.task(options.task)
    if task.job_id != ids[0]:
        raise NotFound(f"job {ids[0]} has no task {task.id}; it belongs to {task.job_id}")
    await store.operator.set_task_control([task.id], control, reason=reason)
    await ring(store)
    if options.json:
        print_json({"changed": [task.id]})
    else:
        line(f"task {task.id} of {ids[0]} {WORDS[control][0]}")
    return 0


async def cancel(options: argparse.Namespace) -> int:
    """Stop these jobs for good."""
    async with open_store(options) as (store, _):
        ids = await _find(store, options.jobs)
        reason = options.reason or "cancelled by an operator"
        changed = await store.operator.cancel(ids, reason=reason, must_be_live=True)
        await ring(store)
    _tell(options, ids, changed, "cancelled", "was cancelled already")
    return 0


async def priority(options: argparse.Namespace) -> int:
    """Change how urgent these jobs are."""
    async with open_store(options) as (store, _):
        ids = await _find(store, options.jobs)
        changed = await store.operator.set_priority(ids, options.priority)
    _tell(options, ids, changed, f"has priority {options.priority}", "is unchanged")
    return 0


async def retry(options: argparse.Namespace) -> int:
    """Run these jobs again; their new ids are printed."""
    async with open_store(options) as (store, _):
        ids = await _find(store, options.jobs)
        new = await store.operator.retry(ids)
        await ring(store)
    if options.json:
        print_json({"jobs": [{"from": old, "job": job_id} for old, job_id in zip(ids, new, strict=True)]})
        return 0
    for job_id in new:
        line(job_id)
    return 0


async def _find(store: Store, texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([await store.read.find_job(text) for text in texts]))


def _tell(
    options: argparse.Namespace, ids: Sequence[str], changed: Sequence[str], done: str, already: str
) -> None:
    if options.json:
        print_json({"changed": list(changed), "unchanged": [i for i in ids if i not in changed]})
        return
    for job_id in ids:
        line(f"{job_id} {done if job_id in changed else already}")
