"""A copy of a file of which only what is read is here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from takeup.core.errors import TakeupError
from takeup.core.spans import Span


class Unfetched(TakeupError):
    """Bytes that a child was to read could not be fetched."""

    retryable = True
    http_status = 503
    help = "It is tried again; if it keeps failing, look why the server does not send the file."


@dataclass(frozen=True, slots=True)
class SparseCopy:
    """It is as long as the file, with holes; `fetch` brings bytes and tells which spans are here then."""

    path: Path
    size: int
    changed_ns: int
    """When the file itself was changed last."""
    inode: int
    """Of the very copy that was opened: another one of the same name has other holes."""
    fetch: Callable[[int, int], Iterable[Span]]
