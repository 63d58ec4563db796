"""Which processes of a run are still there, wherever they hang in the tree."""

import time
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.01


def environment_mark(folder: Path) -> dict[str, str]:
    """Inherited by everything that is started with it, but by confined tools."""
    return {"TEST_FOLDER": str(folder)}


def left_of(folder: Path) -> list[str]:
    """The processes that carry the folder's mark or name the folder in their command, as the tools do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if str(folder).encode() in command + (entry / "environ").read_bytes():
                    found.append(f"{entry.name} {command!r}")
    return found


def left_after(folder: Path, seconds: float) -> list[str]:
    """Those that are still there after so long; the wait ends when there are none."""
    end = time.monotonic() + seconds
    while (found := left_of(folder)) and time.monotonic() < end:
        time.sleep(LOOK_S)
    return found
