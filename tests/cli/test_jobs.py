"""`takeup submit` and `takeup jobs`: what is asked happens, or is refused and the reason names the state."""

import itertools
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.core.model import Completion, Failure, LogLine, WorkerSpec
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.cli.conftest import Call, Cli, environment, with_store
from tests.store.scenes import FAN, ONE, claim_request

STATES = ("pending", "paused", "processing", "completed", "failed", "cancelled")
FINAL = STATES[3:]
VERBS = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "skip": "skipped",
    "priority": "given another priority",
}


async def all_states(store: Store) -> dict[str, str]:
    """One job in each state."""
    await store.worker.register(WorkerSpec("w1", slots=10))
    ids = await store.operator.submit([NewJob(ONE, user_id=state) for state in STATES])
    jobs = dict(zip(STATES, ids, strict=True))
    await store.operator.set_control([jobs["pending"], jobs["paused"]], "PAUSED")
    leases = {lease.job_id: lease.held for lease in await store.worker.claim(claim_request("w1", 9))}
    await store.worker.complete("w1", [Completion(leases[jobs["completed"]])])
    await store.worker.fail(
        "w1", [Failure(leases[jobs["failed"]], "Boom: [red]no[/] \x1b[31m", retryable=False)]
    )
    await store.operator.set_control([jobs["pending"]], "READY")
    await store.operator.cancel([jobs["cancelled"]])
    return jobs


@pytest.fixture
def jobs(url: str) -> dict[str, str]:
    return with_store(url, all_states)


def status(url: str, job_id: str) -> tuple[str, str]:
    job = with_store(url, lambda store: store.read.job(job_id))
    return job.status, job.control


def test_submit_prints_the_id_and_a_key_makes_one_job(cli: Cli, call: Call, demo: Path):
    first = cli("submit", demo, "--spec", "-", "--key", "k", "--user", "me", "--priority", 9, text='{"a": 1}')
    assert (first.returncode, first.stderr) == (0, "")
    assert re.fullmatch(r"job_[0-9a-f]{24}\n", first.stdout)
    (demo.parent / "s.json").write_text('{"a": 1}')
    same = ("submit", f"{demo}:demo", "--spec", "s.json", "--key", "k", "--user", "me")
    assert call(*same, "--priority", 9, "--json").json == {"job": first.stdout.strip()}
    for other in (call(*same), call("submit", demo, "--key", "k", "--user", "me", "--priority", 9)):
        assert (other.code, "was used for job" in other.err) == (1, True)
    later = call("submit", "demo.py", "--not-before", "2999-01-31T18:00+02:00", "--paused").out.strip()
    assert "not before 2999-01-31 16:00:00 UTC" in call("jobs", "why", later).out
    shown = call("jobs", "show", first.stdout.strip()[:12], "--json").json
    assert (shown["job"]["priority"], shown["job"]["user_id"], shown["job"]["spec"]) == (9, "me", {"a": 1})


def test_the_list_is_filtered_and_hostile_text_is_harmless(url: str, jobs: dict[str, str], call: Call):
    found = call("jobs", "list", "--database", url)
    assert found.code == 0
    assert [line.split()[0] for line in found.out.splitlines()] == ["ID", *found_ids(url, call)]
    assert "\x1b" not in found.out
    assert "Boom: [red]no[/]" in found.out
    for state in FINAL:
        listed = call("jobs", "list", "--status", state, "--json", "--database", url).json
        assert [job["id"] for job in listed] == [jobs[state]]
    assert len(call("jobs", "list", "--user", "paused", "--json", "--database", url).json) == 1
    assert len(call("jobs", "list", "--limit", 2, "--json", "--database", url).json) == 2
    assert call("jobs", "list", "--pipeline", "none", "--json", "--database", url).json == []
    assert call("jobs", "list", "--limit", 0, "--database", url).code == 1


def found_ids(url: str, call: Call) -> list[str]:
    return [job["id"] for job in call("jobs", "list", "--json", "--database", url).json]


def test_what_is_finished_refuses_every_change_and_says_its_state(url: str, jobs: dict[str, str], call: Call):
    for state, (verb, word) in itertools.product(FINAL, VERBS.items()):
        level = [3] if verb == "priority" else []
        ran = call("jobs", verb, *level, jobs[state], "--database", url)
        if (verb, state) == ("cancel", "cancelled"):
            assert (ran.code, ran.out) == (0, f"{jobs[state]} was cancelled already\n")
            continue
        assert ran.code == 1
        assert f"job {jobs[state]} is {state} and cannot be {word}" in ran.err
        assert ran.err.count("\n") == 1
    for state in STATES[:3]:
        ran = call("jobs", "retry", jobs[state], "--database", url)
        assert (ran.code, "cannot be retried before it ended" in ran.err) == (1, True)


def test_live_jobs_do_what_they_are_told(url: str, jobs: dict[str, str], call: Call):
    pending, paused, running = (jobs[state] for state in STATES[:3])
    ran = call("jobs", "pause", pending, paused, "--reason", "later", "--database", url)
    assert ran.out == f"{pending} paused\n{paused} was paused already\n"
    assert "paused by an operator" in call("jobs", "why", pending, "--database", url).out
    assert call("jobs", "resume", pending, paused, running, "--json", "--database", url).json == {
        "changed": sorted([pending, paused]),
        "unchanged": [running],
    }
    assert call("jobs", "priority", 10, pending, "--database", url).out == f"{pending} has priority 10\n"
    assert call("jobs", "skip", pending, "--database", url).out == f"{pending} skipped\n"
    assert status(url, pending) == ("completed", "SKIP")
    assert call("jobs", "cancel", running, paused, "--reason", "no", "--database", url).code == 0
    assert (status(url, running)[0], status(url, paused)[0]) == ("cancelled", "cancelled")
    assert "cancelled (no)" in call("jobs", "why", running, "--database", url).out
    new = [call("jobs", "retry", jobs[state], "--database", url).out.strip() for state in FINAL]
    assert [status(url, job_id) for job_id in new] == [("pending", "READY")] * 3
    together = call("jobs", "cancel", new[0], jobs["failed"], "--database", url)
    assert (together.code, status(url, new[0])[0]) == (1, "pending")


def test_one_task_is_paused_resumed_and_skipped(url: str, call: Call):
    async def fan(store: Store) -> tuple[str, list[int]]:
        await store.worker.register(WorkerSpec("w1"))
        (job_id,) = await store.operator.submit([NewJob(FAN)])
        (cut,) = await store.worker.claim(claim_request("w1"))
        await store.worker.complete("w1", [Completion(cut.held, {"segments": 2})])
        await store.orchestrator.advance([job_id])
        return job_id, [cut.task_id, *(task.id for task in await store.read.tasks_in(job_id, "READY"))]

    job_id, (cut, first, second) = with_store(url, fan)
    at = ("--database", url)
    assert call("jobs", "pause", job_id, "--task", first, *at).out == f"task {first} of {job_id} paused\n"
    assert "encode is paused by an operator" in call("jobs", "why", job_id, *at).out
    assert call("jobs", "resume", job_id, "--task", first, *at).code == 0
    assert call("jobs", "skip", job_id, "--task", second, "--json", *at).json == {"changed": [second]}
    assert f"task {cut} is DONE and cannot be paused" in call("jobs", "pause", job_id, "--task", cut, *at).err
    assert "no task has the id 999" in call("jobs", "pause", job_id, "--task", 999, *at).err
    (other,) = with_store(url, lambda store: store.operator.submit([NewJob(ONE)]))
    assert f"it belongs to {job_id}" in call("jobs", "pause", other, "--task", first, *at).err
    assert "name one job" in call("jobs", "pause", other, job_id, "--task", first, *at).err


def test_ids_may_be_short_but_not_ambiguous(url: str, jobs: dict[str, str], call: Call):
    job_id = jobs["failed"]
    for text in (job_id[:10], job_id[4:12], job_id):
        ran = call("jobs", "show", text, "--database", url)
        assert ran.out.startswith(f"{job_id}  failed: work: Boom")
    assert "too short for a job's id" in call("jobs", "show", job_id[:9], "--database", url).err
    assert "no job has an id" in call("jobs", "show", "job_" + "z" * 24, "--database", url).err


def test_show_tells_of_every_attempt(url: str, jobs: dict[str, str], call: Call):
    async def log(store: Store) -> None:
        await store.worker.add_logs([LogLine(jobs["failed"], None, None, "warn", "work", "hm \x1b[2J")])

    with_store(url, log)
    ran = call("jobs", "show", jobs["failed"], "--database", url)
    assert "FAILED after 1 of 3 attempts" in ran.out
    assert re.search(r"epoch 1, attempt 1, worker w1, \S+ \S+: give_up after 0 s: Boom", ran.out)
    assert "\x1b" not in ran.out
    shown = call("jobs", "show", jobs["failed"], "--json", "--database", url).json
    assert [a["outcome"] for a in shown["broken"][0]["attempts"]] == ["give_up"]
    logs = call("jobs", "logs", jobs["failed"], "--follow", "--database", url)
    assert re.fullmatch(r"\S+ \S+ warn  work: hm  \[2J\n", logs.out)
    assert call("jobs", "logs", jobs["failed"], "--steps", "--database", url).out == ""


def test_watch_ends_with_the_job_and_tells_how(url: str, jobs: dict[str, str], call: Call):
    done = call("jobs", "watch", jobs["completed"], "--database", url)
    assert (done.code, done.err) == (0, "completed: work 1/1\n")
    failed = call("jobs", "watch", jobs["failed"], "--json", "--database", url)
    assert (failed.code, failed.err) == (1, "failed: work 0/1 (1 failed)\n")
    assert failed.json["status"] == "failed"


def test_on_a_terminal_there_are_bars(tmp_path: Path, cli: Cli, demo: Path):
    job_id = cli("submit", demo).stdout.strip()
    assert cli("jobs", "cancel", job_id).returncode == 0
    ours, theirs = pty.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-m", "takeup.cli.main", "jobs", "watch", job_id],
        cwd=tmp_path, env=environment(TERM="xterm-256color"), stderr=theirs, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.wait(60) == 1
    os.close(theirs)
    text = b""
    while chunk := read(ours):
        text += chunk
    os.close(ours)
    assert "━━━━" in text.decode()
    assert "not split yet" in text.decode()
    assert "cancelled" in text.decode()


def read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
