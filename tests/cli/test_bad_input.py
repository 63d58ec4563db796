"""Bad input: one line that says what is wrong, no traceback, and an exit code that is not 0."""

from pathlib import Path

import pytest

from tests.cli.conftest import DEMO, Call, Called, Cli

BAD = {
    "unknown command": (["jbos", "list"], "did you mean jobs?"),
    "unknown action": (["jobs", "lits"], "invalid choice: 'lits'"),
    "no action": (["jobs"], "required: ACTION"),
    "unknown option": (["jobs", "list", "--colour"], "unrecognized arguments: --colour"),
    "unknown pipeline": (["submit", "nonsense"], "no installed pipeline is named 'nonsense'"),
    "no such file": (["submit", "gone.py"], "there is no file gone.py"),
    "no such module": (["submit", "no_such_package.flow"], "there is no module no_such_package.flow"),
    "no such name": (["submit", "demo.py:other"], "declares no pipeline 'other'; it declares: demo"),
    "a file that fails": (["submit", "broken.py"], "ZeroDivisionError: division by zero (line 3)"),
    "a file that is no Python": (["submit", "junk.py"], "junk.py cannot be imported: SyntaxError"),
    "a file that leaves": (["submit", "leaves.py"], "ends the process when it is imported"),
    "junk JSON": (["submit", "demo.py", "--spec", "junk.json"], "junk.json is not JSON"),
    "a spec that is a list": (["submit", "demo.py", "--spec", "list.json"], "must be one JSON object"),
    "a deep spec": (["submit", "demo.py", "--spec", "deep.json"], "deep.json is not JSON"),
    "no such spec": (["submit", "demo.py", "--spec", "gone.json"], "gone.json cannot be read"),
    "no priority": (["submit", "demo.py", "--priority", "11"], "priority 11 is not a whole number"),
    "no number": (["submit", "demo.py", "--priority", "high"], "invalid int value: 'high'"),
    "no workers": (["run", "demo.py", "--workers", "0"], "'0' is not a number from 1 on"),
    "less than none": (["work", "--slots", "-1"], "'-1' is not a number from 1 on"),
    "no time": (["submit", "demo.py", "--not-before", "soon"], "'soon' is not a time"),
    "no zone": (["submit", "demo.py", "--not-before", "2030-01-01"], "has no zone"),
    "an empty key": (["submit", "demo.py", "--key", ""], "must not be empty"),
    "no database there": (["jobs", "list", "--data", "nowhere"], "there is no database nowhere/takeup.db"),
    "another database": (["jobs", "list", "--database", "mysql://x/y"], "not 'mysql'"),
    "no URL": (["db", "check", "--database", "nonsense"], "the scheme of a database URL"),
    "no server": (["verify", "--database", "postgresql://u:pw@127.0.0.1:1/x"], "cannot reach PostgreSQL"),
    "no folder": (["submit", "demo.py", "--data", "demo.py/data"], "demo.py/data cannot be written"),
    "a broken setting": (["workers", "list"], "TAKEUP_WORKER_SLOTS must be a whole number, not 'many'"),
    "no database file": (["jobs", "list", "--database", "sqlite:///junk.json"], "junk.json"),
}
REAL = (
    "unknown command",
    "unknown action",
    "unknown pipeline",
    "a file that fails",
    "a file that leaves",
    "junk JSON",
    "another database",
    "no server",
    "no folder",
    "a broken setting",
)
"""Tried in a process of their own; the others within this one, which is quicker."""


@pytest.fixture
def folder(tmp_path: Path, demo: Path) -> Path:
    (tmp_path / "broken.py").write_text("import takeup\n\n1 / 0\n")
    (tmp_path / "junk.py").write_text("def (\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "junk.json").write_text("{'a': 1" * 300)
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "deep.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    assert demo.read_text() == DEMO
    return tmp_path


@pytest.mark.parametrize("name", REAL)
def test_the_real_command_tells_it_in_one_line(name: str, folder: Path, cli: Cli):
    arguments, told = BAD[name]
    env = {"TAKEUP_WORKER_SLOTS": "many"} if name == "a broken setting" else {}
    ran = cli(*arguments, env=env)
    check(folder, Called(ran.returncode, ran.stdout, ran.stderr), told)


@pytest.mark.parametrize("name", [name for name in BAD if name not in REAL])
def test_bad_input_is_told_in_one_line(name: str, folder: Path, call: Call):
    arguments, told = BAD[name]
    check(folder, call(*arguments), told)


def check(folder: Path, ran: Called, told: str) -> None:
    assert ran.code != 0
    assert ran.out == ""
    assert told in ran.err
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    assert "a fault in Takeup" not in ran.err
    assert "pw" not in ran.err
    assert not (folder / "takeup-data").exists()
