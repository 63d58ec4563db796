"""Histories that take the client log to give away: answers, keys, files, trust."""

from tests.sim.histories import LEASE_S, Log, bad


def wins(log: Log, process: str = "w1") -> None:
    """A task is claimed and completed, and its worker knows it."""
    fence = (1, 1, "nonce-1-1")
    log.call(1, "claim", "invoke", "r1", process=process, worker="w1")
    log.call(1, "claim", "ok", "r1", process=process, worker="w1", value=[(*fence, LEASE_S)])
    log.call(2, "complete", "invoke", "r2", process=process, worker="w1", held=[fence])
    log.call(2, "complete", "ok", "r2", process=process, worker="w1", held=[fence], value=[(1, True, "DONE")])
    log.move(1, "claim", request_id="r1")
    log.move(2, "complete", request_id="r2")
    log.finished()


def file(log: Log, second: float, op: str, epoch: int = 1, generation: int = 1, process: str = "w1") -> None:
    log.call(
        second,
        op,
        "ok",
        process=process,
        task=1,
        epoch=epoch,
        nonce_hash=f"nonce-1-{epoch}",
        job="j1",
        subject="s1",
        generation=generation,
        source="answer",
    )


@bad("I11")
def published_by_a_loser(log: Log):
    wins(log)
    file(log, 3, "publish", epoch=2)


@bad("I11")
def published_before_it_won(log: Log):
    file(log, 1.5, "publish")
    wins(log)


@bad("I13")
def acknowledged_but_lost(log: Log):
    held = [(1, 1, "nonce-1-1")]
    log.call(2, "complete", "invoke", "r2", worker="w1", held=held)
    log.call(2, "complete", "ok", "r2", worker="w1", held=held, value=[(1, True, "DONE")])
    log.move(1, "claim")


@bad("I13")
def nobody_asked(log: Log):
    log.call(0, "claim", "invoke", "r1", worker="w1")
    log.move(1, "claim", request_id="r9")


def submit(log: Log, request: str, jobs: list[str], spec: str = "h", phase: str = "ok") -> None:
    asked = [{"user": "u", "key": "k", "spec_hash": spec, "priority": 5}]
    log.call(0, "submit", "invoke", request, process="client", jobs=asked)
    log.call(0, "submit", phase, request, process="client", jobs=asked, value=jobs)


@bad("I14")
def one_key_two_jobs(log: Log):
    log.job("j2")
    submit(log, "r1", ["j1"])
    submit(log, "r2", ["j2"])


@bad("I14")
def one_key_two_bodies(log: Log):
    submit(log, "r1", ["j1"])
    submit(log, "r2", ["j1"], spec="other")


@bad("I14")
def one_request_two_jobs(log: Log):
    submit(log, "r1", ["j3"])
    log.job("j2", request="r1")
    log.job("j3", request="r1")


@bad("I15")
def winner_told_that_it_lost(log: Log):
    wins(log)
    fence = (1, 1, "nonce-1-1")
    log.call(5, "complete", "invoke", "r3", worker="w1", held=[fence])
    log.call(5, "complete", "ok", "r3", worker="w1", held=[fence], value=[(1, False, "DONE")])


@bad("I15")
def winner_told_that_it_lost_after_a_lost_answer(log: Log):
    fence = (1, 1, "nonce-1-1")
    log.call(2, "complete", "invoke", "r2", worker="w1", held=[fence])
    log.call(3, "complete", "info", "r2", worker="w1", held=[fence])
    log.call(4, "complete", "invoke", "r2", worker="w1", held=[fence])
    log.call(5, "complete", "ok", "r2", worker="w1", held=[fence], value=[(1, False, "DONE")])
    log.move(1, "claim")
    log.move(2, "complete", request_id="r2")
    log.finished()


@bad("I15")
def lease_not_given_again(log: Log):
    log.call(1, "claim", "invoke", "r1", worker="w1")
    log.call(2, "claim", "info", "r1", worker="w1")
    log.call(3, "claim", "invoke", "r1", worker="w1")
    log.call(4, "claim", "ok", "r1", worker="w1", value=[])
    log.move(1, "claim", request_id="r1")


@bad("I20")
def old_generation_removed_too_early(log: Log):
    wins(log)
    file(log, 3, "publish")
    file(log, 4, "remove")


@bad("I26")
def wrote_without_trust(log: Log):
    wins(log)
    file(log, 12, "stage")


@bad("I26")
def wrote_after_it_was_lost(log: Log):
    fence = (1, 1, "nonce-1-1")
    log.call(1, "claim", "invoke", "r1", worker="w1")
    log.call(1, "claim", "ok", "r1", worker="w1", value=[(*fence, LEASE_S)])
    log.call(2, "renew", "invoke", "r2", worker="w1", held=[fence])
    log.call(2, "renew", "ok", "r2", worker="w1", held=[fence], value=[(1, False, "READY")])
    file(log, 5, "stage")
    log.move(1, "claim")
