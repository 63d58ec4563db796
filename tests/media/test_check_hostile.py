"""What anybody may write into a package is judged, or refused in one line; nothing hangs."""

import random
import time
from pathlib import Path

import pytest

from takeup.media.check import texts, tracks
from takeup.media.check.access import Span, open_access
from takeup.media.check.headers import read_header
from takeup.media.check.index_box import read_index
from takeup.media.check.joined import CHUNK_S, chunks
from takeup.media.check.judge import check
from takeup.media.check.manifest import read_manifest
from takeup.media.check.playlists import attributes_of, read_master, read_playlist
from takeup.media.check.texts import TextPiece
from takeup.media.check.tracks import Piece, Track
from takeup.media.errors import MediaError
from takeup.media.tools import Tools
from tests.media import damage as d

ROUNDS = 150
LONG = "9" * 5000


def spoiled(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, some cut out, some doubled."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(found))
        match chance.randrange(3):
            case 0:
                found[place] = chance.choice((0, 1, 0x7F, 0xFF, chance.randrange(256)))
            case 1:
                del found[place : place + chance.randint(1, 40)]
            case 2:
                found[place:place] = found[place : place + chance.randint(1, 40)]
        found = found or bytearray(b"x")
    return bytes(found)


@pytest.mark.parametrize("seed", range(3))
def test_spoiled_files_are_judged_or_refused(good: Path, seed: int):
    chance = random.Random(seed)
    header = (good / d.BIG / "init.mp4").read_bytes()
    piece = (good / d.BIG / "00002.m4s").read_bytes()
    lists = [(good / name).read_bytes() for name in (d.MASTER, f"{d.BIG}/keys.m3u8")]
    manifest = (good / d.MANIFEST).read_bytes()
    refused = 0
    for _ in range(ROUNDS):
        for read, data in (
            (read_header, header),
            (lambda data: read_master(data.decode("utf-8", "replace")), lists[0]),
            (lambda data: read_playlist(data.decode("utf-8", "replace")), lists[1]),
            (read_manifest, manifest),
            (lambda data: read_index(data, Span(0, len(data))), b"\0\0\0\x2csidx" + bytes(36)),
        ):
            try:
                read(spoiled(data, chance))
            except MediaError as error:
                refused += len(str(error).splitlines())
        track = Track("x", "picture", 25, read_header(header))
        one = Piece("x", None)
        tracks.scan(track, one, spoiled(piece, chance))
        texts.scan(TextPiece("x", one.told_s or 0), spoiled(d.VTT.encode() + d.CUES[0].encode(), chance))
    assert ROUNDS < refused <= 5 * ROUNDS, "in one line each"


@pytest.mark.parametrize(
    "damage",
    [
        d.change(f"{d.BIG}/index.m3u8", r"EXTINF:6\.0+", f"EXTINF:{LONG}"),
        d.change(f"{d.BIG}/index.m3u8", r"DURATION:\d+", f"DURATION:{LONG}"),
        d.change(f"{d.BIG}/keys.m3u8", r"BYTERANGE:\d+@\d+", f"BYTERANGE:{LONG}@{LONG}"),
        d.change(f"{d.BIG}/index.m3u8", r"\n00002\.m4s", "\n//[x"),
        d.change(f"{d.BIG}/index.m3u8", r"\n00002\.m4s", "\n" + "a" * 5000),
        d.change(d.MASTER, r"INF:BANDWIDTH=\d+", f"INF:BANDWIDTH={LONG}"),
        d.change(d.MANIFEST, r'bandwidth="\d+"', f'bandwidth="{LONG}"'),
        d.change(d.MANIFEST, r'timescale="\d+"', 'timescale="0"'),
        d.change(d.MANIFEST, r'd="150"', 'd="150" r="999999999"'),
        d.change(d.MANIFEST, r'mediaPresentationDuration="PT9S"', f'mediaPresentationDuration="PT{LONG}S"'),
        d.move(f"{d.BIG}/00002.m4s", (1 << 64) - 1000),
        d.loop(f"{d.BIG}/00001.m4s"),
        lambda folder: (folder / d.BIG / "00001.m4s").write_bytes(b""),
        lambda folder: (folder / d.BIG / "init.mp4").write_bytes(b"\0\0\0\x08moov"),
    ],
)  # fmt: skip
async def test_absurd_values_are_findings(tools: Tools, copy: Path, damage: d.Damage):
    damage(copy)
    report = await check(open_access(str(copy)), tools, decodes=False)
    assert not report.ok


def test_long_lines_are_read_at_once():
    begun = time.monotonic()
    for text in ("A" * 1_000_000, "A=" + " " * 1_000_000 + '"', 'A="' * 300_000, "A=1," * 200_000):
        attributes_of(text)
    assert time.monotonic() - begun < 5


MANY = """<MPD mediaPresentationDuration="PT100000S"><Period>
<SegmentTemplate timescale="1" duration="{every}" media="{name}"/>
<AdaptationSet contentType="video">{inside}</AdaptationSet></Period></MPD>"""
ONE = '<Representation id="a"/>'
MANY_FACTS = "<Representation " + " ".join(f"a{n}=''" for n in range(1000)) + "/>"


@pytest.mark.parametrize(
    ("every", "name", "inside", "says"),
    [
        (1, "$Number$", ONE * 200_000, "more than 1000 representations"),
        (1, "$Number$", ONE * 1000, "list more than 500000 segments together"),
        (1, "$Number%099d$" * 100, ONE, "more than 67108864 letters together"),
        (1, "a" * 10_000_000, ONE, "more than 2000 letters"),
        (100, "$RepresentationID$", f'<Representation id="{"a" * 1_000_000}"/>', "more than 2000 letters"),
        (100, "a", f"<BaseURL>{'a' * 1_000_000}</BaseURL>{ONE}", "more than 2000 letters"),
        (100, "a", MANY_FACTS, "100 attributes"),
    ],
    ids=["representations", "segments", "wide numbers", "long name", "long id", "long base", "attributes"],
)
async def test_a_manifest_that_stands_for_too_much_is_a_finding(
    tools: Tools, copy: Path, every: int, name: str, inside: str, says: str
):
    (copy / d.MANIFEST).write_text(MANY.format(every=every, name=name, inside=inside))
    begun = time.monotonic()
    report = await check(open_access(str(copy)), tools, decodes=False)
    assert time.monotonic() - begun < 15
    findings = [finding for verdict in report.verdicts for finding in verdict.findings]
    assert any(says in str(finding) for finding in findings)


def test_a_million_children_are_looked_through_once():
    begun = time.monotonic()
    data = MANY.format(every=100_000, name="a", inside="<x/>" * 1_000_000 + ONE * 500)
    assert len(read_manifest(data.encode()).representations) == 500
    assert time.monotonic() - begun < 15


def test_many_pieces_are_put_together_at_once():
    track = Track("x", "sound", 1, pieces=[Piece("x", None) for _ in range(100_000)])
    begun = time.monotonic()
    (whole,) = chunks(track)
    assert len(whole) == 100_000
    assert time.monotonic() - begun < 5


def test_pieces_are_put_together_up_to_a_length_and_to_a_fault():
    lengths = [30, 20, 20, 70, 10, 10, 50]
    track = Track("x", "sound", 1, pieces=[Piece("x", None, duration=length) for length in lengths])
    track.pieces[5].fault = "gone"
    found = [[piece.duration for piece in chunk] for chunk in chunks(track)]
    assert found == [[30, 20], [20], [70], [10], [50]]
    assert CHUNK_S == 60


def test_documents_inside_documents_are_refused():
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><MPD>&b;</MPD>'
    for data in (bomb.encode(), bomb.encode("utf-16"), b"<!doctype x><MPD/>"):
        with pytest.raises(MediaError, match=r"DOCTYPE|UTF-8"):
            read_manifest(data)
