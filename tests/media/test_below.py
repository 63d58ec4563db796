"""A process is killed with everything below it, whatever sessions these have made."""

import subprocess
import time

from takeup.child.below import is_alive, kill_with_all_below, processes_below

TREE = "setsid sh -c 'trap \"\" TERM; sleep 600 & setsid sleep 600 & wait' & sleep 600 & wait"
PROCESSES = 5
WITHIN_S = 10.0


def grown(pid: int) -> list[int]:
    """What is below, once all of it is there."""
    end = time.monotonic() + WITHIN_S
    while len(found := processes_below(pid)) < PROCESSES - 1 and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_all_below_a_process_are_gone_with_it():
    with subprocess.Popen(["sh", "-c", TREE], start_new_session=True) as root:  # noqa: S607
        below = grown(root.pid)
        assert len(below) == PROCESSES - 1
        assert sorted(kill_with_all_below(root.pid)) == sorted([root.pid, *below])
        assert not any(map(is_alive, [root.pid, *below]))
        assert root.wait(WITHIN_S) == -9
    assert kill_with_all_below(root.pid) == [root.pid]
