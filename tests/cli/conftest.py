"""The real command in a process of its own, and databases for it to work on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from takeup.cli.main import main
from takeup.store.store import Store
from tests.conftest import GetPostgres

Cli = Callable[..., subprocess.CompletedProcess[str]]
T = TypeVar("T")

DEMO = """
import asyncio
from pathlib import Path
from takeup import Fatal, Pipeline

demo = Pipeline("demo", lease="30s")

@demo.stage()
def split(ctx):
    return {"segments": ctx.spec.get("segments", 3)}

@demo.stage(needs=[split], each="segment", retries=3)
async def work(ctx):
    gate = ctx.spec.get("gate")
    while gate and ctx.segment and not Path(gate).exists():
        await asyncio.sleep(0.05)
    if ctx.spec.get("fails"):
        raise Fatal("no luck today")
    ctx.log.info("made a part")
    ctx.output("part.txt").write_text("part")

@demo.stage(needs=[work])
def join(ctx):
    ctx.step("true")
"""


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TAKEUP_")}
    return {**clean, "COLUMNS": "200", "TAKEUP_PORT": "0", **more}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*arguments: object, text: str | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "takeup.cli.main", *map(str, arguments)],
            cwd=tmp_path,
            env=environment(**options.pop("env", {})),
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    file = tmp_path / "demo.py"
    file.write_text(DEMO)
    return file


@pytest.fixture(params=["sqlite", "postgres15"])
def url(request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres) -> Iterator[str]:
    """A fresh database with its schema, as its URL."""
    if request.param == "sqlite":
        found = f"sqlite:///{tmp_path}/takeup.db"
        asyncio.run(upgrade(found))
        yield found
        return
    server = get_postgres(request.param)
    name = f"cli_{os.urandom(4).hex()}"
    asyncio.run(server.create_database(name, asyncio.run(server.template(upgrade))))
    yield server.dsn(name)
    asyncio.run(server.drop_database(name))


async def upgrade(url: str) -> None:
    await (await Store.open(url, upgrade=True)).close()


def with_store(url: str, use: Callable[[Store], Awaitable[T]]) -> T:
    """Work on the database from within the test."""

    async def opened() -> T:
        store = await Store.open(url)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(opened())


class Called(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Called]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """The same command within this process, where starting one again and again would take too long."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Called:
        capsys.readouterr()
        code = main(list(map(str, arguments)))
        return Called(code, *capsys.readouterr())

    return run
