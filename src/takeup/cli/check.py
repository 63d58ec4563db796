"""`takeup check`: judges an HLS or DASH package, in a folder or on a server."""

import argparse
from pathlib import Path

from takeup.cli.options import add_json, later


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument("package", metavar="DIR|URL", help="a folder, a playlist or manifest, or an address")
    parser.add_argument(
        "--source", metavar="FILE", type=Path, help="what it was made of: every picture is compared with it"
    )
    parser.add_argument("--thorough", action="store_true", help="compare every rung, not the smallest alone")
    parser.add_argument(
        "--vmaf",
        action="store_true",
        help="measure how good every rung is, in places from all over it; needs --source",
    )
    parser.add_argument(
        "--no-decode", dest="decodes", action="store_false", help="only look at lists and boxes: quick"
    )
    add_json(parser)
    parser.set_defaults(run=later("check_work", "check"))
