"""Measures what a task costs in jobs with many segments, next to jobs with few; see bench/README.md."""

import argparse
import asyncio
import json
import shlex
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.engine.apps import takeup_app
from bench.engine.homes import open_home
from bench.engine.ours import Takeup
from bench.engine.system import Home
from bench.machine import describe
from bench.tables import about_lines, row, spread, verdict
from bench.turns import SERVER_SETTINGS, in_order
from takeup.core.plan import NewJob
from takeup.store.ops.read import JobFilter
from tests.services import PostgresServer

RESULTS = Path(__file__).parents[1] / "results"
HOMES: tuple[Home, ...] = ("postgres", "sqlite")
BATCH = 100
TARGET = 1.3
LOOK_S = 0.05
TIMEOUT_S = 300.0
JOBS_AT_ONCE = 1000


class Shape(NamedTuple):
    """So many jobs of so many segments each."""

    jobs: int
    segments: int

    @property
    def name(self) -> str:
        return f"{self.jobs:,} × {self.segments:,}"

    @property
    def tasks(self) -> int:
        """Every job has a splitter and a join, too."""
        return self.jobs * (self.segments + 2)


FEW, MANY = Shape(100, 100), Shape(1, 10_000)
QUICK_FEW, QUICK_MANY = Shape(10, 100), Shape(1, 1_000)
Costs = dict[tuple[Home, Shape], list[float]]
"""Microseconds a task, a round each."""


async def measure(server: PostgresServer, shapes: tuple[Shape, Shape], rounds: int) -> Costs:
    turns = [(home, shape) for home in HOMES for shape in shapes]
    costs: Costs = {turn: [] for turn in turns}
    for number in range(rounds):
        for home, shape in in_order(turns, number):
            async with open_home(home, server) as url:
                cost_us = await cost_of(url, shape)
            costs[home, shape].append(cost_us)
            print(f"  {home} {shape.name}: {cost_us:.0f} µs a task")
    return costs


async def cost_of(url: str, shape: Shape) -> float:
    """From submitting the jobs to an idle worker until the last of them is completed."""
    system = Takeup(BATCH, fans_out=True)
    try:
        await system.prepare(url)
        await system.start_worker()
        store = system.app.store
        await _completed(system, [NewJob(takeup_app.whole, {"segments": 1})])
        jobs = [NewJob(takeup_app.whole, {"segments": shape.segments}) for _ in range(shape.jobs)]
        ids = await _completed(system, jobs)
        done = [await store.read.job(job_id) for job_id in ids]
        finished = [job.finished_at for job in done if job.finished_at is not None]
        took = max(finished) - min(job.created_at for job in done)
        return took.total_seconds() / shape.tasks * 1e6
    finally:
        await system.stop()


async def _completed(system: Takeup, jobs: list[NewJob]) -> list[str]:
    """Submit jobs and wait until no job is live; looks seldom enough to cost little."""
    ids = await system.app.submit(jobs)
    deadline = time.monotonic() + TIMEOUT_S
    while await system.app.store.orchestrator.live_jobs(limit=1):
        assert time.monotonic() < deadline, "the jobs were not completed in time"
        await asyncio.sleep(LOOK_S)
    completed = await system.app.store.read.jobs(JobFilter(status="completed"), limit=JOBS_AT_ONCE)
    assert set(ids) <= {job.id for job in completed}, "a job failed"
    return ids


def ratios(costs: Costs, home: Home, few: Shape, many: Shape) -> list[float]:
    return [b / a for a, b in zip(costs[home, few], costs[home, many], strict=True)]


def markdown(costs: Costs, few: Shape, many: Shape, about: dict[str, str]) -> str:
    lines = [
        "# What a task costs in jobs of any size",
        "",
        "Written by `bench/segments`: jobs of a splitter, no-op segments and a join, submitted to an idle",
        f"worker (batches of {BATCH}) and run until the last job is completed. Microseconds of wall time for",
        "each of their tasks.",
        "",
        *about_lines(about),
        "",
        f"| store | {few.name} segments | {many.name} segments | ratio | target |",
        "| --- | --- | --- | --- | --- |",
    ]
    for home in HOMES:
        found = ratios(costs, home, few, many)
        cells = (spread(costs[home, shape], ".0f") for shape in (few, many))
        lines.append(row(home, *cells, spread(found, ".2f"), verdict(found, TARGET, at_most=True)))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the segments, one round")
    parser.add_argument("--record", action="store_true", help="write the results to bench/results/")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    args = parser.parse_args()
    few, many = (QUICK_FEW, QUICK_MANY) if args.quick else (FEW, MANY)
    rounds = args.rounds or (1 if args.quick else 5)
    started = time.monotonic()
    server = PostgresServer("postgres15", fsync=True, settings=SERVER_SETTINGS)
    try:
        costs = asyncio.run(measure(server, (few, many), rounds))
    finally:
        server.close()
    command = shlex.join(["make", "bench", "BENCH=segments", f"BENCH_ARGS={shlex.join(sys.argv[1:])}"])
    about = describe(server, ("takeup", "asyncpg"), command, time.monotonic() - started)
    page = markdown(costs, few, many, about)
    print(page)
    if args.record:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "segments.md").write_text(page)
        numbers = {f"{home} {shape.name}": found for (home, shape), found in costs.items()}
        (RESULTS / "segments.json").write_text(json.dumps({"about": about, "costs_us": numbers}) + "\n")


if __name__ == "__main__":
    main()
