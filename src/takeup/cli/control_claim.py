"""`takeup control claim|renew|release`: work on rows from a program of one's own.

A ticket holds the token of a claim. It is printed for whoever asked for it, and nowhere else.
"""

import argparse
import sys

from takeup.cli.opening import open_store, ring
from takeup.cli.options import read_spec
from takeup.cli.printing import clean, line, moment, print_json
from takeup.cli.submit import pipeline_named
from takeup.core.control import ControlRow, control_subject
from takeup.core.errors import Conflict, InvalidInput, InvalidResult, LeaseLost, NotFound
from takeup.core.machine import JOB
from takeup.core.model import Answer
from takeup.pipelines.control import Claimed, ControlTable, Ticket
from takeup.pipelines.control.tickets import release as release_ticket
from takeup.pipelines.control.tickets import renew as renew_ticket
from takeup.store.store import Store

TICKET_CHARS_MAX = 1000


class NothingToClaim(Conflict):
    """No row could be leased to this worker now."""

    help = "`takeup control worklist` lists what can be claimed; try again when there is something."


class NameTaken(Conflict):
    """Another worker has this name."""

    help = "Claim under another --worker; one name keeps its pipeline, --slots and --capability."


async def claim(options: argparse.Namespace) -> int:
    """Lease a row and print it with its ticket, with a tab between the four."""
    if (options.url is None) != (options.iteration is None):
        raise InvalidInput("--url and --iteration go together")
    if options.url is not None and options.stage is not None:
        raise InvalidInput("--stage chooses among all rows; leave it out with --url and --iteration")
    pipeline = pipeline_named(options.pipeline)
    async with open_store(options) as (store, _):
        table = ControlTable(store, pipeline)
        if options.stage is not None:
            pipeline.get(options.stage)
        row = None if options.url is None else await table.row(options.url, options.iteration)
        await _enlist(table, options)
        if row is not None:
            claimed = await table.claim(options.worker, row.url, row.iteration)
        else:
            claimed = await table.claim_next(options.worker, options.stage)
        if claimed is None:
            raise NothingToClaim(await _why(table, options))
    _print(claimed, as_json=options.json)
    return 0


async def renew(options: argparse.Namespace) -> int:
    """Extend a claim, if the ticket still holds it."""
    ticket = _ticket(options.ticket)
    async with open_store(options) as (store, _):
        answer = await renew_ticket(store, ticket, percent=options.percent)
        _must_hold(answer)
        await store.worker.heartbeat([ticket.worker_id])
        row = await _row_of(store, ticket)
    if options.json:
        print_json({"order": answer.order, "lease_until": answer.expires_at, "row": row})
    else:
        line(f"{row.url} {row.iteration} {row.stage} is held until {moment(answer.expires_at)} UTC")
    return 0


async def release(options: argparse.Namespace) -> int:
    """End a claim, if the ticket still holds it."""
    ticket = _ticket(options.ticket)
    if options.error is not None and options.status != "ERROR":
        raise InvalidInput("--error goes with --status ERROR")
    if options.result is not None and options.status == "ERROR":
        raise InvalidInput("--result goes with --status COMPLETED")
    result = read_spec(options.result)
    async with open_store(options) as (store, _):
        answer = await release_ticket(store, ticket, options.status, error=options.error, result=result)
        _must_hold(answer)
        await ring(store)
        row = await _row_of(store, ticket)
    if options.json:
        print_json({"released": options.status, "row": row})
    else:
        line(f"{row.url} {row.iteration} released as {options.status}; it is {row.status} at {row.stage}")
    return 0


async def _enlist(table: ControlTable, options: argparse.Namespace) -> None:
    """Make the claimer known, unless that would take the leases of somebody else of this name."""
    capabilities = frozenset(options.capability or ())
    try:
        known = await table.store.read.worker(options.worker)
    except NotFound:
        known = None
    if known is not None:
        theirs = (known.slots, known.capabilities, known.stages)
        ours = (options.slots, capabilities, (f"{table.pipeline.name}/*",))
        if theirs != ours and (known.load or (known.stages != ours[2] and known.status != "offline")):
            raise NameTaken(
                f"a worker {known.id} is known with {known.slots} slots for {', '.join(known.stages)} "
                f"and holds {known.load}"
            )
    await table.enlist(options.worker, slots=options.slots, capabilities=capabilities)


async def _why(table: ControlTable, options: argparse.Namespace) -> str:
    """Why nothing was claimed, as far as it can be told."""
    worker = await table.store.read.worker(options.worker)
    if worker.load >= worker.slots:
        return f"worker {worker.id} holds {worker.load} of {worker.slots} rows and must release one first"
    if worker.status == "draining":
        return f"worker {worker.id} drains, so it gets nothing new"
    others = f"needs what worker {worker.id} has not, or others were faster"
    if options.url is not None:
        return await _why_not(table, await table.row(options.url, options.iteration), others)
    at = "" if options.stage is None else f" at stage {options.stage}"
    if await table.worklist(options.stage, limit=1):
        return f"what can be claimed{at} {others}"
    return f"there is no row of {table.pipeline.name} to claim{at}"


async def _why_not(table: ControlTable, row: ControlRow, others: str) -> str:
    pair = f"({row.url!r}, {row.iteration})"
    if row.is_claimed:
        return f"{pair} is held by {row.worker_id} until {moment(row.lease_until)} UTC"
    if row.task_state != "READY":
        return f"{pair} is {row.task_state}"
    status = (await table.store.read.job(row.job_id)).status
    if status in JOB.final:
        return f"{pair} has {status}" if status == "failed" else f"{pair} is {status}"
    subject = control_subject(table.pipeline, row.url, row.iteration)
    if await table.store.read.worklist_of(subject, limit=1):
        return f"{pair} {others}"
    return f"{pair} is {row.status} at {row.stage} and not due"


def _print(claimed: Claimed, *, as_json: bool) -> None:
    lease = claimed.lease
    told = {
        "url": claimed.url,
        "iteration": claimed.iteration,
        "stage": lease.stage,
        "ticket": str(claimed.ticket),
    }
    if as_json:
        more = {"segment": lease.segment, "attempt": lease.attempt, "lease_until": lease.expires_at}
        print_json({**told, **more, "job": lease.job_id})
        return
    sys.stdout.write("\t".join(" ".join(clean(str(value)).splitlines()) for value in told.values()) + "\n")


def _ticket(text: str) -> Ticket:
    if text == "-":
        text = sys.stdin.read(TICKET_CHARS_MAX).strip()
    return Ticket.parse(text)


def _must_hold(answer: Answer) -> None:
    if answer.accepted:
        return
    if answer.order == "continue":
        raise InvalidResult(f"nothing was released: {answer.reason}; give it with --result")
    raise LeaseLost(f"the ticket is of no use any more: {answer.reason}")


async def _row_of(store: Store, ticket: Ticket) -> ControlRow:
    job = await store.read.job((await store.read.task(ticket.task_id)).job_id)
    row = await store.read.control_row(job.subject or "")
    if row is None:
        raise NotFound(f"job {job.id} is in no control table")
    return row
