"""`takeup jobs why`."""

import argparse

from takeup.cli.opening import open_store
from takeup.cli.printing import line, print_json
from takeup.core import why as reasons


async def why(options: argparse.Namespace) -> int:
    """Say why a job does not run, or what it does."""
    async with open_store(options) as (store, _):
        facts = await store.read.why(await store.read.find_job(options.job))
    told = reasons.why(facts)
    if options.json:
        print_json({"job": facts.job.id, "status": facts.job.status, "why": told})
        return 0
    line(f"{facts.job.id} is {facts.job.status}:")
    for sentence in told:
        line(f"  {sentence}")
    return 0
