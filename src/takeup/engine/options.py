"""What one worker is told."""

from dataclasses import dataclass

from takeup.core.model import WorkerSpec
from takeup.engine.runners import RunnerSetup


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
