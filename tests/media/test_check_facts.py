"""Rules whose defects cost too much to make: the facts of a real package are changed instead.

Together with the planted defects, every rule is seen to fire.
"""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from takeup.media.check.access import Served, open_access
from takeup.media.check.compare import Compared, look_into
from takeup.media.check.decode import Decoded
from takeup.media.check.package import Package, gather
from takeup.media.check.report import verdict_of
from takeup.media.check.rules import RULES
from takeup.media.source import look_at
from takeup.media.tools import Tools
from tests.media.test_check_defects import DEFECTS, PICTURES

Change = Callable[[Package], None]


def told(**values: object) -> Change:
    """The tools say something else of the first picture track."""
    return lambda package: package.pictures[0].told.update(values)


def header(**values: object) -> Change:
    def change(package: Package) -> None:
        track = package.pictures[0]
        assert track.header
        track.header = replace(track.header, **values)

    return change


def both(*changes: Change) -> Change:
    def change(package: Package) -> None:
        for one in changes:
            one(package)

    return change


def negative(package: Package) -> None:
    piece = package.pictures[0].pieces[0]
    piece.fragments = (replace(piece.fragments[0], has_negative=True), *piece.fragments[1:])


def fast(package: Package) -> None:
    package.pictures[0].timescale *= 5


def few_keys(package: Package) -> None:
    for piece in package.pictures[0].pieces:
        piece.keys = piece.keys[:1]


def holes(package: Package) -> None:
    sound = package.sounds[0]
    first = sound.pieces[0]
    sound.pieces = [replace(first, start=first.start + n * first.duration) for n in range(4)]
    edge = first.duration / sound.timescale
    package.decoded = {sound.name: Decoded(silences=[(n * edge - 0.01, n * edge + 0.01) for n in (1, 2, 3)])}


def hidden(package: Package) -> None:
    package.decoded = {"90p": Decoded(frames=224, wanted=225)}


def unseen(package: Package) -> None:
    package.decoded = {"90p": Decoded(skipped="there is no decoder")}


def unreadable(package: Package) -> None:
    package.decoded = {"90p": Decoded(faults=[("90p/00001.m4s", "error while decoding")])}


def served(package: Package) -> None:
    package.access.served["master.m3u8"] = Served("text/plain", "", "", 100_000)
    package.access.served["90p/00001.m4s"] = Served("video/mp4", "", "", 100_000)


def longer(package: Package) -> None:
    for piece in package.pictures[0].pieces:
        piece.duration += 10


def without_sound(package: Package) -> None:
    package.tracks = package.pictures


CHANGES: dict[str, tuple[str, Change]] = {
    "fields": ("C6.fields", told(field_order="tt")),
    "pixels that are not square": ("C7.shape", told(sample_aspect_ratio="4:3")),
    "rotation": ("C7.shape", told(side_data_list=[{"rotation": -90}])),
    "an odd side": ("C7.shape", told(width=161)),
    "H.264 with ten bits": ("C8.depth", told(pix_fmt="yuv420p10le")),
    "HDR with eight bits": ("C8.range", told(color_transfer="smpte2084")),
    "HDR without colours": ("C22.colour", both(told(color_transfer="arib-std-b67"), header(colour=None))),
    "HEVC as hev1": ("C22.tag", header(entry="hev1")),
    "moved twice": ("C19.offsets", both(header(edit=2), negative)),
    "too many frames a second": ("C31.rate", fast),
    "keys far apart": ("C31.keys", few_keys),
    "holes at borders": ("C13.joints", holes),
    "a picture that does not come out": ("C36.frames", hidden),
    "a piece that does not decode": ("C36.decode", unreadable),
    "a server that says nothing": ("C30.cache", served),
    "a server that packs nothing": ("C30.packed", served),
    "a server that says plain text": ("C30.type", served),
    "longer than the source": ("C4.length", longer),
    "larger than the source": ("C7.larger", told(height=200, width=400)),
    "a buffer that runs dry": ("C11.buffer", header(max_rate=1000, buffer_bytes=500)),
    "a codec that is not decoded here": ("C36.seen", unseen),
    "no sound": ("C15.source", without_sound),
}


@pytest.fixture(scope="module")
def facts(tools: Tools, good: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("facts")

    async def gathered() -> Package:
        package = await gather(open_access(str(good)), tools, folder)
        package.compared = Compared(await look_into(tools, look_at(source), folder))
        return package

    return asyncio.run(gathered())


@pytest.mark.parametrize("name", CHANGES)
def test_a_rule_fires_on_changed_facts(facts: Package, name: str):
    number, change = CHANGES[name]
    (rule,) = [rule for rule in RULES if rule.id == number]
    before = verdict_of(rule, facts)
    assert before.findings == ()
    changed = deepcopy(facts)
    change(changed)
    after = verdict_of(rule, changed)
    assert after.state == "failed", after


def test_every_rule_is_seen_to_fire():
    seen = {rule for rule, _ in (*DEFECTS.values(), *CHANGES.values())}
    seen |= {rule for _, rules in PICTURES.values() for rule in rules}
    assert {rule.id for rule in RULES} - seen == set()
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_times_with_an_edit_list_are_those_that_are_shown(facts: Package):
    track = deepcopy(facts).pictures[0]
    before = track.start_s
    assert track.header
    track.header = replace(track.header, edit=2, delay_s=0.5)
    assert track.start_s == before - Fraction(2, 25) + Fraction(1, 2)
