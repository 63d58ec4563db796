"""`takeup control`: the control table of (url, iteration) rows, and the import of an old one."""

import argparse
from typing import Any

from takeup.cli.options import add_common, add_json, later
from takeup.core.model import CONTROLS

WORKLIST_DEFAULT, ROWS_DEFAULT = 100, 1000
STATUSES = ("READY", "IN_PROGRESS", "COMPLETED", "ERROR")
SYNC_STATES = ("READY", "PAUSED")
ENDINGS = ("COMPLETED", "ERROR")
TOGGLES = {
    "pause": "let nothing new of rows be claimed; what runs may finish its stage",
    "resume": "let paused rows go on",
    "skip": "end rows without their work; whoever holds one loses it",
}


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The sub-commands, each with its own help."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_import(actions)
    sync = _action(actions, "sync", "create the rows that never were there; leave every other one alone")
    _pipeline(sync)
    sync.add_argument(
        "--rows", default="-", metavar="FILE.csv|FILE.json|-", help="rows with url and iteration (default: -)"
    )
    sync.add_argument("--task-state", choices=SYNC_STATES, default="READY", help="of new rows")
    worklist = _action(actions, "worklist", "list what can be claimed now, most urgent first")
    _pipeline(worklist)
    worklist.add_argument("--stage", metavar="STAGE", help="only of this stage")
    _limit(worklist, WORKLIST_DEFAULT)
    _add_claims(actions)
    work = _action(
        actions, "work", "run the stages here until nothing more can be claimed", ("control_work", "work")
    )
    _pipeline(work)
    work.add_argument("--slots", type=int, metavar="N", help="tasks at once (default: the processors)")
    _capability(work)
    for name, text in TOGGLES.items():
        toggle = _action(actions, name, text, ("control_rows", name))
        _pipeline(toggle)
        toggle.add_argument("url", metavar="URL")
        toggle.add_argument("iterations", metavar="ITERATION", type=int, nargs="+")
        toggle.add_argument("--reason", metavar="TEXT", help="kept in the audit log")
    rows = _action(actions, "rows", "show the table: one line for each pair")
    _pipeline(rows, "FILE.py[:NAME] or the pipeline's name alone")
    rows.add_argument("--stage", metavar="STAGE", help="only rows that stand at this stage")
    rows.add_argument("--status", choices=STATUSES, metavar="STATUS", help=", ".join(STATUSES))
    rows.add_argument("--task-state", choices=CONTROLS, metavar="STATE", help=", ".join(CONTROLS))
    _limit(rows, ROWS_DEFAULT)
    _action(actions, "watchdog", "take back overdue leases, wake due retries and move jobs on, once")


def _add_import(actions: Any) -> None:
    text = "make jobs of the rows of an old DuckDB table; again: it does nothing more"
    old: argparse.ArgumentParser = actions.add_parser("import", help=text, description=_sentence(text))
    old.add_argument("file", metavar="FILE", help="the DuckDB file with the table pipeline_control")
    _pipeline(old)
    old.add_argument(
        "--into", metavar="URL", help="another database for the jobs (default: the file itself becomes it)"
    )
    old.add_argument(
        "--stage-map",
        action="append",
        metavar="OLD=NEW",
        help="a stage that had another name; may be repeated",
    )
    old.add_argument("--report", metavar="FILE.csv|FILE.json", help="write there what became of each row")
    add_json(old)
    old.set_defaults(run=later("control_import", "import_table"))


def _add_claims(actions: Any) -> None:
    claim = _action(actions, "claim", "lease a row and print its ticket; exit 1 if there is none to take")
    _pipeline(claim)
    claim.add_argument("--worker", required=True, metavar="NAME", help="who works on it")
    claim.add_argument("--url", metavar="URL", help="this row, with --iteration")
    claim.add_argument("--iteration", type=int, metavar="N")
    claim.add_argument("--stage", metavar="STAGE", help="the most urgent row of this stage")
    claim.add_argument(
        "--slots", type=int, default=1, metavar="N", help="rows it may hold at once (default: 1)"
    )
    _capability(claim)
    renew = _action(actions, "renew", "extend a claim by the length of its lease")
    release = _action(actions, "release", "end a claim: the next stage goes on, or this one is tried again")
    for parser in (renew, release):
        parser.add_argument("ticket", metavar="TICKET|-", help="as the claim printed it; -: standard input")
    renew.add_argument("--percent", type=float, metavar="0-100", help="how far the work is")
    release.add_argument("--status", choices=ENDINGS, default="COMPLETED", help="how it went")
    release.add_argument("--error", metavar="TEXT", help="what went wrong")
    release.add_argument("--result", metavar="FILE", help="the result of the stage: one JSON object")


def _action(
    actions: Any, name: str, text: str, place: tuple[str, str] | None = None
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=_sentence(text))
    add_json(parser)
    add_common(parser)
    module = "control_claim" if name in ("claim", "renew", "release") else "control_rows"
    parser.set_defaults(run=later(*(place or (module, name))))
    return parser


def _pipeline(parser: argparse.ArgumentParser, text: str = "the pipeline that works on the rows") -> None:
    parser.add_argument("--pipeline", required=True, metavar="FILE.py[:NAME]", help=text)


def _capability(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--capability", action="append", metavar="NAME", help="for example gpu; may be repeated"
    )


def _limit(parser: argparse.ArgumentParser, default: int) -> None:
    parser.add_argument(
        "--limit", type=int, default=default, metavar="N", help=f"so many (default: {default})"
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
