"""The command that runs schedules in bulk, and the one that replays a failing one."""

import re

import pytest

from takeup.testing import chaos


def test_a_clean_run_says_what_it_did(capsys: pytest.CaptureFixture[str]):
    assert chaos.main(["--schedules", "30", "--repeat", "5", "--processes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "30 schedules" in printed
    assert "violations: 0 schedules, unequal histories: 0" in printed
    assert "crash_point" in printed


def test_a_broken_run_fails_and_prints_a_command_that_replays(capsys: pytest.CaptureFixture[str]):
    assert chaos.main(["--schedules", "20", "--processes", "1", "--repeat", "0", "--mutant", "D7"]) == 1
    printed = capsys.readouterr().out
    replay = re.search(r"python -m takeup.testing.chaos (--replay \d+ --mutant D7 --verbose)", printed)
    assert replay is not None
    assert chaos.main(replay[1].split()) == 1
    again = capsys.readouterr().out
    assert "I11 task" in again
    assert " task 1 claim by worker" in again


def test_a_seed_that_passes_replays_without_a_finding(capsys: pytest.CaptureFixture[str]):
    assert chaos.main(["--replay", "3"]) == 0
    assert "seed 3: 0 violations" in capsys.readouterr().out
