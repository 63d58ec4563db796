"""Rows for `takeup control sync`: CSV with a header, a JSON list, or a JSON object a line."""

import csv
import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from takeup.core.control import control_job
from takeup.core.errors import InvalidInput
from takeup.core.pipeline import Pipeline
from takeup.core.plan import plan_job

ROWS_MAX = 1_000_000
CHARS_MAX = 1 << 28


class InvalidRows(InvalidInput):
    """The rows cannot be read or are not rows of a control table."""

    help = "Nothing was created. Each row needs url (text) and iteration (a whole number)."


def read_rows(source: str, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Every row, checked, so that nothing is created of a list that has a fault further down."""
    text = _read(source)
    name = "standard input" if source == "-" else source
    is_json = source.endswith((".json", ".jsonl")) or (
        not source.endswith(".csv") and text.lstrip()[:1] in ("[", "{")
    )
    rows = list(_json_rows(text, name) if is_json else _csv_rows(text, name))
    if len(rows) > ROWS_MAX:
        raise InvalidRows(f"{name} has more than {ROWS_MAX} rows; sync it in parts")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InvalidRows(f"row {number} of {name} must be an object, not {type(row).__name__}")
        try:
            plan_job(control_job(pipeline, row))
        except InvalidInput as error:
            raise InvalidRows(f"row {number} of {name}: {error}") from error
    return rows


def _read(source: str) -> str:
    if source == "-" and sys.stdin.isatty():
        raise InvalidRows("there are no rows: name a file with --rows, or pipe them in")
    try:
        with sys.stdin if source == "-" else Path(source).open(encoding="utf-8-sig", newline="") as file:
            text = file.read(CHARS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRows(f"the rows {source} cannot be read: {error}") from error
    if len(text) > CHARS_MAX:
        raise InvalidRows(f"the rows {source} are longer than {CHARS_MAX} characters; sync them in parts")
    return text


def _json_rows(text: str, name: str) -> Iterable[Any]:
    try:
        if text.lstrip().startswith("["):
            rows: list[Any] = json.loads(text)
            return rows
        return [json.loads(part) for part in text.splitlines() if part.strip()]
    except (ValueError, RecursionError) as error:
        raise InvalidRows(f"{name} is neither a JSON list nor a JSON object a line: {error}") from error


def _csv_rows(text: str, name: str) -> Iterable[dict[str, Any]]:
    """A cell is text, but for the iteration; an empty one is left out."""
    try:
        for number, cells in enumerate(csv.DictReader(io.StringIO(text), strict=True), 1):
            if None in cells or None in cells.values():
                raise InvalidRows(f"row {number} of {name} has not as many cells as the header")
            yield {
                column: _number(value) if column == "iteration" else value
                for column, value in cells.items()
                if value != ""
            }
    except csv.Error as error:
        raise InvalidRows(f"{name} is not CSV: {error}") from error


def _number(text: str) -> int | str:
    text = text.strip()
    is_number = text.removeprefix("-").isdecimal() and len(text) < 20  # noqa: PLR2004 - more is refused anyway
    return int(text) if is_number else text
