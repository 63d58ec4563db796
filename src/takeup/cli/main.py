"""`takeup`: finds the command, loads its module only then, turns errors into one line and an exit code."""

import argparse
import asyncio
import difflib
import importlib
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from takeup import __version__

USAGE_ERROR = 2
INTERRUPTED = 130


class Command(NamedTuple):
    """Where a command is and what the list of commands says of it."""

    module: str
    help: str


COMMANDS = {
    "transcode": Command(
        "transcode", "make an adaptive stream of one video, here and now; again: it resumes"
    ),
    "check": Command("check", "judge an HLS or DASH package, ours or anybody's, against every rule"),
    "rollback": Command("rollback", "serve an earlier version of a published stream again"),
    "watch": Command("watch", "show a stream in the browser, served from this machine"),
    "run": Command("run", "run one job of your own pipeline to its end, here and now; again: it resumes"),
    "submit": Command("submit", "create a job for workers to run"),
    "work": Command("work", "run a worker"),
    "orchestrate": Command("loops", "run the orchestrator alone, and the schedules of your pipelines"),
    "recover": Command("loops", "run recovery, outbox, webhooks and archiver alone"),
    "serve": Command("serve", "answer over HTTP, run every loop and some local workers, in one process"),
    "jobs": Command("jobs", "list, show, watch, explain, cancel, retry, pause, resume, skip jobs"),
    "workers": Command("workers", "list and register workers, drain, disable and enable them"),
    "keys": Command("keys", "make, list and revoke keys for programs and workers"),
    "webhooks": Command("webhooks", "list, add, rotate, test and remove what is told of jobs and alerts"),
    "people": Command("people", "add and list people who log in, change their passwords and roles"),
    "control": Command("control", "work with the control table of (url, iteration) rows"),
    "db": Command("db", "upgrade, check and archive the database"),
    "verify": Command("verify", "check the audit log of the database against every invariant"),
    "demo": Command("demo", "see it work: a sample made, streamed, checked, killed half-way and resumed"),
    "doctor": Command("doctor", "say what is right and wrong with this set-up"),
}


class Parser(argparse.ArgumentParser):
    """A parser that complains in one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        self.exit(USAGE_ERROR, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; answers with the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return 0 if argv else USAGE_ERROR
    if argv[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"takeup {__version__}\n")
        return 0
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        return complain(f"there is no command {name!r}; {hint}takeup --help lists them", USAGE_ERROR)
    module = importlib.import_module(f"takeup.cli.{COMMANDS[name].module}")
    parser = Parser(prog=f"takeup {name}", description=_sentence(COMMANDS[name].help))
    module.add(parser, name)
    try:
        options = parser.parse_args(rest)
        return execute(options)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def execute(options: argparse.Namespace) -> int:
    """Run the chosen command; every error becomes one line."""
    from takeup.config import unknown_variables  # noqa: PLC0415 - only once a command runs
    from takeup.core.errors import TakeupError  # noqa: PLC0415 - the same

    for line in unknown_variables(os.environ):
        complain(line, 0)
    try:
        result: Any = options.run(options)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        sys.stdout.flush()  # here, where a closed pipe is no surprise
        return int(result or 0)
    except TakeupError as error:
        if os.environ.get("TAKEUP_DEBUG"):
            raise
        return complain(f"{str(error).rstrip('.')}. {error.help}", error.exit_code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if os.environ.get("TAKEUP_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        return complain(f"a fault in Takeup: {what}; set TAKEUP_DEBUG=1 to see where, and report it", 1)


def complain(message: str, code: int) -> int:
    """One line to standard error."""
    sys.stderr.write("takeup: " + " ".join(message.split()) + "\n")
    return code


def overview() -> str:
    """What `takeup --help` prints; no command is loaded for it."""
    lines = [f"  {name:<12} {command.help}" for name, command in COMMANDS.items()]
    return (
        "usage: takeup COMMAND ...\n\nA media pipeline whose work survives anything.\n\ncommands:\n"
        + "\n".join(lines)
        + "\n\ntakeup COMMAND --help says more. Settings: --data DIR or TAKEUP_DATA_DIR, --database URL or "
        "TAKEUP_DATABASE_URL.\n"
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


if __name__ == "__main__":
    sys.exit(main())
