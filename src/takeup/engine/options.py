"""What one worker is told."""

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from takeup import __version__
from takeup.child.guard import confinement
from takeup.config import MIB, Settings
from takeup.core.model import WorkerSpec
from takeup.engine.runners import RunnerSetup
from takeup.pipelines.loading import absolute


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What one worker is told; every length is in seconds."""

    spec: WorkerSpec
    setup: RunnerSetup
    processes: int = 1
    batch: int = 100
    """How many tasks one claim takes at most."""
    poll_s: float = 1.0
    """How long an idle worker waits at most before it looks again by itself."""
    defer_s: float = 60.0
    heartbeat_s: float = 15.0
    glance_s: float = 1.0
    """How often it looks whether a task of its own was cancelled."""
    news_s: float = 2.0
    """How often it writes down how far a task is."""
    drain_s: float = 300.0
    """How long running tasks may go on once it is told to stop."""
    grace_s: float = 120.0
    """After the source was gone for long, for how long it takes back nobody's leases."""
    reserve_bytes: int = 64 * 1024 * 1024
    """With less free space than this, for scratch or for storage, it claims nothing."""


def worker_options(
    settings: Settings,
    sources: Sequence[str],
    worker_id: str,
    *,
    capabilities: Iterable[str] = (),
    **options: Any,
) -> WorkerOptions:
    """What a worker of this process is told."""
    slots = options.pop("slots", None) or settings.worker_slots or os.cpu_count() or 1
    processes = min(options.pop("processes", None) or settings.worker_processes or slots, slots)
    per_process = -(-slots // processes)
    spec = WorkerSpec(
        id=worker_id,
        name=options.pop("name", "") or socket.gethostname(),
        slots=processes * per_process,
        capabilities=frozenset(capabilities),
        stages=tuple(options.pop("stages", ())) or ("*",),
        metadata={
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "sandbox": confinement(settings.sandbox),
        },
    )
    setup = RunnerSetup(
        sources=tuple(absolute(source) for source in sources),
        storage=settings.storage.resolve(),
        scratch=settings.scratch.resolve(),
        per_process=per_process,
    )
    return WorkerOptions(
        spec,
        setup,
        processes=processes,
        batch=settings.worker_batch,
        poll_s=settings.worker_poll_interval,
        defer_s=settings.defer_s,
        heartbeat_s=settings.worker_heartbeat_interval,
        glance_s=options.pop("glance_s", settings.worker_order_interval),
        news_s=settings.worker_progress_interval,
        drain_s=settings.worker_drain_timeout,
        grace_s=settings.recovery_grace,
        reserve_bytes=settings.disk_reserve_mb * MIB,
    )
