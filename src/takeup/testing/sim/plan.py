"""What a seed means: machines, jobs, what people do, and the faults, all drawn before anything runs."""

from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from takeup.core.model import WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.policy import RetryPolicy

FAULTS_S = 12.0
"""How long faults may begin."""
QUIET_S = 23.0
"""When the last of them is over and liveness is judged."""
END_S = 200.0
"""By when everything must be finished."""

POLL_S, RECOVERY_S, SWEEP_S, HEARTBEAT_S = 11.0, 4.0, 9.0, 9.0
OFFLINE_S, DEFER_S, MARGIN_S, RPC_S = 22.0, 10.0, 1.5, 1.2

_RETRY = RetryPolicy(max_attempts=3, initial_s=1.0, cap_s=3.0, jitter=0.5)
_ONCE = RetryPolicy(kind="fixed", max_attempts=2, initial_s=2.0)


def _pipeline(name: str, *stages: Stage) -> Pipeline:
    return Pipeline.of(name, stages)


def _stage(name: str, *needs: str, **options: Any) -> Stage:
    return Stage(name, needs=needs, **{"lease_s": 6.0, "retry": _RETRY, **options})


PIPELINES = (
    _pipeline("solo", _stage("work")),
    _pipeline("chain", _stage("fetch", phase="downloading_inputs"), _stage("encode", "fetch", retry=_ONCE)),
    _pipeline(
        "fan",
        _stage("split", phase="planning"),
        _stage("encode", "split", each="segment", lease_s=5.0),
        _stage("join", "encode", phase="uploading_outputs"),
    ),
    _pipeline("gpu", _stage("encode", prefers="gpu", stall_s=8.0)),
    _pipeline(
        "cut", _stage("trim", requires=frozenset({"cutter"}), lease_s=8.0, retry=RetryPolicy(kind="none"))
    ),
    _pipeline("twin", _stage("left"), _stage("right", stall_s=9.0), _stage("both", "left", "right")),
)


class Fault(NamedTuple):
    """One thing that goes wrong: when (a time, or the n-th of its kind), where, and how much."""

    kind: str
    at: float
    target: str = ""
    length_s: float = 0.0


class Action(NamedTuple):
    """One thing that a person does."""

    at_s: float
    kind: str
    job: int = 0
    value: Any = None


@dataclass(frozen=True, slots=True)
class JobDraw:
    """A job to be submitted."""

    pipeline: int
    priority: int
    key: str | None
    subject: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is known of a schedule before it runs."""

    seed: int
    workers: tuple[WorkerSpec, ...]
    jobs: tuple[JobDraw, ...]
    actions: tuple[Action, ...]
    faults: tuple[Fault, ...]
    orchestrators: int = 1
    recoveries: int = 1
    restart_every_s: float | None = None
    """How often the recovery loop is restarted, also in the quiet phase."""
    drifts: tuple[float, ...] = field(default=())


MESSAGE_FAULTS = (
    "lose_request",
    "lose_answer",
    "delay_request",
    "delay_answer",
    "double",
    "unknown_commit",
    "last_words",
)
MESSAGES = (
    ("claim",) * 4
    + ("complete",) * 4
    + ("fail", "renew") * 3
    + ("submit", "release") * 2
    + ("register", "heartbeat")
)
"""Which requests are hit, as often as they are named."""
LAST_WORDS = ("complete", "complete", "fail", "release", "renew")
"""What a worker may have sent just before it died."""
HOST_FAULTS = ("crash", "pause", "hang")
HINT_FAULTS = ("lose_hint", "double_hint", "delay_hint")
DATABASE_FAULTS = ("cut", "outage", "stall_step", "clock_ahead", "clock_back")
KINDS = (
    *MESSAGE_FAULTS,
    *HOST_FAULTS,
    "last_words",
    "crash",
    "pause",
    *HINT_FAULTS,
    *DATABASE_FAULTS,
    "crash_point",
)

CRASH_POINTS = (
    *(f"submit.after {q}" for q in ("jobs_by_key", "add_jobs", "add_tasks", "log_tasks", "commit")),
    *(f"claim.after {q}" for q in ("claim_candidates", "claim_tasks", "add_claim", "log_tasks", "commit")),
    *(f"renew.after {q}" for q in ("renew_tasks", "log_tasks", "commit")),
    *(
        f"complete.after {q}"
        for q in ("add_artifacts", "complete_tasks", "log_tasks", "close_jobs", "commit")
    ),
    *(f"fail.after {q}" for q in ("fail_tasks", "log_tasks", "commit")),
    *(f"release.after {q}" for q in ("release_tasks", "commit")),
    *(f"advance.after {q}" for q in ("expand_stage", "add_tasks", "move_tasks", "log_tasks", "commit")),
    *(f"expire.after {q}" for q in ("overdue_tasks", "expire_tasks", "log_tasks", "commit")),
    *(f"wake.after {q}" for q in ("move_tasks", "commit")),
    *(f"take.after {q}" for q in ("take_messages", "commit")),
    *(f"cancel.after {q}" for q in ("move_tasks", "commit")),
    "deliver.after end_messages",
    "worker.after hint",
    "worker.after claim",
    "worker.before complete",
    "worker.after complete",
    "worker.after publish",
    "recovery.before deliver",
)


def draw(seed: int) -> Plan:
    """The plan of this seed."""
    random = Random(seed)
    workers = tuple(
        _worker(random, number) for number in range((1, 2, 2, 2, 3, 3, 4)[int(random.random() * 7)])
    )
    jobs = _jobs(random)
    return Plan(
        seed=seed,
        workers=workers,
        jobs=jobs,
        actions=tuple(sorted(_actions(random, jobs, workers))),
        faults=tuple(_fault(random, workers) for _ in range(int(random.random() ** 1.5 * 14))),
        orchestrators=1 + (random.random() < 0.3),
        recoveries=1 + (random.random() < 0.3),
        restart_every_s=4.0 if random.random() < 0.15 else None,
        drifts=tuple(1 + (random.random() - 0.5) / 50 for _ in workers),
    )


def _worker(random: Random, number: int) -> WorkerSpec:
    capabilities = {"cutter"} if number == 0 else set()
    stages: tuple[str, ...] = ("*",)
    if number > 0 and random.random() < 0.4:
        stages = (f"{PIPELINES[int(random.random() * 3)].name}/*",)
    if random.random() < (0.2 if stages == ("*",) else 0.7):
        capabilities.add("gpu")
    slots = 2 if random.random() < 0.25 else 1
    return WorkerSpec(f"w{number}", slots=slots, capabilities=frozenset(capabilities), stages=stages)


def _jobs(random: Random) -> tuple[JobDraw, ...]:
    count = (1, 1, 1, 2, 2, 3)[int(random.random() * 6)]
    same = random.random() < 0.35  # several jobs of one pipeline compete for one lane
    first = int(random.random() * len(PIPELINES))
    return tuple(
        JobDraw(
            pipeline=first if same else int(random.random() * len(PIPELINES)),
            priority=int(random.random() * 11),
            key=f"key-{number}" if random.random() < 0.7 else None,
            subject="film" if number == 0 and random.random() < 0.6 else None,
        )
        for number in range(count)
    )


def _actions(random: Random, jobs: tuple[JobDraw, ...], workers: tuple[WorkerSpec, ...]) -> list[Action]:
    actions = [Action(random.random() ** 2 * 3, "submit", job) for job in range(len(jobs))]
    for job, draw_ in enumerate(jobs):
        if draw_.key and random.random() < 0.4:
            kind = "submit" if random.random() < 0.7 else "submit_other_body"
            actions.append(Action(random.random() * 6, kind, job))
        if draw_.subject and random.random() < 0.7:
            actions.append(Action(4 + random.random() * 8, "again", job))
    for _ in range(int(random.random() ** 2 * 4)):
        job = int(random.random() * len(jobs))
        start = 1 + random.random() * 8
        kind = ("cancel", "pause", "skip", "priority", "skip_task", "pause_task")[int(random.random() * 6)]
        actions.append(Action(start, kind, job, int(random.random() * 11)))
        if kind.startswith("pause"):
            actions.append(Action(start + random.random() * 4, kind.replace("pause", "resume"), job))
    if random.random() < 0.2:
        worker = workers[int(random.random() * len(workers))].id
        start = 1 + random.random() * 8
        kind = "drain" if random.random() < 0.6 else "disable"
        actions.append(Action(start, kind, 0, worker))
        if kind == "disable":
            actions.append(Action(start + random.random() * 4, "enable", 0, worker))
    return actions


def _fault(random: Random, workers: tuple[WorkerSpec, ...]) -> Fault:
    kind = KINDS[int(random.random() * len(KINDS))]
    when = random.random() * FAULTS_S
    length = random.random() ** 2 * 8
    if kind in MESSAGE_FAULTS:
        op = MESSAGES[int(random.random() * len(MESSAGES))]
        length = 8 * random.random()
        if kind == "last_words":
            op, length = LAST_WORDS[int(random.random() * len(LAST_WORDS))], 5.5 + 4.5 * random.random()
        return Fault(kind, 1 + int(random.random() ** 2 * 5), op, length)
    if kind == "crash_point":
        name = CRASH_POINTS[int(random.random() * len(CRASH_POINTS))]
        return Fault(kind, 1 + int(random.random() ** 2 * 6), name, length / 2)
    if kind in ("cut", "stall_step", *HINT_FAULTS):
        count = 15 if kind in HINT_FAULTS else 400
        return Fault(kind, 1 + int(random.random() * count), length_s=min(length / 3, 1.5))
    if kind in HOST_FAULTS:
        hosts = [worker.id for worker in workers]
        if kind != "hang":
            hosts += [*hosts, "orchestrator0", "recovery0"]
        return Fault(kind, when, hosts[int(random.random() * len(hosts))], length)
    return Fault(kind, when, length_s=length / 3 if kind == "outage" else length)
