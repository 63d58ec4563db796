"""How commands print: tables for people, aligned lines into a pipe, JSON for machines."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from takeup.core.why import length

CELL_CHARS_MAX = 80
STYLES = {
    "completed": "green", "DONE": "green", "ok": "green", "active": "green",
    "failed": "red", "FAILED": "red", "fail": "red", "disabled": "red", "quarantined": "red",
    "cancelled": "yellow", "paused": "yellow", "warn": "yellow", "draining": "yellow", "offline": "dim",
}  # fmt: skip


def print_json(value: Any) -> None:
    """One JSON value on one line."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False) + "\n")


def plain(value: Any) -> Any:
    """The value as JSON knows it."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(plain(item) for item in value)
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def line(text: str) -> None:
    """One line of plain text, whatever the text is."""
    sys.stdout.write(clean(text) + "\n")


def clean(text: str) -> str:
    """Without anything that a terminal would obey instead of showing."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def cell(value: Any) -> str:
    """A value in one line of bounded length."""
    text = " ".join(clean("-" if value is None or value == "" else str(value)).split())
    return text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…"


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """The rows under the names of their columns."""
    cells = [[cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(names, cells)
        return
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    for row in ([name.upper() for name in names], *cells):
        text = "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True))
        sys.stdout.write(text.rstrip() + "\n")


def _rich_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - only on a terminal
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for number, name in enumerate(names):
        is_id = name == "id"  # to be copied, so it stays in one piece
        width = max((len(row[number]) for row in rows), default=0) if is_id else None
        shown.add_column(name, overflow="fold", no_wrap=is_id, min_width=width)
    for row in rows:
        shown.add_row(*(Text(value, style=STYLES.get(value, "")) for value in row))
    Console().print(shown)


def near(path: Path) -> Path:
    """A path as one would type it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def moment(value: datetime | None) -> str:
    """A moment as people read it, in UTC."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%S}"


def age(value: datetime | None, now: datetime) -> str:
    """How long ago that was."""
    return "never" if value is None else f"{length((now - value).total_seconds())} ago"


def took(started: datetime | None, ended: datetime | None) -> str:
    """How long something lasted."""
    return "-" if started is None or ended is None else length((ended - started).total_seconds())


def size(count: int) -> str:
    """Bytes as people read them."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1024:  # noqa: PLR2004 - what a kilo of bytes is
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TB"
