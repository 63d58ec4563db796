"""`takeup webhooks`: manages the endpoints that are told of jobs and alerts."""

import argparse
from typing import Any

from takeup.cli.options import add_action, later
from takeup.core.webhooks import EVENTS, FORMS

CHANGES = {
    "remove": "forget webhooks and all that was to be sent to them",
    "rotate": "give webhooks new secrets, printed this once; the old ones sign too for a day",
    "enable": "send to webhooks again",
    "disable": "send nothing to webhooks; what is for them waits for a week",
    "test": "send webhooks a message that says nothing but that it works",
}


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _action(actions, "list", "list webhooks: what they want and how they do")
    adding = _action(actions, "add", "add a webhook; the secret that signs its messages is printed this once")
    adding.add_argument("url", metavar="URL", help="an https address")
    adding.add_argument(
        "--event",
        action="append",
        metavar="NAME",
        help=f"{', '.join(EVENTS)}; may be repeated (default: all)",
    )
    adding.add_argument("--form", choices=FORMS, default="standard", help="how messages are written")
    sent = _action(actions, "deliveries", "list what was sent to a webhook, latest first")
    sent.add_argument("webhook", metavar="ID", help="a webhook's id")
    for name, text in CHANGES.items():
        _action(actions, name, text).add_argument("webhooks", nargs="+", metavar="ID", help="a webhook's id")


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    return add_action(actions, name, text, later("webhooks_change", "show_list" if name == "list" else name))
