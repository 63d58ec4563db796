"""`takeup db`: upgrades the schema, checks the database, archives old jobs."""

import argparse
from typing import Any

from takeup.cli.options import add_common, add_json, later

ACTIONS = {
    "upgrade": "bring the schema up to date; makes the database if it is not there",
    "check": "look for damage: schema, file, guards, rows; a line for each finding, exit 1 if any",
    "archive": "move jobs that finished long ago out of the hot tables",
}


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        added = _action(actions, name, text)
        if name == "archive":
            added.add_argument(
                "--older-than", metavar="AGE", help="such as 12h or 30d (default: the setting)"
            )
            added.add_argument("--limit", type=int, metavar="N", help="so many jobs at most (default: all)")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    add_json(parser)
    add_common(parser)
    parser.set_defaults(run=later("db_work", name))
    return parser
