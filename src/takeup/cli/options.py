"""Options that many commands share."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from takeup.config import Settings, load
from takeup.core.errors import InvalidSpec


def later(module: str, function: str) -> Callable[[argparse.Namespace], Any]:
    """A command whose code is loaded only when it runs, so that its help costs nothing."""

    def run(options: argparse.Namespace) -> Any:
        return getattr(importlib.import_module(f"takeup.cli.{module}"), function)(options)

    return run


def positive(text: str) -> int:
    """A count of at least one, as argparse wants it."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def add_capability(parser: argparse.ArgumentParser) -> None:
    """What a worker can do."""
    parser.add_argument(
        "--capability", action="append", metavar="NAME", help="for example gpu; may be repeated"
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """How much of it at once, and what this machine can do."""
    parser.add_argument(
        "--workers", type=positive, metavar="N", help="how many tasks run at once (default: processors)"
    )
    add_capability(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """For machines."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Where the data is, and how much is said."""
    parser.add_argument(
        "--data", metavar="DIR", dest="data_dir", help="data directory (default: takeup-data)"
    )
    parser.add_argument(
        "--database", metavar="URL", dest="database_url", help="sqlite:///…, duckdb:///… or postgresql://…"
    )
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", choices=("text", "json"))


def add_action(
    actions: Any, name: str, text: str, run: Callable[[argparse.Namespace], Any]
) -> argparse.ArgumentParser:
    """A sub-command with its help, and the options that all of them have."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    add_json(parser)
    add_common(parser)
    parser.set_defaults(run=run)
    return parser


def settings_of(options: argparse.Namespace, *names: str, **defaults: Any) -> Settings:
    """The settings that the options, the environment and takeup.toml give; defaults are the weakest.

    `names` are those of settings that only this command has as options.
    """
    common = ("data_dir", "database_url", "log_level", "log_format")
    flags = {name: getattr(options, name, None) for name in (*common, *names)}
    for name, value in defaults.items():
        variable = f"TAKEUP_{name.upper()}"
        if flags.get(name) is None and not os.environ.get(variable):
            flags[name] = value
    return load(os.environ, flags)


def read_spec(source: str | None) -> dict[str, Any]:
    """A job's spec from a file, from standard input (`-`), or an empty one."""
    if source is None:
        return {}
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        advice = "Check the path that --spec names."
        raise InvalidSpec(f"the spec {source} cannot be read: {error}", advice=advice) from error
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSpec(f"the spec {source} is not JSON: {error}") from error
    if not isinstance(spec, dict):
        raise InvalidSpec(f"the spec {source} must be one JSON object, not {type(spec).__name__}")
    return spec
