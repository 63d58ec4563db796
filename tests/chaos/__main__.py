"""Long storms: `python -m tests.chaos` kills real processes a thousand times on each database."""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.chaos.faults import PostgresFaults, SmallScratch
from tests.chaos.storm import Storm
from tests.services import PostgresServer

KILLS_AT_ONCE = 250
"""A run is cut into storms of so many kills, each with a database of its own and the next seed."""


async def on_sqlite(folder: Path, seed: int, kills: int) -> Counter[str]:
    with SmallScratch(folder / "data") as scratch:
        storm = Storm(f"sqlite:///{folder}/chaos.db", folder, seed=seed, kills=kills)
        storm.disturbances = (scratch.fill_scratch,)
        return await storm.run()


async def on_postgres(folder: Path, seed: int, kills: int) -> Counter[str]:
    server = PostgresServer("postgres15", fsync=True)
    try:
        await server.create_database("chaos")
        url = server.dsn("chaos")
        faults = PostgresFaults(server, url, seed)
        storm = Storm(url, folder, seed=seed, kills=kills, workers=2, clocks_h=(+1, -1))
        storm.disturbances = (faults.crash_database, faults.hold_a_row)
        return await storm.run()
    finally:
        server.close()


DATABASES = {"sqlite": on_sqlite, "postgres": on_postgres}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="how many, on each database")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=list(DATABASES))
    options = parser.parse_args()
    for name in options.databases:
        total: Counter[str] = Counter()
        begun, seed = time.monotonic(), options.seed
        while total["kills"] < options.kills:
            kills = min(KILLS_AT_ONCE, options.kills - total["kills"])
            with tempfile.TemporaryDirectory(prefix="takeup-storm-") as folder:
                total += asyncio.run(DATABASES[name](Path(folder), seed, kills))
            print(f"{name}: seed {seed}: {total['kills']} of {options.kills} kills, no violation", flush=True)
            seed += 1
        print(f"{name}: {dict(total)} in {time.monotonic() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
