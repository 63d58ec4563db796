"""This tree keeps the rules, its imports point down, and what is generated is fresh."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import rules

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("rule", rules.RULES)
def test_the_tree_keeps_the_rule(rule):
    assert rule(ROOT) == []


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([BIN / "lint-imports"], id="imports"),
        pytest.param([sys.executable, "scripts/gen.py", "--check"], id="generated"),
    ],
)
def test_the_check_passes(command: list[str | Path]):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
