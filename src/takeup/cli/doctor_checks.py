"""The checks of `takeup doctor`, each with what to do."""

import argparse
import asyncio
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from takeup.cli.doctor_media import check_media
from takeup.cli.finding import Finding
from takeup.cli.opening import NoDatabase, must_exist
from takeup.cli.options import settings_of
from takeup.cli.printing import clean, print_json
from takeup.cli.workers_change import all_workers
from takeup.config import Settings
from takeup.core.errors import SchemaMissing, TakeupError
from takeup.engine.runners import Runners, RunnerSetup
from takeup.store import migrate
from takeup.store.drivers import connect
from takeup.store.store import Store

PYTHON_MIN = (3, 11)
MEGABYTE = 1024 * 1024
SPACE_LOW_MB = 1024
CLOCK_WARN_S, CLOCK_FAIL_S = 1.0, 60.0
RUNNER_START_MAX_S = 30.0
LIBRARIES = {"postgresql": "asyncpg", "postgres": "asyncpg", "duckdb": "duckdb"}
COLOURS = {"ok": "32", "warn": "33", "fail": "31"}


async def doctor(options: argparse.Namespace) -> int:
    """Look at everything; a failed check does not stop the others."""
    settings = settings_of(options)
    findings = []
    async for finding in examine(settings):
        findings.append(finding)
        if not options.json:
            _print(finding)
    is_sick = any(finding.state == "fail" for finding in findings)
    if options.json:
        print_json({"ok": not is_sick, "findings": [finding._asdict() for finding in findings]})
    return 1 if is_sick else 0


async def examine(settings: Settings) -> AsyncIterator[Finding]:
    """Every check in turn."""
    yield check_python()
    for finding in check_folder(settings):
        yield finding
    for finding in check_libraries(settings):
        yield finding
    for finding in check_cookies(settings):
        yield finding
    yield check_setpriv()
    yield await check_runner()
    async for finding in check_media(settings):
        yield finding
    async for finding in check_database(settings):
        yield finding


def check_python() -> Finding:
    """The interpreter."""
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < PYTHON_MIN:
        return Finding("fail", "python", text, "Install Python 3.11 or newer.")
    return Finding("ok", "python", text)


def check_folder(settings: Settings) -> Iterator[Finding]:
    """The data directory: can it be written, and is there space."""
    folder = settings.data_dir.absolute()
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        advice = "Choose another with --data DIR, or give this user the right to write there."
        yield Finding("fail", "data", f"{there} cannot be written: {error.strerror}", advice)
        return
    made = "" if folder.exists() else " will be made when it is needed"
    yield Finding("ok", "data", f"{folder}{made or ' can be written'}")
    free = shutil.disk_usage(there).free // MEGABYTE
    advice = "Make room, or choose another disk with --data DIR."
    if free < settings.disk_reserve_mb:
        text = f"{free} MB are free, fewer than disk_reserve_mb: workers claim nothing"
        yield Finding("fail", "space", text, advice)
    elif free < SPACE_LOW_MB:
        yield Finding("warn", "space", f"only {free} MB are free", advice)
    else:
        yield Finding("ok", "space", f"{free} MB are free")


def check_libraries(settings: Settings) -> Iterator[Finding]:
    """The libraries of the databases."""
    needed = LIBRARIES.get(urlsplit(settings.database).scheme)
    for name, extra in (("asyncpg", "postgres"), ("duckdb", "duckdb")):
        if importlib.util.find_spec(name):
            yield Finding("ok", "driver", f"{name} is installed")
        else:
            advice = f"Install takeup[{extra}] for {extra} databases."
            yield Finding("fail" if needed == name else "warn", "driver", f"{name} is not installed", advice)


def check_cookies(settings: Settings) -> Iterator[Finding]:
    """Whether sessions travel in the open."""
    if settings.insecure_cookies:
        advice = "Put a proxy with TLS before the server, and leave insecure_cookies out."
        yield Finding("warn", "cookies", "who listens on the network can take over a session", advice)


def check_setpriv() -> Finding:
    """What makes a command of a stage end together with its runner."""
    found = shutil.which("setpriv")
    if found:
        return Finding("ok", "setpriv", found)
    return Finding("warn", "setpriv", "setpriv is not installed", "Install the package util-linux.")


async def check_runner() -> Finding:
    """Start a guardian and a runner, as every worker does, and end them."""
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        setup = RunnerSetup((), Path(folder) / "artifacts", Path(folder) / "scratch")
        runners = Runners(
            setup,
            1,
            on_frame=lambda _runner, _frame: None,
            on_end=lambda _runner, how: said.append(f"it {how}"),
            on_line=lambda _runner, text: said.append(text),
        )
        try:
            await runners.start()
            async with asyncio.timeout(RUNNER_START_MAX_S):
                while runners.pipelines is None and runners.broken is None:
                    runners.changed.clear()
                    await runners.changed.wait()
        except (OSError, TimeoutError) as error:
            said.append(str(error) or f"it was not ready within {RUNNER_START_MAX_S:.0f} s")
        finally:
            await runners.close()
    if runners.pipelines is not None:
        return Finding("ok", "runner", "a guardian started a runner and ended it")
    why = said[-1] if said else str((runners.broken or {}).get("error", "it said nothing"))
    return Finding("fail", "runner", f"no runner could start: {why}", "Install Takeup again for this Python.")


async def check_database(settings: Settings) -> AsyncIterator[Finding]:
    """The database: reached, up to date, its clock, its workers."""
    try:
        is_embedded = must_exist(settings)
        driver = await connect(settings.database)
    except NoDatabase as error:
        yield Finding("warn", "database", str(error), "The first `takeup run` or `takeup submit` makes it.")
        return
    except TakeupError as error:
        yield Finding("fail", "database", str(error), error.help)
        return
    store = Store(driver)
    try:
        yield Finding("ok", "database", f"{driver.dialect.name} answers")
        version = await driver.read(migrate.check, driver.dialect)
        yield Finding("ok", "schema", f"version {version}")
        yield await check_clock(store)
        yield await check_workers(store)
    except SchemaMissing as error:
        advice = "The next command that uses it upgrades it." if is_embedded else error.help
        yield Finding("warn" if is_embedded else "fail", "schema", str(error), advice)
    except TakeupError as error:
        yield Finding("fail", "database", str(error), error.help)
    finally:
        await store.close()


async def check_clock(store: Store) -> Finding:
    """How far this machine's clock is from the database's."""
    before = datetime.now(UTC)
    there = await store.read.now()
    after = datetime.now(UTC)
    apart = max((there - after).total_seconds(), (before - there).total_seconds(), 0.0)
    text = f"{apart:.1f} s apart from the database's"
    advice = "Let both machines keep their time by NTP."
    state: Literal["ok", "warn", "fail"] = "ok" if apart <= CLOCK_WARN_S else "warn"
    return Finding("fail" if apart > CLOCK_FAIL_S else state, "clock", text, "" if state == "ok" else advice)


async def check_workers(store: Store) -> Finding:
    """Whether anybody would take work."""
    workers = await all_workers(store.read)
    online = [
        worker
        for worker in workers
        if worker.status == "active" and not worker.disabled and worker.quarantined_at is None
    ]
    slots = sum(worker.slots for worker in online)
    if online:
        return Finding("ok", "workers", f"{len(online)} online with {slots} slots")
    return Finding("warn", "workers", "none is online", "Start one: takeup work, or takeup serve.")


def _print(finding: Finding) -> None:
    word = f"{finding.state:<4}"
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        word = f"\x1b[{COLOURS[finding.state]}m{word}\x1b[0m"
    advice = f". {finding.advice}" if finding.advice else ""
    sys.stdout.write(f"{word}  {finding.part:<8}  {clean(finding.text)}{advice}\n")
    sys.stdout.flush()
