"""Measures how many workers over HTTP one API process holds; see bench/README.md."""

import argparse
import asyncio
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from bench.fleet.workers import HEARTBEAT_S, TASK_S, Fleet, Seen
from bench.machine import describe
from bench.tables import about_lines, row
from bench.turns import SERVER_SETTINGS
from takeup import Pipeline
from takeup.core.access import Scope
from takeup.core.plan import NewJob
from takeup.engine.enrolment import enrol
from takeup.store.store import Store
from tests.services import PostgresServer

RESULTS = Path(__file__).parents[1] / "results"
SIZES, QUICK_SIZES = (1000, 2000, 4000, 6000), (50, 100)
START_S_MAX = 30.0
P99_MS_MAX = 250.0
WORKERS_WANTED = 2000
TASKS_A_WORKER = 8
NAME = "sim-"
WORKER: frozenset[Scope] = frozenset({"worker"})
FILE = """from takeup import Pipeline

idle = Pipeline("idle", lease="5m")


@idle.stage()
def only(ctx):
    pass
"""

COLUMNS = (
    "workers",
    "calls/s",
    "claim p50 / p99 ms",
    "progress p99 ms",
    "complete p99 ms",
    "heartbeat p99 ms",
    "errors",
    "workers lost",
    "CPU of the server / the fleet / all",
)

idle = Pipeline("idle", lease="5m")
idle.stage(name="only")(lambda _: None)


class Pace(NamedTuple):
    """How fast more workers come, how long is looked, how long tasks take, how often workers beat."""

    ramp_s: float
    window_s: float
    task_s: float
    heartbeat_s: float


PACE, QUICK_PACE = Pace(30.0, 60.0, TASK_S, HEARTBEAT_S), Pace(2.0, 12.0, 4.0, 4.0)


class Step(NamedTuple):
    """What was seen with so many workers."""

    workers: int
    seconds: dict[str, list[float]]
    errors: list[str]
    completed: int
    lost: int
    server_cpu: float
    """Of one processor, as the next."""
    fleet_cpu: float
    machine_cpu: float

    @property
    def holds(self) -> bool:
        return not self.errors and not self.lost and percentile(self.seconds["claim"], 99) * 1000 < P99_MS_MAX


def percentile(numbers: list[float], which: int) -> float:
    return statistics.quantiles(numbers, n=100, method="inclusive")[which - 1] if len(numbers) > 1 else 0.0


@contextmanager
def served(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`takeup serve` as it is installed, on a port of its own, with every loop and no worker."""
    (folder / "idle.py").write_text(FILE)
    program = str(Path(sys.executable).with_name("takeup"))
    options = ["--workers", "0", "--port", "0", "--pipelines", "idle.py", "--database", url, "--data", "data"]
    log = folder / "server.log"
    with log.open("w") as said:
        running = subprocess.Popen(
            [program, "serve", *options],
            cwd=folder,
            env={**os.environ, "TAKEUP_LOG_FORMAT": "json"},
            stderr=said,
        )
    try:
        yield running, port_in(log, running)
    finally:
        running.terminate()
        running.wait()


def port_in(log: Path, running: subprocess.Popen[bytes]) -> int:
    """The port that the server says it listens on."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline and running.poll() is None:
        if found := re.search(r"127\.0\.0\.1:(\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text()}")


def busy_s(pid: int) -> tuple[float, float, float]:
    """How long processors worked for that process, for this one, and for all."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    ticks = int(fields[11]) + int(fields[12]), user + nice + system + irq + softirq
    a_second = os.sysconf("SC_CLK_TCK")
    return ticks[0] / a_second, time.process_time(), ticks[1] / a_second


async def count_alive(store: Store, pace: Pace) -> int:
    """How many of the simulated workers are active and were heard of not long ago."""
    since = datetime.now(UTC) - timedelta(seconds=1.5 * pace.heartbeat_s)
    alive, after = 0, ""
    while page := await store.read.workers(after=after):
        after = page[-1].id
        alive += sum(
            1
            for worker in page
            if worker.name.startswith(NAME)
            and worker.status == "active"
            and (worker.last_heartbeat_at or since) > since
        )
    return alive


async def measure(url: str, folder: Path, sizes: tuple[int, ...], pace: Pace) -> list[Step]:
    store = await Store.open(url, upgrade=True)
    keys = [(await enrol(store, f"{NAME}{n}"))[1].text for n in range(sizes[-1])]
    steps = []
    with served(url, folder) as (server, port):
        seen = Seen()
        fleet = Fleet("127.0.0.1", port, seen, task_s=pace.task_s, heartbeat_s=pace.heartbeat_s)
        try:
            for size in sizes:
                await store.operator.submit([NewJob(idle, {}) for _ in range(TASKS_A_WORKER * size)])
                await fleet.grow(keys[len(fleet) : size], pace.ramp_s)
                await asyncio.sleep(pace.ramp_s / 2)
                seen.seconds, seen.errors, seen.completed, seen.is_counting = {}, [], 0, True
                before, began = busy_s(server.pid), time.monotonic()
                await asyncio.sleep(pace.window_s)
                seen.is_counting = False
                took_s = time.monotonic() - began
                shares = [(s - at) / took_s for s, at in zip(busy_s(server.pid), before, strict=True)]
                lost = size - await count_alive(store, pace)
                steps.append(Step(size, seen.seconds, seen.errors, seen.completed, lost, *shares))
                told = {name: f"{percentile(s, 99) * 1000:.0f} ms" for name, s in seen.seconds.items()}
                print(
                    f"  {size} workers: p99 {told}, errors {seen.errors[:3]}, CPU {shares[0]:.0%}", flush=True
                )
        finally:
            await fleet.close()
    await store.close()
    return steps


def markdown(steps: list[Step], pace: Pace, about: dict[str, str]) -> str:
    held = max((step.workers for step in steps if step.holds), default=0)
    verdict = "met" if held >= WORKERS_WANTED else "MISSED"
    lines = [
        "# How many workers one API process holds",
        "",
        "Written by `bench/fleet`: simulated workers over HTTP on one `takeup serve` with PostgreSQL, all",
        "on one machine: a heartbeat every 30 s, tasks of 30 to 90 s with progress every 10 s, a claim and a",
        "completion.",
        "",
        *about_lines(about),
        "",
        row(*COLUMNS),
        row(*["---"] * len(COLUMNS)),
    ]  # fmt: skip
    for step in steps:
        count = sum(map(len, step.seconds.values()))
        took = {name: percentile(found, 99) * 1000 for name, found in step.seconds.items()}
        claim = f"{percentile(step.seconds.get('claim', []), 50) * 1000:.0f} / {took.get('claim', 0):.0f}"
        others = (f"{took.get(name, 0):.0f}" for name in ("progress", "complete", "heartbeat"))
        rate = f"{count / pace.window_s:.0f}"
        cpu = step.server_cpu, step.fleet_cpu, step.machine_cpu
        lines.append(
            row(
                step.workers,
                rate,
                claim,
                *others,
                len(step.errors),
                step.lost,
                " / ".join(f"{share:.0%}" for share in cpu),
            )
        )
    bound = f"with a p99 of claims below {P99_MS_MAX:.0f} ms and nothing lost"
    lines += ["", f"{held} workers are held {bound}: {verdict} (≥ {WORKERS_WANTED})."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few workers, short windows")
    parser.add_argument("--record", action="store_true", help="write the results to bench/results/")
    parser.add_argument("--sizes", nargs="+", type=int, help="so many workers, one after the other")
    args = parser.parse_args()
    sizes = tuple(sorted(args.sizes or (QUICK_SIZES if args.quick else SIZES)))
    pace = QUICK_PACE if args.quick else PACE
    started = time.monotonic()
    server = PostgresServer("postgres15", fsync=True, settings=SERVER_SETTINGS)
    try:
        with tempfile.TemporaryDirectory(prefix="takeup-fleet-") as folder:
            asyncio.run(server.create_database("fleet"))
            steps = asyncio.run(measure(server.dsn("fleet"), Path(folder), sizes, pace))
    finally:
        server.close()
    command = shlex.join(["make", "bench", "BENCH=fleet", f"BENCH_ARGS={shlex.join(sys.argv[1:])}"])
    about = describe(server, ("takeup", "asyncpg", "fastapi", "uvicorn"), command, time.monotonic() - started)
    page = markdown(steps, pace, about)
    print(page)
    if args.record:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "fleet.md").write_text(page)
        numbers = [{**step._asdict(), "errors": len(step.errors)} for step in steps]
        for one in numbers:
            one["seconds"] = {n: [percentile(s, 50), percentile(s, 99)] for n, s in one["seconds"].items()}
        (RESULTS / "fleet.json").write_text(json.dumps({"about": about, "steps": numbers}) + "\n")


if __name__ == "__main__":
    main()
