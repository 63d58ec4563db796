"""`takeup workers`: lists and registers workers, drains, disables and enables them, ends their keys."""

import argparse
from typing import Any

from takeup.cli.options import add_action, add_capability, later

CHANGES = {
    "drain": "give workers nothing new; they finish what they hold",
    "disable": "switch workers off; what they hold is taken back when its lease is over",
    "enable": "switch workers on again, and let them out of quarantine",
    "revoke": "end every key of workers elsewhere; they are refused a second later at the latest",
}


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = _action(actions, "list", "list workers with their load")
    listing.add_argument("--all", action="store_true", help="those that are offline, too")
    register = _action(actions, "register", "make a worker elsewhere known; its key is printed this once")
    register.add_argument("name", metavar="NAME", help="what people call it")
    add_capability(register)
    for name, text in CHANGES.items():
        change = _action(actions, name, text)
        change.add_argument("workers", nargs="+", metavar="ID", help="a worker's id, or its name")
        if name in ("disable", "enable"):
            change.add_argument("--reason", metavar="TEXT", help="kept in the audit log")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    return add_action(actions, name, text, later("workers_change", "show_list" if name == "list" else name))
