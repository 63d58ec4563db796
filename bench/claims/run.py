"""Measures claim and complete of no-op tasks next to a raw SQL loop and to our peers; see bench/README.md."""

import argparse
import asyncio
import shlex
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from bench.claims.cases import FULL, QUICK, STATES, SYSTEMS
from bench.claims.measuring import measure
from bench.claims.report import markdown, summarize, write
from bench.machine import describe
from bench.turns import SERVER_SETTINGS
from tests.services import PostgresServer

RESULTS = Path(__file__).parents[1] / "results"
PACKAGES = ("takeup", "asyncpg", "duckdb", "procrastinate", "psycopg", "pgqueuer", "uvloop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small counts, under two minutes")
    parser.add_argument("--record", action="store_true", help="write the results to bench/results/")
    parser.add_argument("--rounds", type=int, help="how often each case is measured")
    parser.add_argument("--fill", type=int, help="rows of the full tables")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="measure only these")
    parser.add_argument(
        "--states", nargs="+", choices=STATES, default=STATES, help="measure only these tables"
    )
    args = parser.parse_args()
    sizes = QUICK if args.quick else FULL
    sizes = replace(sizes, rounds=args.rounds or sizes.rounds, fill=args.fill or sizes.fill)
    started = time.monotonic()
    server = PostgresServer("postgres15", fsync=True, settings=SERVER_SETTINGS)
    try:
        with tempfile.TemporaryDirectory(prefix="takeup-bench-") as folder:
            samples = asyncio.run(
                measure(server, Path(folder), sizes, systems=args.systems, states=args.states)
            )
    finally:
        server.close()
    command = shlex.join(["make", "bench", "BENCH=claims", f"BENCH_ARGS={shlex.join(sys.argv[1:])}"])
    about = describe(server, PACKAGES, command, time.monotonic() - started)
    summary = summarize(sizes, samples)
    print(markdown(sizes, about, summary))
    if args.record:
        write(RESULTS, sizes, about, summary, samples)


if __name__ == "__main__":
    main()
