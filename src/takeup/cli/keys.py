"""`takeup keys`: makes, lists and revokes the keys of programs and workers."""

import argparse
from typing import Any

from takeup.cli.options import add_action, later
from takeup.core.access import ROLES, SCOPES


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = _action(actions, "create", "make a key; it is printed this once")
    create.add_argument("name", metavar="NAME", help="what it is for")
    create.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        metavar="SCOPE",
        help=f"{', '.join(SCOPES)}; may be repeated",
    )
    create.add_argument("--role", choices=ROLES, help="all scopes of such a person (default: viewer)")
    create.add_argument("--worker", metavar="ID", help="a key of this worker, for its calls alone")
    create.add_argument("--days", type=float, metavar="N", help="how long it lives (default: until revoked)")
    listing = _action(actions, "list", "list keys: whose they are and what they open")
    listing.add_argument("--all", action="store_true", help="those that were revoked, too")
    revoke = _action(actions, "revoke", "end keys; they are refused a second later at the latest")
    revoke.add_argument("keys", nargs="+", metavar="ID", help="a key's id")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    return add_action(actions, name, text, later("keys_change", "show_list" if name == "list" else name))
