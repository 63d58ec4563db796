"""`takeup verify`: passes on what really ran, killed and cancelled jobs included; finds what was forged."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from takeup.store.store import Store
from tests.cli.conftest import DEMO, Call, environment, with_store
from tests.cli.test_jobs import all_states

GUARDS = "SELECT name FROM sqlite_master WHERE type = 'trigger'"

LAST = "(SELECT MAX(seq) FROM audit WHERE noun = 'task' AND event = '{}')"
COPY = (
    "INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, job_id, task_id, worker_id, "
    "generation, epoch, nonce_hash, attempt, request_id) SELECT logged_at, noun, event, actor, from_status, "
    "to_status, job_id, task_id, worker_id, generation, epoch, nonce_hash, attempt, request_id FROM audit "
)
FORGED = {
    "a claim is gone": f"DELETE FROM audit WHERE seq = {LAST.format('claim')}",
    "a completion is gone": f"DELETE FROM audit WHERE seq = {LAST.format('complete')}",
    "a birth is gone": f"DELETE FROM audit WHERE seq = {LAST.format('create')}",
    "the log of a job is gone": "DELETE FROM audit WHERE job_id = (SELECT MIN(id) FROM jobs)",
    "another ending": f"UPDATE audit SET to_status = 'FAILED' WHERE seq = {LAST.format('complete')}",
    "another actor": f"UPDATE audit SET actor = 'operator' WHERE seq = {LAST.format('claim')}",
    "another reason": f"UPDATE audit SET reason = 'it was you' WHERE seq = {LAST.format('give_up')}",
    "another owner": f"UPDATE audit SET worker_id = 'thief' WHERE seq = {LAST.format('complete')}",
    "a second completion": f"{COPY} WHERE seq = {LAST.format('complete')}",
    "a row about nothing": "INSERT INTO audit (logged_at, noun, event, actor) SELECT logged_at, 'task', "
    "'claim', 'worker' FROM audit WHERE seq = 1",
    "a row about anything": "INSERT INTO audit (logged_at, noun, event, actor) SELECT logged_at, 'moon', "
    "'rise', 'worker' FROM audit WHERE seq = 1",
    "another status": "UPDATE tasks SET status = 'SKIPPED' WHERE id = (SELECT MIN(id) FROM tasks)",
    "a message is gone": "DELETE FROM outbox WHERE id = (SELECT MAX(id) FROM outbox)",
}
WORKER = "DELETE FROM audit WHERE seq = (SELECT {}(seq) FROM audit WHERE noun = 'worker')"
ONLY_SQLITE = {"a goodbye is gone": WORKER.format("MAX"), "a registration is gone": WORKER.format("MIN")}
"""What folds well without the row, but its number is missing."""


def takeup(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "takeup.cli.main", *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stderr is not None
    while word not in (line := process.stderr.readline()):
        assert line, f"it ended without {word!r}"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which jobs completed, failed, were killed and taken up again, and cancelled."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "demo.py").write_text(DEMO)
    gates = folder / "open", folder / "shut"
    specs = {"slow": {"gate": str(gates[0])}, "bad": {"fails": True}, "long": {"gate": str(gates[1])}}
    for name, spec in specs.items():
        (folder / f"{name}.json").write_text(json.dumps(spec))
    slow = ("run", "demo.py", "--spec", "slow.json", "--workers", 1)
    killed = takeup(folder, *slow)
    wait_for(killed, "work 1/3")
    killed.kill()
    killed.communicate()
    gates[0].touch()
    again = takeup(folder, *slow)
    again.communicate()
    bad = takeup(folder, "run", "demo.py", "--spec", "bad.json")
    bad.communicate()
    long = takeup(folder, "run", "demo.py", "--spec", "long.json")
    wait_for(long, "work 1/3")
    (job,) = with_store(f"sqlite:///{folder}/takeup-data/takeup.db", newest)
    cancelled = takeup(folder, "jobs", "cancel", job)
    assert cancelled.communicate()[1] == ""
    long.communicate()
    assert (again.returncode, bad.returncode, cancelled.returncode, long.returncode) == (0, 1, 0, 1)
    return folder / "takeup-data"


async def newest(store: Store) -> list[str]:
    return [job.id for job in await store.read.jobs(limit=1)]


@pytest.fixture
def data(ran: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ran, tmp_path / "data"))


def tamper(data: Path, sql: str) -> None:
    with closing(sqlite3.connect(data / "takeup.db")) as connection:
        for (guard,) in connection.execute(GUARDS).fetchall():
            connection.execute(f"DROP TRIGGER {guard}")
        assert connection.execute(sql).rowcount > 0
        connection.commit()


def test_what_really_ran_has_no_violations(data: Path, call: Call):
    told = call("verify", "--artifacts", "--data", data)
    assert (told.code, told.err) == (0, "")
    assert told.out.endswith(" events, 3 jobs, 4 files, 0 violations\n")
    assert call("db", "archive", "--older-than", "0s", "--data", data).out == "3 jobs archived\n"
    assert call("verify", "--artifacts", "--data", data).out.endswith(" 0 jobs, 0 files, 0 violations\n")
    told = call("verify", "--archive", "--json", "--data", data)
    assert (told.json["archived"], told.json["violations"], told.code) == (3, [], 0)
    tamper(
        data,
        "DELETE FROM audit_archive WHERE seq = (SELECT MAX(seq) FROM audit_archive WHERE event = 'claim')",
    )
    assert call("verify", "--archive", "--data", data).code == 1


@pytest.mark.parametrize("name", [*FORGED, *ONLY_SQLITE])
def test_what_was_forged_is_found(name: str, data: Path, call: Call):
    tamper(data, {**FORGED, **ONLY_SQLITE}[name])
    told = call("verify", "--data", data)
    assert told.code == 1
    assert told.err == ""
    *found, summary = told.out.splitlines()
    if name in FORGED:  # also where numbers may be missing
        found_by_fold = [line for line in found if not line.endswith(("rows are missing", "slipped in"))]
        assert found_by_fold
    assert found
    assert summary.endswith(f"{len(found)} violations")


def test_files_are_compared_with_their_rows(data: Path, call: Call):
    first, second, third, _ = sorted((data / "artifacts").glob("*/*/*/*/*/part.txt"))
    first.unlink()
    second.write_text("past")
    third.write_text("longer")
    assert call("verify", "--data", data).code == 0
    told = call("verify", "--artifacts", "--data", data)
    assert told.code == 1
    assert [line.rpartition("part.txt ")[2] for line in told.out.splitlines()[:3]] == [
        "is missing",
        "has another content",
        "has 6 bytes, not 4",
    ]


@pytest.mark.parametrize("url", ["postgres15"], indirect=True)
def test_postgres_is_verified_within_one_snapshot(url: str, call: Call):
    with_store(url, all_states)
    assert call("verify", "--database", url).out.endswith(" 6 jobs, 0 violations\n")
    for sql in (FORGED["a second completion"], FORGED["another reason"], FORGED["a claim is gone"]):
        before = len(call("verify", "--json", "--database", url).json["violations"])
        asyncio.run(tamper_postgres(url, sql))
        assert len(call("verify", "--json", "--database", url).json["violations"]) > before


async def tamper_postgres(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("ALTER TABLE audit DISABLE TRIGGER USER")
    assert not (await connection.execute(sql)).endswith(" 0")
    await connection.close()
