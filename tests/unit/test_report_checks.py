"""What a holder reports is checked before anything is written."""

import math
from typing import Any

import pytest

from takeup.core.errors import InvalidInput
from takeup.core.ids import Token
from takeup.core.model import Artifact, Held
from takeup.core.report import check_after_s, check_artifacts, check_batch, check_percent, result_text

GOOD = Artifact("a", "k/a", "0" * 64, 1)


def test_progress_is_cut_to_its_bounds():
    cases = [
        (None, None),
        (0, 0.0),
        (12.5, 12.5),
        (-3, 0.0),
        (101, 100.0),
        (math.inf, 100.0),
        (-math.inf, 0.0),
    ]
    for given, kept in cases:
        assert check_percent(given) == kept


@pytest.mark.parametrize("percent", [math.nan, "5", True, [1]])
def test_progress_that_is_no_number(percent: Any):
    with pytest.raises(InvalidInput, match="0 to 100"):
        check_percent(percent)


@pytest.mark.parametrize("after_s", [-0.1, math.nan, math.inf, 30 * 86_400 + 1, "5", True])
def test_delays_that_cannot_be_kept(after_s: Any):
    with pytest.raises(InvalidInput):
        check_after_s(after_s)


def test_delays_that_can():
    assert [check_after_s(s) for s in (None, 0, 5, 2.5)] == [None, 0.0, 5.0, 2.5]


@pytest.mark.parametrize(
    "artifact",
    [
        Artifact("", "k", "0" * 64, 1),
        Artifact("a", "", "0" * 64, 1),
        Artifact("a\x00", "k", "0" * 64, 1),
        Artifact("a", "k\n", "0" * 64, 1),
        Artifact("a" * 1025, "k", "0" * 64, 1),
        Artifact("a", "k", "0" * 63, 1),
        Artifact("a", "k", "G" * 64, 1),
        Artifact("a", "k", "0" * 64 + "\n", 1),
        Artifact("a", "k", "0" * 64, -1),
        Artifact("a", "k", "0" * 64, 2**63),
        Artifact("a", "k", "0" * 64, 1.0),  # type: ignore[arg-type]
        Artifact("a", "k", "0" * 64, size_bytes=True),
    ],
)
def test_files_that_no_manifest_may_name(artifact: Artifact):
    with pytest.raises(InvalidInput):
        check_artifacts([GOOD, artifact])


def test_a_file_is_named_once():
    check_artifacts([GOOD, Artifact("b", "k/b", "f" * 64, 0)])
    with pytest.raises(InvalidInput, match="twice"):
        check_artifacts([GOOD, GOOD])
    with pytest.raises(InvalidInput, match="more than 10000"):
        check_artifacts([GOOD] * 10_001)


def test_a_task_stands_once_in_a_batch():
    one, two = Held(1, Token(1, "a")), Held(2, Token(1, "a"))
    check_batch([])
    check_batch([one, two])
    with pytest.raises(InvalidInput, match="only once"):
        check_batch([one, two, Held(1, Token(2, "b"))])


@pytest.mark.parametrize("result", [None, [1], "text", 5])
def test_a_result_is_an_object(result: Any):
    with pytest.raises(InvalidInput, match="JSON object"):
        result_text(result)


def test_a_result_is_stored_as_its_one_text():
    assert result_text({"b": 1, "a": 2}) == '{"a":2,"b":1}'
