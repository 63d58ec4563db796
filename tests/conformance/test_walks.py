"""Random walks on every database, compared with the oracle after each step."""

import random
import time

import pytest

from takeup.testing.conformance import World, check_fold
from takeup.testing.conformance.walk import walk
from takeup.testing.oracle import OracleStore
from tests.conformance.conftest import DATABASES, OpenWorld, empty

WALKS_MAX = {"duckdb": 25}
SECONDS_MAX = 8.0


@pytest.mark.parametrize("store", DATABASES)
async def test_walks_end_as_the_oracle_says(store: str, open_world: OpenWorld, record_property):
    started = time.monotonic()
    count = 0
    async with open_world(store) as world:
        while count < WALKS_MAX.get(store, 1000) and time.monotonic() - started < SECONDS_MAX:
            await empty(world)
            fresh = World(world.store, world.clock, seed=count)
            oracle_store = OracleStore(world.clock, random=random.Random(count).randbytes, luck=lambda: 0.5)
            oracle = World(oracle_store, world.clock)
            oracle.keeps_time = False
            await walk(fresh, oracle, seed=count)
            await check_fold(fresh)
            await check_fold(oracle)
            count += 1
    record_property("walks", count)
    assert count >= 3
