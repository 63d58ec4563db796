"""`takeup db`, `takeup workers` and `takeup doctor`."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from takeup.core.model import Completion, WorkerSpec
from takeup.core.plan import NewJob
from takeup.store.migrate import migrations
from takeup.store.store import Store
from tests.cli.conftest import Call, Cli, with_store
from tests.conftest import GetPostgres
from tests.store.scenes import ONE, claim_request, quarantine

NAMES = [f"{one.version:04}_{one.name}" for one in migrations()]
NEWEST = migrations()[-1].version


def test_upgrade_says_what_it_applied(cli: Cli, call: Call, get_postgres: GetPostgres):
    first = cli("db", "upgrade")
    assert first.stdout.splitlines() == [*(f"applied {n}" for n in NAMES), f"schema {NEWEST} is up to date"]
    assert call("db", "upgrade", "--json").json == {"schema": NEWEST, "applied": []}
    server = get_postgres("postgres15")
    asyncio.run(server.create_database("cli_upgrade"))
    url = server.dsn("cli_upgrade")
    for command in (["jobs", "list"], ["db", "check"], ["verify"]):
        ran = call(*command, "--database", url)
        assert (ran.code, "Run `takeup db upgrade`." in ran.err) == (1, True)
    assert call("db", "upgrade", "--json", "--database", url).json["applied"] == NAMES
    assert call("db", "check", "--database", url).out == f"schema {NEWEST}, 0 findings\n"


def test_check_finds_damage(call: Call, tmp_path: Path):
    call("db", "upgrade")
    with_store(f"sqlite:///{tmp_path}/takeup-data/takeup.db", lambda s: s.operator.submit([NewJob(ONE)]))
    assert call("db", "check").out == f"schema {NEWEST}, 0 findings\n"
    with closing(sqlite3.connect(tmp_path / "takeup-data/takeup.db")) as connection:
        connection.execute("DROP TRIGGER tasks_guard_update")
        connection.execute("UPDATE tasks SET lane_id = 99")
        connection.commit()
    found = call("db", "check")
    assert found.code == 1
    assert found.out.splitlines() == [
        "the guard tasks_guard_update is missing or switched off",
        "1 live tasks in a lane that does not exist",
        f"schema {NEWEST}, 2 findings",
    ]


async def finish(store: Store) -> None:
    await store.worker.register(WorkerSpec("w1", slots=3, metadata={"host": "here"}))
    await store.operator.submit([NewJob(ONE) for _ in range(3)])
    leases = await store.worker.claim(claim_request("w1", 3))
    await store.worker.complete("w1", [Completion(lease.held) for lease in leases])


def test_archive_takes_what_is_old_enough(url: str, call: Call):
    with_store(url, finish)
    assert call("db", "archive", "--database", url).out == "0 jobs archived\n"
    at = ("--older-than", "0s", "--database", url)
    assert call("db", "archive", "--limit", 1, *at).out == "1 jobs archived\n"
    assert len(call("db", "archive", "--json", *at).json["archived"]) == 2
    assert call("verify", "--archive", "--database", url).code == 0
    for bad in (
        "--older-than=soon",
        "--older-than=-1d",
        "--older-than=nan",
        "--older-than=1e99d",
        "--limit=0",
    ):
        ran = call("db", "archive", bad, "--database", url)
        assert (ran.code, ran.err.count("\n")) == (1, 1)


def test_workers_are_listed_and_changed(url: str, call: Call):
    with_store(url, finish)
    at = ("--database", url)
    header, row = call("workers", "list", *at).out.splitlines()
    assert header.split()[:5] == ["ID", "STATUS", "NAME", "HOST", "LOAD"]
    assert [word for word in row.split() if word != "-"][:4] == ["w1", "active", "here", "0/3"]
    assert call("workers", "drain", "w1", *at).out == "w1 drains\n"
    assert call("workers", "drain", "w1", *at).out == "w1 drains already\n"
    assert call("workers", "disable", "w1", "--reason", "hot", *at).out == "w1 is disabled\n"
    assert call("workers", "list", "--json", *at).json[0]["shown_status"] == "disabled"
    assert call("workers", "disable", "w1", *at).out == "w1 was disabled already\n"
    assert call("workers", "enable", "w1", "--json", *at).json == {"changed": ["w1"], "unchanged": []}
    with_store(url, lambda store: store.worker.leave(["w1"]))
    assert call("workers", "list", "--json", *at).json == []
    assert len(call("workers", "list", "--all", "--json", *at).json) == 1
    assert "worker w1 is offline and cannot be drained" in call("workers", "drain", "w1", *at).err
    for verb in ("drain", "disable", "enable"):
        assert "no worker has the id or the name 'w2'" in call("workers", verb, "w1", "w2", *at).err
    assert call("verify", *at).code == 0


def test_a_worker_may_be_called_by_its_name(url: str, call: Call):
    async def twins(store: Store) -> None:
        for spec in (WorkerSpec("1", "attic"), WorkerSpec("2", "cellar"), WorkerSpec("3", "cellar")):
            await store.worker.register(spec)

    with_store(url, twins)
    at = ("--database", url)
    assert " attic " in call("workers", "list", *at).out
    assert call("workers", "disable", "attic", *at).out == "1 is disabled\n"
    assert call("workers", "enable", "1", "--json", *at).json == {"changed": ["1"], "unchanged": []}
    refused = call("workers", "drain", "cellar", *at)
    assert (refused.code, "2 workers have the name 'cellar'" in refused.err, "2, 3" in refused.err) == (
        1,
        True,
        True,
    )


def test_a_quarantined_worker_is_shown_with_the_reason_and_let_back(url: str, call: Call):
    with_store(url, quarantine)
    at = ("--database", url)
    _, broken, well, why, what_to_do = call("workers", "list", *at).out.splitlines()
    assert (broken.split()[:2], well.split()[:2]) == (["broken", "quarantined"], ["well", "active"])
    assert why.startswith("broken is quarantined since ")
    assert "it failed 1 tasks within 60 s that other workers finished" in why
    assert what_to_do.endswith("takeup workers enable broken")
    listed = call("workers", "list", "--json", *at).json[0]
    assert (listed["shown_status"], listed["disabled"]) == ("quarantined", False)
    assert call("workers", "enable", "broken", *at).out == "broken is enabled\n"
    assert call("workers", "enable", "broken", *at).out == "broken was enabled already\n"
    assert call("workers", "list", "--json", *at).json[0]["shown_status"] == "active"
    assert call("verify", *at).code == 0


def test_the_doctor_finds_nothing_wrong(url: str, call: Call):
    with_store(url, finish)
    told = call("doctor", "--database", url)
    assert told.code == 0, told.out
    states = {line.split()[1]: line.split()[0] for line in told.out.splitlines()}
    assert states.pop("sandbox") in ("ok", "warn"), "that is up to the kernel"
    machine = "python data space driver setpriv runner ffmpeg encoders filters vmaf sparse"
    assert states == dict.fromkeys([*machine.split(), "database", "schema", "clock", "workers"], "ok")


@pytest.mark.parametrize(
    ("path", "says"), [("no-such-tool", "is not a program"), ("false", "does not say its version")]
)
def test_the_doctor_tells_of_tools_that_are_missing_or_none(call: Call, monkeypatch, path: str, says: str):
    monkeypatch.setenv("TAKEUP_FFMPEG_PATH", path)
    monkeypatch.setenv("TAKEUP_FFPROBE_PATH", "false")
    (finding,) = [f for f in call("doctor", "--json").json["findings"] if f["part"] == "ffmpeg"]
    assert (finding["state"], says in finding["text"]) == ("warn", True)
    assert "takeup[ffmpeg]" in finding["advice"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--database", "postgresql://127.0.0.1:1/x"], "database"),
        (["--database", "mysql://x"], "database"),
        (["--data", "file/data"], "data"),
    ],
)
def test_the_doctor_says_what_is_wrong(arguments: list[str], part: str, call: Call, tmp_path: Path):
    (tmp_path / "file").touch()
    told = call("doctor", "--json", *arguments)
    assert (told.code, told.json["ok"]) == (1, False)
    wrong = [finding for finding in told.json["findings"] if finding["state"] == "fail"]
    assert wrong[0]["part"] == part
    assert wrong[0]["advice"]
