"""`takeup jobs watch`."""

import argparse

from takeup.cli.opening import open_store
from takeup.cli.progress import follow, show_result


async def watch(options: argparse.Namespace) -> int:
    """Show how a job goes until it is finished; only a completed one is a success."""
    async with open_store(options) as (store, settings):
        job = await follow(store.read, await store.read.find_job(options.job))
        artifacts = await store.read.artifacts(job.id)
        show_result(job, artifacts, settings.storage, as_json=options.json)
    return 0 if job.status == "completed" else 1
