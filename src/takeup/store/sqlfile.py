"""Loads the named blocks of `store/sql/*.sql` and compiles them for one database.

A block starts with `-- name: NAME`, or `-- name: NAME [postgres, sqlite]` for a variant, and may say on its
own line `-- alone` (it needs no transaction around it) or `-- whole` (it is the whole operation, for which
other databases take several queries; its rows have a column `whole`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

from takeup.store.dialect import Dialect, Statement

HEADER = re.compile(r"-- name: (\w+)(?: \[([\w, ]+)\])?\s*\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """One named piece of SQL, for the listed databases or, if none is listed, for those without a variant."""

    name: str
    dialects: frozenset[str]
    sql: str
    is_alone: bool = False
    is_whole: bool = False


def parse(text: str) -> Iterator[Block]:
    """The blocks of one file, in their order."""
    header: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*text.splitlines(), "-- name: end"]:
        start = HEADER.match(line)
        if start is None:
            lines.append(line)
            continue
        if header is not None:
            yield _block(header, lines)
        header, lines = start, []


def _block(header: re.Match[str], lines: list[str]) -> Block:
    body = "\n".join(line for line in lines if not line.startswith("--")).strip().rstrip(";")
    dialects = frozenset(name.strip() for name in (header[2] or "").split(",") if name.strip())
    return Block(header[1], dialects, body, "-- alone" in lines, "-- whole" in lines)


def select(blocks: list[Block], dialect: Dialect) -> list[Block]:
    """The blocks that this database runs: a variant hides the common block of the same name."""
    varied = {block.name for block in blocks if dialect.name in block.dialects}
    return [
        block
        for block in blocks
        if dialect.name in block.dialects or (not block.dialects and block.name not in varied)
    ]


@cache
def load_blocks() -> tuple[Block, ...]:
    """Every block of every file in `store/sql`."""
    folder = resources.files("takeup.store") / "sql"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(block for file in files for block in parse(file.read_text("utf-8")))


def catalog(dialect: Dialect) -> dict[str, Statement]:
    """Every query by name, compiled for this database."""
    blocks = select(list(load_blocks()), dialect)
    return {
        block.name: dialect.compile(block.name, block.sql, is_alone=block.is_alone, is_whole=block.is_whole)
        for block in blocks
    }
