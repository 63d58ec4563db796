"""Real processes are killed at random moments, on SQLite and on PostgreSQL: nothing lost, nothing twice."""

from pathlib import Path

import pytest

from tests.chaos.faults import PostgresFaults
from tests.chaos.storm import Storm
from tests.services import PostgresServer

KILLS = 120


@pytest.mark.timeout(280)
async def test_a_storm_on_sqlite(tmp_path: Path):
    counts = await Storm(f"sqlite:///{tmp_path}/chaos.db", tmp_path, seed=1, kills=KILLS).run()
    print(dict(counts))
    assert counts["kills"] >= KILLS


@pytest.mark.timeout(280)
async def test_a_storm_on_postgres_which_crashes_too(tmp_path: Path):
    server = PostgresServer("postgres15", fsync=True)
    try:
        await server.create_database("chaos")
        url = server.dsn("chaos")
        faults = PostgresFaults(server, url, seed=2)
        storm = Storm(url, tmp_path, seed=2, kills=KILLS)
        storm.disturbances = (faults.crash_database, faults.hold_a_row)
        counts = await storm.run()
        print(dict(counts))
        assert counts["kills"] >= KILLS
    finally:
        server.close()
