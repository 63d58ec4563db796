"""The document of the API is true: schemathesis calls all of it, as every kind of caller, and finds nothing.

Every answer has a status, a content type and a body that the document promises, none is a fault, and what
needs a scope is refused without it. Links are followed: what was made is looked at, changed, ended.
"""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from takeup.api import desk, gate
from takeup.api.build import routes
from takeup.app import App
from takeup.core.access import ROLES, Scope
from takeup.core.keys import parse_key
from tests.api.conftest import key_of
from tests.api.contract_scene import SETTINGS, configured, key_of_worker, set_the_scene
from tests.api.visitors import cheapen
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import upgrade_schema

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "schemathesis"
LINE_CHARS = 300
MANY = ("--max-examples", "50")
Answers = dict[str, set[int]]


class Caller(NamedTuple):
    """Who calls, how many calls let him in at least, and what is tried in the short run."""

    scopes: frozenset[Scope]
    let_in: int
    short: tuple[str, ...]


FEW = ("--max-examples", "3")
CALLERS = {
    "admin": Caller(ROLES["admin"], 45, (*FEW, "--exclude-tag", "worker")),
    "worker": Caller(frozenset({"worker"}), 7, (*FEW, "--include-tag", "worker")),
    "viewer": Caller(ROLES["viewer"], 18, (*FEW, "--phases", "fuzzing,stateful")),
    "stranger": Caller(frozenset(), 4, (*FEW, "--phases", "fuzzing,stateful")),
}


@pytest.fixture
async def url(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[str]:
    if getattr(request, "param", "sqlite") == "sqlite":
        yield f"sqlite:///{tmp_path}/takeup.db"
        return
    async with database_from_template(get_postgres(request.param), upgrade_schema) as found:
        yield found


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return SETTINGS


@pytest.fixture(autouse=True)
def nobody_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who guesses is slowed down, which would hide all other answers."""
    cheapen(monkeypatch)
    monkeypatch.setattr(gate, "FAILURES_MAX", 1_000_000)
    monkeypatch.setattr(desk, "TRIES_MAX", 1_000_000)


async def call_everything(address: str, key: str, config: Path, *options: str) -> Answers:
    """How each call was answered; schemathesis must have found nothing."""
    known, answers = parse_key(key), config.with_name("answers")
    more = {"CONTRACT_OWN_KEY": known.id if known else "", "CONTRACT_ANSWERS": str(answers), "NO_COLOR": "1"}
    auth = ("--header", f"Authorization: Bearer {key}") if key else ()
    running = await asyncio.create_subprocess_exec(
        *(COMMAND, "--config-file", config, "run", f"{address}/openapi.json", *auth, *options),
        cwd=ROOT,
        env={**os.environ, **more, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await running.communicate()
    told = "\n".join(line[:LINE_CHARS] for line in out.decode().splitlines())
    found: Answers = defaultdict(set)
    for line in answers.read_text().splitlines():
        call, _, status = line.partition("\t")
        found[call].add(int(status))
    assert running.returncode == 0, told
    return found


def scopes_of(call: Mapping[str, Any]) -> set[str] | None:
    """What a caller needs for a call; None if anybody may make it."""
    security = call.get("security")
    return {scope for one in security for scopes in one.values() for scope in scopes} if security else None


async def key_for(app: App, caller: str) -> str:
    """A worker there is in any case."""
    of_worker = await key_of_worker(app)
    if caller == "stranger":
        return ""
    return of_worker if caller == "worker" else await key_of(app, caller)


async def check_as(name: str, app: App, address: str, folder: Path, *options: str) -> None:
    """Call everything as such a caller; nobody is let in where the document names a scope that he has not."""
    key, caller = await key_for(app, name), CALLERS[name]
    shown = parse_key(key)
    values = await set_the_scene(app, folder, f"key:{shown.id}" if shown else "")
    config = folder / "contract.toml"
    config.write_text(configured((ROOT / "tests/api/contract.toml").read_text(), values))
    answers = await call_everything(address, key, config, *options)
    let_in = {call for call, statuses in answers.items() if any(status < 400 for status in statuses)}
    for path, calls in routes().openapi()["paths"].items():
        for method, call in calls.items():
            needed, label = scopes_of(call), f"{method.upper()} {path}"
            may = needed is None or (bool(key) and needed <= caller.scopes)
            assert may or label not in let_in, f"{label} lets a {name} in"
    assert len(let_in) >= caller.let_in, let_in


@pytest.mark.parametrize("caller", CALLERS)
async def test_s35_the_document_is_true(app: App, address: str, tmp_path: Path, caller: str):
    await check_as(caller, app, address, tmp_path, *CALLERS[caller].short)


@pytest.mark.long
@pytest.mark.parametrize("url", ["sqlite", "postgres15"], indirect=True)
@pytest.mark.parametrize("caller", CALLERS)
async def test_s35_the_document_is_true_at_length(app: App, address: str, tmp_path: Path, caller: str):
    await check_as(caller, app, address, tmp_path, *MANY)
