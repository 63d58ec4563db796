"""Crash points do nothing until armed; an armed one ends a real process as a power cut would."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.store.store import Store
from takeup.testing import crash
from takeup.testing.history import check

CHILD = """
import os, sys
from takeup.testing import crash
crash.arm_from_environment(os.environ)
try:
    for number in range(5):
        print(number, flush=True)
        crash.point("worker.before publish")
finally:
    print("cleaned up", flush=True)
"""


def child(**environment: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_unarmed_points_let_a_process_run():
    assert child() == (0, ["0", "1", "2", "3", "4", "cleaned up"])


@pytest.mark.parametrize("text", ["worker.before publish#3", "other, worker.*#3"])
def test_an_armed_point_kills_a_real_process_at_its_turn(text: str):
    assert child(TAKEUP_CRASH=text) == (-signal.SIGKILL, ["0", "1", "2"])


def test_a_seed_arms_every_point_with_a_chance():
    assert child(TAKEUP_CRASH_SEED="1:1") == (-signal.SIGKILL, ["0"])
    assert child(TAKEUP_CRASH_SEED="1:0.3") == child(TAKEUP_CRASH_SEED="1:0.3")


def test_a_simulated_process_ends_by_an_error_that_no_handler_takes():
    with crash.armed(crash.Armed({"a": 2}, crash.collapse)):
        crash.point("a")
        crash.point("b")
        with pytest.raises(crash.Crashed, match="a"):
            crash.point("a")
        crash.point("a")
    crash.point("a")
    assert not issubclass(crash.Crashed, Exception)


STORE_CHILD = """
import asyncio, os, sys
from takeup.core.model import Completion, WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store
from takeup.testing import crash

async def main():
    store = await Store.open(sys.argv[1], upgrade=True)
    run = store.driver.run
    store.driver.run = lambda operation, *args, **kwargs: run(crash.watch(operation), *args, **kwargs)
    await store.worker.register(WorkerSpec("w"))
    await store.operator.submit([NewJob(Pipeline.of("p", [Stage("s")]))])
    (lease,) = await store.worker.claim(ClaimRequest("w", "r", "s" * 32))
    crash.arm_from_environment(os.environ)
    await store.worker.complete("w", [Completion(lease.held)])
    await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("point", "returncode", "status"),
    [("complete.after log_tasks", -signal.SIGKILL, "RUNNING"), ("complete.after nothing", 0, "DONE")],
)
async def test_a_real_process_killed_within_a_transaction_leaves_nothing_of_it(
    tmp_path: Path, point: str, returncode: int, status: str
):
    url = f"sqlite:///{tmp_path / 'takeup.sqlite'}"
    command = [sys.executable, "-c", STORE_CHILD, url]
    done = subprocess.run(command, env={**os.environ, "TAKEUP_CRASH": point}, check=False)  # noqa: ASYNC221
    assert done.returncode == returncode
    store = await Store.open(url)
    assert (await store.read.task(1)).status == status
    events = await store.read.events()
    assert check(events) == []
    assert ("complete" in {event.event for event in events}) == (status == "DONE")
    await store.close()
