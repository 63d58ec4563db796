"""`takeup people`: adds and lists the people who log in, and changes what they may do."""

import argparse
from typing import Any

from takeup.cli.options import add_action, later
from takeup.core.access import ROLES


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    adding = _action(actions, "add", "let somebody log in; his password is asked for, or read from a pipe")
    adding.add_argument("name", metavar="NAME", help="by which he logs in")
    adding.add_argument("--role", choices=ROLES, default="viewer", help="what he may do (default: viewer)")
    _action(actions, "list", "list people: who they are and what they may do")
    password = _action(actions, "password", "set a password, which ends every session of this person")
    password.add_argument("name", metavar="NAME", help="whose")
    role = _action(actions, "role", "change what somebody may do")
    role.add_argument("name", metavar="NAME", help="who")
    role.add_argument("role", choices=ROLES, help="what he may do from now on")
    for name, text in (
        ("disable", "let people in no more, until they are enabled; their sessions end"),
        ("enable", "let people in again"),
        ("remove", "let people in no more, for good; their names are free again"),
    ):
        _action(actions, name, text).add_argument("names", nargs="+", metavar="NAME", help="who")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    return add_action(actions, name, text, later("people_change", "show_list" if name == "list" else name))
