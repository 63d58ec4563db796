"""Help costs little: it loads neither the engine nor the libraries that only some commands need."""

import subprocess
import sys

import pytest

from tests.cli.conftest import Cli, environment

HEAVY = ("rich", "asyncpg", "duckdb", "takeup.engine", "takeup.store.store", "takeup.app")
MINE = ("submit", "jobs", "workers", "people", "control", "db", "verify", "doctor", "watch")
LOADED = """
import sys
from takeup.cli.main import main
try:
    code = main(sys.argv[1:])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def loaded(*arguments: str) -> tuple[str, list[str]]:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout, ran.stderr.split()


def heavy(modules: list[str]) -> list[str]:
    return [m for m in modules if any(m == name or m.startswith(f"{name}.") for name in HEAVY)]


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in MINE)], ids=" ".join)
def test_help_loads_no_command(arguments: list[str]):
    text, modules = loaded(*arguments)
    assert text.startswith("usage: takeup")
    assert heavy(modules) == []
    assert len(modules) < 250


def test_every_action_has_help():
    for arguments in (
        ["jobs", "why"],
        ["control", "claim"],
        ["jobs", "retry"],
        ["workers", "drain"],
        ["db", "archive"],
    ):
        text, modules = loaded(*arguments, "--help")
        assert text.startswith(f"usage: takeup {' '.join(arguments)}")
        assert heavy(modules) == []


def test_the_overview_lists_every_command_and_the_version_is_told(cli: Cli):
    told = cli("--help").stdout
    assert all(f"\n  {name} " in told for name in MINE)
    assert cli("--version").stdout.startswith("takeup 0.")
    assert cli().returncode == 2
