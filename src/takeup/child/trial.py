"""Whether a child can be made to wait for what it reads: tried, for what a kernel says proves nothing."""

import os
import sys
import tempfile
from pathlib import Path

from takeup.child import calls
from takeup.child.guard import BEST_EFFORT, Guard
from takeup.child.run import Watch, run_child
from takeup.child.sparse import SparseCopy
from takeup.core.errors import TakeupError
from takeup.core.spans import Span

TRY_BYTES = 1 << 16
TRY_S_MAX = 10.0

_known: dict[str, bool] = {}


async def can_wait(sandbox: str = BEST_EFFORT) -> bool:
    """Whether children read sparse copies rightly here, confined like this."""
    if sandbox not in _known:
        _known[sandbox] = bool(calls.reading()) and await _does_wait(sandbox)
    return _known[sandbox]


async def _does_wait(sandbox: str) -> bool:
    """Let a child read what is written only when it asks."""
    with tempfile.NamedTemporaryFile() as file:
        os.truncate(file.name, TRY_BYTES)

        def fetch(start: int, end: int) -> list[Span]:
            os.pwrite(file.fileno(), b"x" * (end - start), start)
            return [(start, end)]

        copy = SparseCopy(Path(file.name), TRY_BYTES, 0, os.fstat(file.fileno()).st_ino, fetch)
        reads = (copy.path, *{Path(sys.base_prefix), Path(sys.prefix)})
        code = f"print(open({file.name!r}, 'rb').read() == b'x' * {TRY_BYTES})"
        guard = Guard(reads=reads, sandbox=sandbox, sparse=copy)
        command = (sys.executable, "-I", "-S", "-c", code)
        try:
            ended = await run_child(command, guard=guard, watch=Watch(wall_s=TRY_S_MAX))
        except (TakeupError, OSError):
            return False
        return ended.exit_code == 0 and ended.stdout == "True\n"
