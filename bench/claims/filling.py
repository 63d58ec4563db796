"""The full tables: a million waiting or finished tasks, copied in bulk from one that was loaded honestly."""

from bench.claims.cases import State
from bench.claims.loading import SEGMENTS_MAX

JOB_COLUMNS = (
    "pipeline, generation, user_id, priority, control, spec, spec_hash, created_at, updated_at, started_at"
)
STAGE_COLUMNS = (
    "stage, position, lane_id, phase, lease_s, stall_s, max_attempts, retry, version, splitter, expanded_at"
)
NEED_COLUMNS = "stage, needs, per_segment"
TASK_COLUMNS = (
    "pipeline, generation, phase, lane_id, priority, control, job_control, available_at, ready_at, "
    "max_attempts, lease_s, stall_s, parameters, splits, created_at"
)
TASK_PROGRESS = "status, attempt, epoch, result, progress_percent, started_at, finished_at"
AUDIT_COLUMNS = (
    "event, actor, from_status, to_status, logged_at, noun, job_id, task_id, worker_id, generation, epoch, "
    "attempt, request_id"
)
FINISHED = {"job": "'completed', j.started_at", "task": "'DONE', 1, 1, '{}', 100, t.created_at, t.created_at"}
WAITING = {"job": "'processing', NULL", "task": "'READY', 0, 0, NULL, 0, NULL, NULL"}
MOVES = ("'claim', 'worker', 'READY', 'RUNNING'", "'complete', 'holder', 'RUNNING', 'DONE'")


def fill_statements(state: State, count: int, template: str) -> list[str]:
    """Statements that add so many tasks, in jobs like the template job, which has one READY task.

    Tasks are numbered job by job, as loaded ones are. The jobs hold segment tasks only, no splitter. A
    finished task has the two audit rows of its claim and its completion.
    """
    job_count, segment_count = -(-count // SEGMENTS_MAX), min(count, SEGMENTS_MAX)
    numbers = (
        f"WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < {job_count}), "
        f"b(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM b WHERE n < {segment_count}) "
        "SELECT 'fill_' || CAST(a.n AS TEXT)"
    )
    ends = FINISHED if state == "finished" else WAITING
    jobs = (
        f"INSERT INTO jobs (id, status, finished_at, {JOB_COLUMNS}) {numbers}, {ends['job']}, "
        f"{_of('j', JOB_COLUMNS)} FROM jobs j CROSS JOIN a WHERE j.id = '{template}'"
    )
    stages = (
        f"INSERT INTO job_stages (job_id, {STAGE_COLUMNS}) {numbers}, {_of('s', STAGE_COLUMNS)} "
        f"FROM job_stages s CROSS JOIN a WHERE s.job_id = '{template}'"
    )
    needs = (
        f"INSERT INTO task_deps (job_id, {NEED_COLUMNS}) {numbers}, {_of('d', NEED_COLUMNS)} "
        f"FROM task_deps d CROSS JOIN a WHERE d.job_id = '{template}'"
    )
    tasks = (
        f"INSERT INTO tasks (job_id, stage, segment, {TASK_PROGRESS}, {TASK_COLUMNS}) {numbers}, t.stage, "
        f"b.n, {ends['task']}, {_of('t', TASK_COLUMNS)} FROM tasks t CROSS JOIN a CROSS JOIN b "
        f"WHERE t.job_id = '{template}' AND t.stage = 'work' ORDER BY a.n, b.n"
    )
    return [jobs, stages, needs, tasks, *(_audit(move) for move in MOVES if state == "finished")]


def _of(alias: str, columns: str) -> str:
    return ", ".join(f"{alias}.{column.strip()}" for column in columns.split(","))


def _audit(move: str) -> str:
    return (
        f"INSERT INTO audit ({AUDIT_COLUMNS}) SELECT {move}, t.created_at, 'task', t.job_id, t.id, 'filler', "
        "t.generation, 1, 1, 'fill' FROM tasks t WHERE t.job_id LIKE 'fill_%'"
    )
