"""Puts pieces of a track into one file that the tools can read: they see files, never addresses."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from takeup.media.check.access import Access
from takeup.media.check.tracks import Piece, Track
from takeup.media.source import Source, look_at

CHUNK_BYTES = 64 << 20
CHUNK_S = 60
"""At most so much is looked at in one go; a single piece may be longer."""


def chunks(track: Track) -> Iterator[list[Piece]]:
    """The pieces that can be read, in runs of bounded length; one that cannot be read ends a run."""
    chunk: list[Piece] = []
    size = length = 0
    for piece in track.pieces:
        size, length = size + piece.size, length + piece.duration
        if chunk and (piece.fault or size > CHUNK_BYTES or length > CHUNK_S * track.timescale):
            yield chunk
            chunk, size, length = [], piece.size, piece.duration
        if piece.fault:
            size = length = 0
        else:
            chunk.append(piece)
    if chunk:
        yield chunk


async def join(access: Access, track: Track, pieces: Sequence[Piece], file: Path) -> Source:
    """The header and these pieces, one after the other."""
    with file.open("wb") as out:
        if track.file is not None:
            out.write(await access.read(*track.file))
        for piece in pieces:
            out.write(await access.read(piece.address, piece.span))
    return look_at(file)
