"""Which tests run only with `make chaos`: they take minutes, or say once more what others say."""

import re

LONG = (
    r"media/test_drift\.py::",
    r"videos/test_full_disk\.py::test_a_worker_elsewhere",
    r"videos/test_dying\.py::test_a_file_that_is_fetched.*\[intake\.after (receive|add)\]",
    r"videos/test_dying\.py::test_taking_a_file.*\[intake\.after (begin|receive)\]",
    r"videos/test_dying\.py::test_a_(file_of_which.*\[intake\.after receive|deleted.*#2)\]",
    r"browser/test_every_kind\.py::",
    r"media/test_killing\.py::test_killed_twenty_times",
    r"control/test_(engine_run|ten_thousand)\.py::",
    r"sim/test_schedules\.py::test_no_schedule_breaks_an_invariant\[([3-9]|1\d)\]",
    r"conformance/test_(cases\.py::test_case|walks\.py::.*)\[(sqlite-memory|postgres18)",
    r"conformance/test_cases\.py::test_case\[duckdb-(matrix|matrix_other|outbox|late|archive|fan)\.",
    r"conformance/test_walks\.py::.*\[duckdb\]",
    r"store/test_explain\.py::.*\[DONE\]",
    r"chaos/test_zombies\.py::test_(work_of_a_dead|a_stopped_worker|loops_that_restart|a_task_that_kills).*\[sqlite\]",
    r"engine/test_worker\.py::test_a_stage_that_blocks_for_three_leases.*\[sqlite\]",
    r"cli/test_control\.py::.*\[duckdb\]",
    r"cli/test_control\.py::test_(work_ends|a_row_is_claimed_renewed|a_stale_ticket).*\[sqlite\]",
    r"control/test_import_kill\.py::.*\[control import\.(after backup|before backup rename)\]",
    r"control/test_import_kill\.py::.*\[control import\.after batch#[23]\]",
    r"media/test_kinds\.py::.*\[(portrait|cinema|old television|23\.976|29\.97|50|60|webm|avi|mpeg-ps|gif)\]",
    r"media/test_kinds\.py::.*\[(three languages|longer sound|shorter sound|no sound|late start)\]",
    r"media/test_kinds\.py::.*\[(hlg|hdr10|turned by 180)\]",
    r"media/test_afar\.py::.*\[postgres15\]",
    r"api/test_refusals\.py::.*\[sqlite\]",
    r"api/test_(worker_files|revoked|repeats|uploads|videos|sparse|readers|ended_meanwhile)\.py::.*\[.*postgres15",
    r"videos/test_(racing|keeper|receiving)\.py::.*\[.*postgres15",
)


def is_long(name: str) -> bool:
    """Whether the test of this name is one of them."""
    return any(re.search(pattern, name) for pattern in LONG)
