"""Stages that outlive their worker if nobody stops them, or that take it down with them."""

import os
import signal
from pathlib import Path

from takeup import Pipeline, RetryPolicy

QUICK = RetryPolicy(max_attempts=3, initial_s=0.05, cap_s=0.1)

poison = Pipeline("poison", lease=1)


@poison.stage(retries=QUICK)
def kill_the_worker(ctx):
    guardian = os.getppid()
    stat = Path(f"/proc/{guardian}/stat").read_text()
    worker = int(stat.rpartition(")")[2].split()[1])
    os.kill(worker, signal.SIGKILL)
    signal.pause()


long = Pipeline("long", lease=3)


@long.stage(retries=RetryPolicy(max_attempts=9))
def run_long(ctx):
    marker = Path(ctx.parameters["folder"]) / ctx.folder.name
    ctx.step("sh", "-c", f"echo $$ > {marker}; exec sleep {ctx.parameters['seconds']}")
    ctx.output("done.txt").write_text("done")
