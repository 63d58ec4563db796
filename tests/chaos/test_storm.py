"""Real processes are killed at random moments, on SQLite and on PostgreSQL: nothing lost, nothing twice."""

from pathlib import Path

import pytest

from tests.chaos.faults import PostgresFaults, SmallScratch
from tests.chaos.storm import Storm
from tests.services import PostgresServer

KILLS = 110


@pytest.mark.timeout(280)
async def test_a_storm_on_sqlite_with_a_full_disk(tmp_path: Path):
    with SmallScratch(tmp_path / "data") as scratch:
        storm = Storm(f"sqlite:///{tmp_path}/chaos.db", tmp_path, seed=1, kills=KILLS)
        storm.disturbances = (scratch.fill_scratch,)
        counts = await storm.run()
    print(dict(counts))
    assert counts["kills"] >= KILLS


@pytest.mark.timeout(280)
async def test_a_storm_on_postgres_with_crashes_locks_and_wrong_clocks(tmp_path: Path):
    server = PostgresServer("postgres15", fsync=True)
    try:
        await server.create_database("chaos")
        url = server.dsn("chaos")
        faults = PostgresFaults(server, url, seed=2)
        storm = Storm(url, tmp_path, seed=2, kills=KILLS, workers=2, clocks_h=(+1, -1))
        storm.disturbances = (faults.crash_database, faults.hold_a_row)
        counts = await storm.run()
        print(dict(counts))
        assert counts["kills"] >= KILLS
    finally:
        server.close()
