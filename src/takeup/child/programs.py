"""What the kernel itself starts when a program is started: its loader, or the reader of a script."""

import struct
from pathlib import Path

HEAD_BYTES = 4096
CHAIN_MAX = 4
ELF = {b"\x7fELF\x02": ("<Q", 32, 54, "<Q16xQ", 8), b"\x7fELF\x01": ("<I", 28, 42, "<I8xI", 4)}
"""By kind: where the table of parts is named, the size of an entry, and the place of a part."""
LOADER = 3


def started_with(program: Path) -> tuple[Path, ...]:
    """The program and whatever else must be allowed to run for it to run."""
    found = [program]
    while len(found) < CHAIN_MAX and (another := _reader_of(found[-1])) is not None:
        found.append(another)
    return tuple(found)


def _reader_of(program: Path) -> Path | None:
    try:
        with program.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if head.startswith(b"#!"):
        words = head[2:].splitlines()[0].split()
        return Path(words[0].decode(errors="replace")) if words else None
    return _loader_in(head) if head[:5] in ELF else None


def _loader_in(head: bytes) -> Path | None:
    """The loader that an ELF file names; a static one names none."""
    number, table_at, sizes_at, place, place_at = ELF[head[:5]]
    (table,) = struct.unpack_from(number, head, table_at)
    size, count = struct.unpack_from("<HH", head, sizes_at)
    for at in range(table, min(table + size * count, len(head) - size + 1), size):
        if struct.unpack_from("<I", head, at)[0] == LOADER:
            start, length = struct.unpack_from(place, head, at + place_at)
            return Path(head[start : start + length].rstrip(b"\x00").decode(errors="replace"))
    return None
