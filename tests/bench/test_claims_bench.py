"""The benchmark's own code, with tiny counts: it measures every case and its report has every number."""

from bench.claims.cases import STATES, TINY, groups
from bench.claims.measuring import measure
from bench.claims.report import markdown, summarize, write

QUICK_SYSTEMS = ("takeup-postgres", "raw-postgres", "takeup-sqlite")


async def test_every_case_is_measured_and_reported(get_postgres, tmp_path):
    said: list[str] = []
    server = get_postgres("postgres15")
    rates = await measure(server, tmp_path, TINY, systems=QUICK_SYSTEMS, say=said.append)
    cases = [case for cases in groups(TINY, QUICK_SYSTEMS, STATES) for case in cases]
    assert set(rates) == {case.key for case in cases}
    assert all([len(row) for row in rows] == [TINY.turns] for rows in rates.values())
    summary = summarize(TINY, rates)
    page = markdown(TINY, {"command": "make bench"}, summary)
    for name in ("ours / raw SQL, empty table", "takeup-sqlite: full of waiting tasks / empty table"):
        assert name in page
    write(tmp_path, TINY, {"command": "make bench"}, summary, rates)
    assert (tmp_path / "claims.md").read_text() == page
    assert "raw-postgres/empty/20/2" in (tmp_path / "claims.json").read_text()


async def test_duckdb_is_measured_in_one_process(get_postgres, tmp_path):
    rates = await measure(
        get_postgres("postgres15"), tmp_path, TINY, systems=["takeup-duckdb"], states=["finished"]
    )
    assert set(rates) == {"takeup-duckdb/finished/1/1", "takeup-duckdb/finished/10/1"}
