"""`takeup watch`: a stream in the browser, served from this machine."""

import argparse
from pathlib import Path

from takeup.cli.options import later

PORT_MAX = 65_535


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="a package, or a folder of packages")
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="default: a free one")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: this machine only)"
    )
    parser.add_argument("--open", action="store_true", help="show it in your browser")
    parser.set_defaults(run=later("watch_work", "watch"))


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to {PORT_MAX}")
    return int(text)
