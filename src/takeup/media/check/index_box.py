"""Reads the `sidx` box: where the pieces of a single file stand."""

import struct

from takeup.media.check.access import Span
from takeup.media.errors import MediaError
from takeup.media.fmp4 import need

ENTRY = 12


def read_index(data: bytes, span: Span) -> list[Span]:
    """The pieces that the box lists; `span` is where it was read from."""
    box = need(data, b"sidx")
    is_wide = data[box.content] == 1
    try:
        place = box.content + 12  # version, track, timescale
        (ahead,) = struct.unpack_from(">Q" if is_wide else ">I", data, place + (8 if is_wide else 4))
        place += 16 if is_wide else 8
        (count,) = struct.unpack_from(">H", data, place + 2)
        sizes = [struct.unpack_from(">I", data, place + 4 + n * ENTRY)[0] for n in range(count)]
    except struct.error as error:
        raise MediaError(f"the index of the file is cut off: {error}") from error
    if any(size >> 31 for size in sizes):
        raise MediaError("the index of the file leads to further indexes, which are not read")
    start = span.start + box.end + ahead
    found = []
    for size in sizes:
        found.append(Span(start, size))
        start += size
    return found
