"""Damages packages: each function takes the folder of one and plants one defect."""

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from takeup.media.fmp4 import TFHD_MOOF, boxes, need

Damage = Callable[[Path], None]
MASTER, MANIFEST = "master.m3u8", "manifest.mpd"
BIG, SMALL, SOUND = "90p", "72p", "sound-1"


def change(name: str, pattern: str, new: str | Callable[[re.Match[str]], str], count: int = 1) -> Damage:
    """Replace some text of a file; it must be there."""

    def damage(folder: Path) -> None:
        text, done = re.subn(pattern, new, (folder / name).read_text(), count=count)
        assert done, f"{pattern} is not in {name}"
        (folder / name).write_text(text)

    return damage


def times(factor: float) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{int(int(match[2]) * factor)}"


def without(name: str, pattern: str, count: int = 1) -> Damage:
    return change(name, pattern, "", count)


def both(*damages: Damage) -> Damage:
    def damage(folder: Path) -> None:
        for one in damages:
            one(folder)

    return damage


def patch(name: str, edit: Callable[[bytearray], None]) -> Damage:
    """Change some bytes of a file."""

    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        edit(data)
        (folder / name).write_bytes(data)

    return damage


def fragments(data: bytearray, box: bytes) -> Iterator[int]:
    """Where the content of this box of each fragment stands."""
    for moof in boxes(bytes(data)):
        if moof.kind == b"moof":
            path = (box,) if box == b"mfhd" else (b"traf", box)
            yield need(bytes(data), *path, start=moof.content, end=moof.end).content


def move(name: str, ticks: int) -> Damage:
    """All fragments of a piece at another time."""

    def edit(data: bytearray) -> None:
        for place in fragments(data, b"tfdt"):
            (time,) = struct.unpack_from(">Q", data, place + 4)
            struct.pack_into(">Q", data, place + 4, max(time + ticks, 0))

    return patch(name, edit)


def restart(name: str) -> Damage:
    """Time begins again in this piece."""

    def edit(data: bytearray) -> None:
        places = list(fragments(data, b"tfdt"))
        (first,) = struct.unpack_from(">Q", data, places[0] + 4)
        for place in places:
            (time,) = struct.unpack_from(">Q", data, place + 4)
            struct.pack_into(">Q", data, place + 4, time - first)

    return patch(name, edit)


def renumber(name: str) -> Damage:
    def edit(data: bytearray) -> None:
        for place in fragments(data, b"mfhd"):
            struct.pack_into(">I", data, place + 4, 1)

    return patch(name, edit)


def flag(name: str, fragment: int, sample: int, flags: int) -> Damage:
    """Say something else of one sample."""

    def edit(data: bytearray) -> None:
        run = list(fragments(data, b"trun"))[fragment]
        struct.pack_into(">I", data, run + 12 + sample * 16 + 8, flags)

    return patch(name, edit)


def place_elsewhere(data: bytearray) -> None:
    for place in fragments(data, b"tfhd"):
        flags = int.from_bytes(data[place + 1 : place + 4]) & ~TFHD_MOOF
        data[place + 1 : place + 4] = flags.to_bytes(3)


def first_units(data: bytearray) -> Iterator[int]:
    """Where the units of the first sample begin."""
    moof, mdat = (need(bytes(data), kind) for kind in (b"moof", b"mdat"))
    run = need(bytes(data), b"traf", b"trun", start=moof.content, end=moof.end).content
    (size,) = struct.unpack_from(">I", data, run + 12 + 4)
    place, end = mdat.content, mdat.content + size
    while place < end:
        yield place + 4
        place += 4 + int.from_bytes(data[place : place + 4])


def no_idr(data: bytearray) -> None:
    """The first picture says of itself that it needs others."""
    for unit in first_units(data):
        if data[unit] & 0x1F == 5:
            data[unit] = data[unit] & 0xE0 | 1


def garbage(data: bytearray) -> None:
    """The first picture is rubbish behind its first bytes."""
    unit = list(first_units(data))[-1]
    for place in range(unit + 12, unit + 400):
        data[place] = data[place] * 7 + 13 & 0xFF


def cut_off(data: bytearray) -> None:
    del data[-200:]


def other_timescale(data: bytearray) -> None:
    place = need(bytes(data), b"moov", b"trak", b"mdia", b"mdhd").content
    (scale,) = struct.unpack_from(">I", data, place + 12)
    struct.pack_into(">I", data, place + 12, scale * 2)


def grow(data: bytearray, place: int, new: bytes, *path: bytes) -> None:
    """Put a box inside others, which become longer."""
    around = [need(bytes(data), *path[:depth]) for depth in range(1, len(path) + 1)]
    for box in around:
        struct.pack_into(">I", data, box.start, box.end - box.start + len(new))
    data[place:place] = new


def edit_list(data: bytearray) -> None:
    entry = struct.pack(">IIIIiI", 0, 1, 0, 0, 1024, 0x10000)[4:]
    elst = struct.pack(">I4sI", 8 + 4 + len(entry), b"elst", 0) + entry
    edts = struct.pack(">I4s", 8 + len(elst), b"edts") + elst
    grow(data, need(bytes(data), b"moov", b"trak").content, edts, b"moov", b"trak")


def second_track(data: bytearray) -> None:
    track = need(bytes(data), b"moov", b"trak")
    grow(data, track.end, bytes(data[track.start : track.end]), b"moov")


def swap(one: str, other: str) -> Damage:
    def damage(folder: Path) -> None:
        first, second = (folder / name for name in (one, other))
        first_bytes, second_bytes = first.read_bytes(), second.read_bytes()
        first.write_bytes(second_bytes)
        second.write_bytes(first_bytes)

    return damage


def remove(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def link_out(name: str) -> Damage:
    """The file lies elsewhere, and a link leads there."""

    def damage(folder: Path) -> None:
        away = folder.parent / "elsewhere.m4s"
        (folder / name).rename(away)
        (folder / name).symlink_to(away)

    return damage


def loop(name: str) -> Damage:
    """A link to itself."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(Path(name).name)

    return damage


def shorter(name: str) -> Damage:
    """Without its last piece."""
    return without(f"{name}/index.m3u8", r"#EXTINF:[^\n]*\n00002\.m4s\n")


TEXT_LIST = """#EXTM3U
#EXT-X-VERSION:7
#EXT-X-TARGETDURATION:6
#EXT-X-PLAYLIST-TYPE:VOD
#EXTINF:6.000000,
00001.vtt
#EXTINF:3.000000,
00002.vtt
#EXT-X-ENDLIST
"""
CUES = (
    "00:00:01.000 --> 00:00:02.000\nFirst\n",
    "00:00:05.000 --> 00:00:07.000\nAcross the border\n",
    "00:00:08.000 --> 00:00:08.500\nLast\n",
)
VTT = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:7200,LOCAL:00:00:00.000\n\n"


def add_text(folder: Path) -> None:
    """A text track that is right."""
    (folder / "text-1").mkdir()
    (folder / "text-1" / "index.m3u8").write_text(TEXT_LIST)
    (folder / "text-1" / "00001.vtt").write_text(VTT + "\n".join(CUES[:2]))
    (folder / "text-1" / "00002.vtt").write_text(VTT + "\n".join(CUES[1:]))
    line = '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="text",NAME="a",LANGUAGE="en",URI="text-1/index.m3u8"\n'
    master = (folder / MASTER).read_text().replace("#EXT-X-STREAM-INF", line + "#EXT-X-STREAM-INF", 1)
    (folder / MASTER).write_text(master.replace('AUDIO="sound"', 'AUDIO="sound",SUBTITLES="text"'))


def text(damage: Damage) -> Damage:
    return both(add_text, damage)
