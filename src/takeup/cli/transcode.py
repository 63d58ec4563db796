"""`takeup transcode`: one video to an adaptive stream in a folder; killed and run again, it resumes."""

import argparse
from pathlib import Path

from takeup.cli.options import add_common, add_workers, later, positive


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument("source", metavar="SOURCE", type=Path, help="the video file")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="where the stream is published (default: beside you, NAME-stream)",
    )
    parser.add_argument("--profile", default="web-h264", metavar="NAME|FILE.toml", help="what to make of it")
    parser.add_argument(
        "--rungs", metavar="A,B", help="make only these anew; the others are kept from the published version"
    )
    parser.add_argument("--again", action="store_true", help="make it again, as a new version of the stream")
    parser.add_argument(
        "--early", action="store_true", help="publish the lowest rung and a good one before the others"
    )
    parser.add_argument(
        "--segment",
        metavar="SECONDS",
        type=positive,
        help="how much of it is one piece of work (default: 30, all of it if it is shorter than a minute)",
    )
    parser.add_argument(
        "--check",
        choices=("quick", "full"),
        default="quick",
        help="before it is published; full decodes all of it and compares every picture",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be made")
    parser.add_argument("--json", action="store_true", help="print the plan or the finished job as JSON")
    add_workers(parser)
    add_common(parser)
    parser.set_defaults(run=later("transcode_work", "transcode"))
