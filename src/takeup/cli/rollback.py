"""`takeup rollback`: serve an earlier version of a published stream again."""

import argparse
from pathlib import Path

from takeup.artifacts.versions import Versions
from takeup.cli.options import positive
from takeup.cli.printing import line


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="where the stream was published")
    parser.add_argument(
        "--to", metavar="N", type=positive, help="the version to serve (default: that before the current)"
    )
    parser.set_defaults(run=rollback)


def rollback(options: argparse.Namespace) -> int:
    """Swap the pointer back; whoever plays goes on with the version he began with."""
    versions = Versions(options.folder)
    before = versions.current()
    now = versions.roll_back(options.to)
    there = ", ".join(str(number) for number in versions.numbers())
    was = f" instead of {before}" if before not in (None, now) else ""
    line(f"version {now} is served{was}; there are: {there}")
    return 0
