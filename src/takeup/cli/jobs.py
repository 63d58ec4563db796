"""`takeup jobs`: list, show, watch, explain and change jobs."""

import argparse
from typing import Any

from takeup.cli.options import add_common, add_json, later
from takeup.core.machine import JOB

LIST_DEFAULT = 20
CHANGES = {
    "cancel": "stop jobs for good; what runs is told to stop",
    "pause": "start nothing more of jobs; what runs goes on",
    "resume": "go on with paused jobs",
    "skip": "let jobs count as done without running them",
    "retry": "run finished jobs again, each as a new job whose id is printed",
}
OF_A_TASK = ("pause", "resume", "skip")


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = _action(actions, "list", "list jobs, newest first", later("jobs_list", "show_list"))
    listing.add_argument("--pipeline", metavar="NAME", help="only of this pipeline")
    listing.add_argument("--status", choices=JOB.states, metavar="STATUS", help=", ".join(JOB.states))
    listing.add_argument("--user", metavar="USER", help="only for this user")
    listing.add_argument(
        "--limit", type=int, default=LIST_DEFAULT, metavar="N", help=f"so many (default: {LIST_DEFAULT})"
    )
    _one(actions, "show", "show a job: stages, failed attempts, files, last log lines", "jobs_show")
    _one(actions, "watch", "show live how a job goes, until its end; exit 0 if it completed", "jobs_watch")
    _one(actions, "why", "say why a job does not run, or what it does", "jobs_why")
    for name, text in CHANGES.items():
        change = _action(actions, name, text, later("jobs_change", name))
        change.add_argument("jobs", nargs="+", metavar="ID", help="a job's id or its beginning")
        if name in OF_A_TASK:
            change.add_argument("--task", type=int, metavar="TASK_ID", help="only this task of the job")
        if name not in ("retry", "resume"):
            change.add_argument("--reason", metavar="TEXT", help="kept in the audit log")
    priority = _action(actions, "priority", "change how urgent jobs are", later("jobs_change", "priority"))
    priority.add_argument("priority", type=int, metavar="0-10", help="10 is most urgent")
    priority.add_argument("jobs", nargs="+", metavar="ID", help="a job's id or its beginning")
    logs = _one(actions, "logs", "print what a job logged, or the commands that it ran", "jobs_logs")
    logs.add_argument("--follow", "-f", action="store_true", help="wait for more until the job ends")
    logs.add_argument("--steps", action="store_true", help="the commands instead of the log lines")


def _one(actions: Any, name: str, text: str, module: str) -> argparse.ArgumentParser:
    parser = _action(actions, name, text, later(module, name))
    parser.add_argument("job", metavar="ID", help="the job's id or its beginning")
    return parser


def _action(actions: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + "."
    )
    add_json(parser)
    add_common(parser)
    parser.set_defaults(run=run)
    return parser
