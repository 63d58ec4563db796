"""The facts of MPEG-TS pieces: they have no boxes, so the tools tell what packets are in them."""

import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from takeup.media.check.access import Access
from takeup.media.check.joined import CHUNK_BYTES, join
from takeup.media.check.tracks import SAMPLES_MAX, Piece, Track
from takeup.media.errors import MediaError, TooLarge
from takeup.media.tools import Tools

SYNC = 0x47
TIMESCALE = 90_000
PROBE_S_MAX = 300.0
KINDS = {"video": "picture", "audio": "sound"}


def is_transport(data: bytes) -> bool:
    """Whether it begins like MPEG-TS."""
    return data[:1] == bytes((SYNC,))


async def scan(access: Access, tools: Tools, track: Track, folder: Path) -> Track | None:
    """Take the facts of every piece; the sound in the same files becomes a track of its own."""
    sound = Track(f"{track.name} (sound)", "sound", TIMESCALE)
    sound.pieces = [Piece(piece.address, piece.span) for piece in track.pieces]
    for group in _groups(track.pieces):
        await _scan(access, tools, (track, sound), group, folder)
    if track.count == 0 and sound.count:  # sound alone
        sound.name, sound.pieces = (
            track.name,
            [_sized(*pair) for pair in zip(sound.pieces, track.pieces, strict=True)],
        )
        track.kind, track.pieces, track.shown = "sound", sound.pieces, sound.shown
        return None
    return sound if sound.count else None


def _groups(pieces: Sequence[Piece]) -> Iterator[list[int]]:
    """The numbers of pieces that can be read, in runs of bounded size."""
    group: list[int] = []
    size = 0
    for number, piece in enumerate(pieces):
        if not piece.fault:
            group.append(number)
            size += piece.size
        if size > CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _sized(piece: Piece, like: Piece) -> Piece:
    piece.size, piece.told_s = like.size, like.told_s
    return piece


async def _scan(
    access: Access, tools: Tools, tracks: Sequence[Track], numbers: Sequence[int], folder: Path
) -> None:
    """Some pieces in one go; by the place of each packet we know in which piece it is."""
    picture = tracks[0]
    pieces = [picture.pieces[number] for number in numbers]
    edges = [0]
    for piece in pieces:
        edges.append(edges[-1] + piece.size)
    file = folder / "transport.ts"
    try:
        source = await join(access, picture, pieces, file)
        with tempfile.TemporaryFile() as lines:
            await tools.ffprobe(
                source, "-show_entries", "packet=codec_type,pts,duration,flags,pos", "-of", "csv=p=0",
                stdout=lines, wall_s=PROBE_S_MAX,
            )  # fmt: skip
            lines.seek(0)
            found = _packets([line.decode("ascii", "replace").strip().split(",") for line in lines], edges)
    except MediaError as error:
        for piece in pieces:
            piece.fault = str(error)
        return
    finally:
        file.unlink(missing_ok=True)
    for track in tracks:
        for place, number in enumerate(numbers):
            _fill(track, track.pieces[number], found.get((track.kind, place), []))


Packet = tuple[int, int, bool]


def _packets(rows: Sequence[Sequence[str]], edges: Sequence[int]) -> dict[tuple[str, int], list[Packet]]:
    found: dict[tuple[str, int], list[Packet]] = {}
    if len(rows) > SAMPLES_MAX:
        raise TooLarge(f"there are more than {SAMPLES_MAX} packets")
    last = 0
    for row in rows:
        kind, pts, duration, pos, flags = (*row, "", "", "", "", "")[:5]
        if kind not in KINDS or not pts.lstrip("-").isdecimal():
            continue
        last = bisect_right(edges, int(pos)) - 1 if pos.isdecimal() else last
        packet = int(pts), int(duration) if duration.isdecimal() else 0, "K" in flags
        found.setdefault((KINDS[kind], last), []).append(packet)
    return found


def _fill(track: Track, piece: Piece, packets: list[Packet]) -> None:
    if not packets:
        return
    times = sorted(pts for pts, _, _ in packets)
    track.shown.extend(times)
    piece.start, piece.count = times[0], len(times)
    piece.keys = tuple(pts for pts, _, is_key in packets if is_key)
    piece.starts_with_key = track.kind == "sound" or packets[0][2]
    lengths = [duration for _, duration, _ in packets]
    even = round((times[-1] - times[0]) / (len(times) - 1)) if len(times) > 1 else max(lengths)
    piece.duration = sum(lengths) if all(lengths) else times[-1] - times[0] + even
