"""The schema goes forward only, once, as a whole, however many start at the same time."""

from pathlib import Path

import asyncpg
import pytest

from takeup.core.errors import SchemaMissing, SchemaTooNew, StoreConfig, StoreError
from takeup.core.model import Completion
from takeup.core.plan import NewJob
from takeup.store import migrate
from takeup.store.drivers import connect
from takeup.store.migrate import Migration
from takeup.store.schema import fingerprint, guards
from takeup.store.sqlfile import Block
from takeup.store.store import Store
from tests.services import PostgresServer
from tests.store.crowd import SIZE, Crowd, upgrade
from tests.store.scenes import ONE, add_worker, claim_request, dump, path_in, upgrade_schema

ALL = [f"{migration.version:04}_{migration.name}" for migration in migrate.migrations()]
NEWEST = migrate.newest()
PLANTED = f"{NEWEST + 1:04}_planted"


@pytest.fixture(params=["sqlite", "duckdb", "postgres15", "postgres18"])
async def empty_url(request, tmp_path: Path, get_postgres):
    """A database with nothing in it."""
    if not request.param.startswith("postgres"):
        yield f"{request.param}:///{tmp_path}/takeup.{request.param}"
        return
    server: PostgresServer = get_postgres(request.param)
    name = f"empty_{abs(hash(tmp_path))}"
    await server.create_database(name)
    yield server.dsn(name)
    await server.drop_database(name)


async def applied_by(url: str) -> list[str]:
    return await upgrade(0, url)


async def ask(url: str, sql: str) -> list[tuple]:
    """Rows read or written past the code under test; an embedded file must not be open elsewhere."""
    if url.startswith("postgres"):
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()
    driver = await connect(url)
    try:
        return [tuple(row.values()) for row in await driver.run(_script, sql)]
    finally:
        await driver.close()


def _script(sql: str):
    return (yield migrate.Script(sql))


async def tables_of(url: str) -> list[str]:
    found = {
        "sqlite": "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'",
        "duckdb": "SELECT table_name FROM information_schema.tables",
        "postgresql": "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    }[url.partition(":")[0]]
    return sorted(name for (name,) in await ask(url, found))


def plant(monkeypatch, *sql: str, version: int = NEWEST + 1) -> None:
    """One more migration behind the real ones."""
    blocks = tuple(Block(f"block{i}", frozenset(), text) for i, text in enumerate(sql))
    found = (*migrate.migrations(), Migration(version, "planted", blocks))
    monkeypatch.setattr(migrate, "migrations", lambda: found)


async def test_upgrade_from_nothing_and_again(empty_url):
    assert await applied_by(empty_url) == ALL
    tables = await tables_of(empty_url)
    assert {"jobs", "tasks", "workers", "audit", "outbox", "schema_versions"} <= set(tables)
    assert await applied_by(empty_url) == []
    assert await tables_of(empty_url) == tables
    found = await ask(empty_url, "SELECT version, name FROM schema_versions ORDER BY version")
    assert [f"{version:04}_{name}" for version, name in found] == ALL
    await (await Store.open(empty_url)).close()


async def test_upgrade_keeps_what_is_stored(sqlite_url, monkeypatch):
    store = await Store.open(sqlite_url)
    (job_id,) = await store.operator.submit([NewJob(ONE, {"a": 1})])
    await store.close()
    plant(monkeypatch, "ALTER TABLE jobs ADD COLUMN colour TEXT")
    assert await applied_by(sqlite_url) == [PLANTED]
    store = await Store.open(sqlite_url)
    assert (await store.read.job(job_id)).spec == {"a": 1}
    await store.close()


async def test_a_store_that_is_open_survives_the_upgrade_of_another(url, monkeypatch):
    store = await Store.open(url)
    await add_worker(store)
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    before = await store.read.job(job_id)
    task = (await store.read.tasks(job_id))[0]
    with monkeypatch.context() as patch:
        plant(patch, "ALTER TABLE jobs ADD COLUMN colour TEXT", "ALTER TABLE tasks ADD COLUMN colour TEXT")
        assert await applied_by(url) == [PLANTED]
    assert await store.read.job(job_id) == before
    assert await store.read.task(task.id) == task
    (lease,) = await store.worker.claim(claim_request("w1"))
    (answer,) = await store.worker.complete("w1", [Completion(lease.held)])
    assert answer.accepted
    assert (await store.read.jobs())[0].status == "completed"
    await store.close()


@pytest.mark.parametrize("empty_url", ["sqlite", "postgres15", "postgres18"], indirect=True)
def test_ten_processes_at_once(empty_url, crowd: Crowd):
    answers = crowd.run(upgrade, empty_url)
    assert sorted(answers) == [*[[]] * (SIZE - 1), ALL]


async def test_a_failing_migration_leaves_nothing_of_itself(empty_url, monkeypatch):
    await applied_by(empty_url)
    before = await tables_of(empty_url)
    with monkeypatch.context() as patch:
        plant(patch, "CREATE TABLE half (id BIGINT)", "INSERT INTO jobs (no_such_column) VALUES (1)")
        with pytest.raises(StoreError):
            await applied_by(empty_url)
    assert await tables_of(empty_url) == before
    assert await ask(empty_url, "SELECT MAX(version) FROM schema_versions") == [(NEWEST,)]
    assert await applied_by(empty_url) == []


async def test_a_failing_first_upgrade_leaves_an_empty_database(empty_url, monkeypatch):
    plant(monkeypatch, "CREATE TABLE half (id BIGINT)", "SELECT no_such_function()")
    with pytest.raises(StoreError):
        await applied_by(empty_url)
    assert await tables_of(empty_url) == []


async def test_a_control_table_of_somebody_else_is_named_and_untouched(empty_url):
    await ask(empty_url, "CREATE TABLE pipeline_control (url TEXT, iteration BIGINT)")
    with pytest.raises(StoreConfig, match=r"table pipeline_control of its own.*takeup control import"):
        await applied_by(empty_url)
    assert await tables_of(empty_url) == ["pipeline_control"]


async def test_a_newer_schema_is_refused_and_untouched(url):
    await ask(url, "INSERT INTO schema_versions (version, name) VALUES (99, 'future') RETURNING version")
    await ask(url, "UPDATE schema_guards SET fingerprint = 'of the future' RETURNING fingerprint")
    before, tables = await dump(url), await tables_of(url)
    for upgrades in (False, True):
        with pytest.raises(SchemaTooNew, match=rf"schema 99, this Takeup knows up to {NEWEST}") as caught:
            await Store.open(url, upgrade=upgrades)
        assert "Upgrade this Takeup" in caught.value.help
    assert await dump(url) == before
    assert await tables_of(url) == tables


async def test_a_missing_schema_is_named_and_not_made(empty_url):
    with pytest.raises(SchemaMissing, match="no Takeup schema") as caught:
        await Store.open(empty_url)
    assert "takeup db upgrade" in caught.value.help
    assert await tables_of(empty_url) == []


async def test_an_older_schema_is_named(url, monkeypatch):
    plant(monkeypatch, "CREATE TABLE more (id BIGINT)")
    with pytest.raises(SchemaMissing, match=f"has schema {NEWEST}, this Takeup needs {NEWEST + 1}"):
        await Store.open(url)
    assert "more" not in await tables_of(url)


async def test_guards_are_installed_again_when_they_differ(url):
    dialect = url.partition(":")[0].removesuffix("ql")
    suffix = "" if dialect == "sqlite" else " ON audit"
    await ask(url, f"DROP TRIGGER audit_guard_update{suffix}")
    await upgrade_schema(url)
    assert "audit_guard_update" not in await triggers_of(url), "the fingerprint says nothing changed"
    await ask(url, "UPDATE schema_guards SET fingerprint = 'older' RETURNING fingerprint")
    await upgrade_schema(url)
    assert len(await triggers_of(url)) == sum("CREATE TRIGGER" in guard for guard in guards(dialect))
    assert await ask(url, "SELECT fingerprint FROM schema_guards") == [(fingerprint(dialect),)]


async def triggers_of(url: str) -> list[str]:
    found = (
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        if url.startswith("sqlite")
        else "SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal AND tgparentid = 0"
    )
    return [name for (name,) in await ask(url, found)]


async def test_functions_of_another_version_are_named_and_not_used(postgres_url):
    await ask(postgres_url, "UPDATE schema_guards SET fingerprint = 'older' RETURNING fingerprint")
    with pytest.raises(SchemaMissing, match="those of another Takeup") as caught:
        await Store.open(postgres_url)
    assert "db upgrade" in caught.value.help
    await upgrade_schema(postgres_url)
    await (await Store.open(postgres_url)).close()


def test_migrations_are_numbered_from_one_without_gaps():
    found = migrate.migrations()
    assert [migration.version for migration in found] == list(range(1, len(found) + 1))
    folder = Path(migrate.__file__).parent / "migrations"
    named = sorted(path.name for path in folder.iterdir() if path.suffix == ".sql")
    assert named == [f"{migration.version:04}_{migration.name}.sql" for migration in found]
    assert migrate.newest() == len(found)


async def test_an_interrupted_first_open_leaves_a_usable_file(tmp_path):
    url = f"sqlite:///{tmp_path}/takeup.sqlite"
    driver = await connect(url)
    await driver.close()
    assert path_in(url).exists()
    assert await applied_by(url) == ALL


async def test_workers_from_before_excuses_were_told_apart_start_afresh(empty_url, monkeypatch):
    first = migrate.migrations()[:12]
    with monkeypatch.context() as before:
        before.setattr(migrate, "migrations", lambda: first)
        await applied_by(empty_url)
        moment = "1" if empty_url.startswith("sqlite") else "TIMESTAMPTZ '2026-01-01 00:00:00Z'"
        for name, kind in (("w1", "remote"), ("w2", "local")):
            values = f"'{name}', '', '{kind}', 'active', 1, '[]', '[\"*\"]', 1, {moment}"
            metadata = '{"processes":["one"],"rack":3}'
            await ask(
                empty_url,
                "INSERT INTO workers (id, name, kind, status, slots, capabilities, stages, incarnation, "
                f"registered_at, metadata) VALUES ({values}, '{metadata}')",
            )
        await ask(
            empty_url,
            "INSERT INTO audit (logged_at, noun, event, actor, worker_id, to_status) "
            f"VALUES ({moment}, 'worker', 'register', 'worker', 'w1', 'active')",
        )
    assert await applied_by(empty_url) == ALL[12:]
    store = await Store.open(empty_url)
    told = {worker.id: worker for worker in await store.read.workers()}
    (event,) = await store.read.events()
    await store.close()
    assert told["w1"].metadata == {"rack": 3}
    assert told["w2"].metadata == {"rack": 3, "processes": ["one"]}, "only a worker elsewhere had them there"
    assert told["w1"].trusted_at == event.logged_at, "what only words excused is forgiven"
