"""`takeup demo`: a sample video made, streamed, checked; then a kill in the middle, and nothing is lost."""

import argparse
from pathlib import Path

from takeup.cli.options import later, positive


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument(
        "folder", metavar="DIR", type=Path, nargs="?", default=Path("takeup-demo"), help="where it happens"
    )
    parser.add_argument(
        "--seconds", metavar="N", type=positive, default=24, help="how long the sample is (default: 24)"
    )
    parser.add_argument("--size", metavar="WxH", default="1280x720", help="how large (default: 1280x720)")
    parser.set_defaults(run=later("demo_work", "demo"))
