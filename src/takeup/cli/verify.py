"""`takeup verify`: holds the audit log and the tables of a database in use to every invariant."""

import argparse

from takeup.cli.options import add_common, add_json, later


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument("--artifacts", action="store_true", help="also read every output file and its hash")
    parser.add_argument("--archive", action="store_true", help="also check the jobs in the archive")
    add_json(parser)
    add_common(parser)
    parser.set_defaults(run=later("verify_work", "verify"))
