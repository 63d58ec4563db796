"""Every attack that we know of has a test that makes it, or a reason why there is none."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "attacks.md"
ROWS = [*range(1, 72), 103, *range(105, 126)]
ROW = re.compile(r"\| S(\d+) \| ([^|]+) \| ([^|]+) \| ([^|]*)\|")


def test_every_row_names_its_tests_or_a_reason():
    """The column is written from the tests; a stale one fails in tests/tidy."""
    rows = [ROW.fullmatch(line) for line in PAGE.read_text().splitlines() if line.startswith("| S")]
    assert all(rows)
    assert [int(row[1]) for row in rows if row] == ROWS
    silent = [row[1] for row in rows if row and not re.match(r"`\w+/test_\w+\.py::test_|– \w+", row[4])]
    assert silent == []
