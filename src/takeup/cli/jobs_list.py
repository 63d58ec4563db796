"""`takeup jobs list`."""

import argparse

from takeup.cli.opening import open_store
from takeup.cli.printing import age, print_json, table, took
from takeup.core.errors import InvalidInput
from takeup.core.model import ListedJob
from takeup.store.ops.read import PAGE_MAX, JobFilter
from takeup.store.store import ReadStore

LIST_MAX = 100_000


async def show_list(options: argparse.Namespace) -> int:
    """Print the newest jobs that fit."""
    if not 1 <= options.limit <= LIST_MAX:
        raise InvalidInput(f"--limit {options.limit} is not within 1 to {LIST_MAX}")
    where = JobFilter(options.pipeline, options.status, None, options.user)
    async with open_store(options) as (store, _):
        jobs = await newest(store.read, where, options.limit)
        now = await store.read.now()
    if options.json:
        print_json(jobs)
        return 0
    rows = [
        (
            job.id,
            job.pipeline,
            shown_status(job),
            job.priority,
            age(job.created_at, now),
            took(job.started_at, job.finished_at or now),
            job.user_id,
            job.error or job.subject,
        )
        for job in jobs
    ]
    names = ("id", "pipeline", "status", "priority", "created", "took", "user", "subject or error")
    table(names, rows)
    return 0


async def newest(read: ReadStore, where: JobFilter, limit: int) -> list[ListedJob]:
    """Page by page until there are enough."""
    jobs: list[ListedJob] = []
    while len(jobs) < limit:
        size = min(limit - len(jobs), PAGE_MAX)
        page = await read.jobs(where, before=jobs[-1] if jobs else None, limit=size)
        jobs += page
        if len(page) < size:
            break
    return jobs


def shown_status(job: ListedJob) -> str:
    """A paused job says so."""
    return "paused" if job.control == "PAUSED" and job.finished_at is None else job.status
