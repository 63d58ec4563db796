"""`takeup doctor`: says what is right and wrong with this set-up."""

import argparse

from takeup.cli.options import add_common, add_json, later


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    add_json(parser)
    add_common(parser)
    parser.set_defaults(run=later("doctor_checks", "doctor"))
