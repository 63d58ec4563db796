"""The processes of a fleet: a worker, an orchestrator or a recovery loop, as the real commands run them."""

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from takeup.app import App, bell_of, run_loops
from takeup.config import Settings
from takeup.engine.worker import Worker
from takeup.store.store import Store
from takeup.telemetry import logs
from takeup.testing import crash
from tests.chaos.logged import CallLog, LoggedSource

PIPELINE = str(Path(__file__).with_name("pipeline.py"))
RECOVERY_S = 0.2
OFFLINE_MIN = 0.1


@dataclass(frozen=True)
class Role:
    """What one process is told."""

    kind: str
    name: str
    url: str
    folder: Path
    slots: int = 1
    processes: int = 1
    sources: tuple[str, ...] = (PIPELINE,)
    crash: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    clock_h: int = 0
    """By how many hours its wall clock is wrong; such a process is started afresh, not forked."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def all_settings(self) -> Settings:
        return Settings(
            **{
                "data_dir": self.folder / "data",
                "database_url": self.url,
                "worker_poll_interval": 0.2,
                "worker_heartbeat_interval": 1.0,
                "worker_order_interval": 0.3,
                "worker_drain_timeout": 5.0,
                "worker_offline_threshold_minutes": OFFLINE_MIN,
                "orchestrator_interval": 0.2,
                "recovery_interval": RECOVERY_S,
                "recovery_grace": 1.0,
                "outbox_interval": 0.3,
                "outbox_lease": 2.0,
                "sweep_interval": 1.0,
                "disk_reserve_mb": 0,
                **self.settings,
            }
        )


def faketime(hours: int) -> dict[str, str]:
    """The environment of a process whose wall clock, and only that, is wrong."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        raise RuntimeError("no libfaketime: get it with 'sudo apt-get install faketime'")
    return {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME": f"{hours:+d}h",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def play(role: Role) -> None:
    """Be this process until it is told to stop, or killed."""
    os.environ.update({**role.environment, crash.VARIABLE: role.crash})
    log = os.open(role.folder / f"{role.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    crash.arm_from_environment(os.environ)
    logs.configure(level="info")
    asyncio.run(_play(role))


async def _play(role: Role) -> None:
    store = await _open(role.url)
    run = store.driver.run
    store.driver.run = lambda operation, *args, **options: run(crash.watch(operation), *args, **options)
    app = App(role.all_settings(), store, bell_of(store))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        if role.kind == "worker":
            worker = _worker(app, role)
            loop.add_signal_handler(signal.SIGTERM, worker.hurry)
            await worker.run()
        else:
            loop.add_signal_handler(signal.SIGTERM, stop.set)
            loops = [app.orchestrator()] if role.kind == "orchestrator" else None
            await run_loops(loops or [app.recovery(), app.outbox(), app.sweeper()], stop)
    finally:
        await app.bell.close()
        await store.close()


async def _open(url: str) -> Store:
    """The database may be down just now."""
    while True:
        try:
            return await Store.open(url)
        except Exception as error:
            if not getattr(error, "retryable", False):
                raise
            await asyncio.sleep(0.1)


def _worker(app: App, role: Role) -> Worker:
    store: Any = app.store
    store.worker = LoggedSource(app.store.worker, CallLog(role.folder, role.name))
    worker = app.worker(role.sources, worker_id=role.name, slots=role.slots, processes=role.processes)
    setup = replace(worker.options.setup, module="tests.chaos.runner")
    return Worker(store.worker, replace(worker.options, setup=setup), app.bell)


if __name__ == "__main__":
    play(pickle.loads(bytes.fromhex(sys.argv[1])))  # noqa: S301 - written by the fleet that started this
