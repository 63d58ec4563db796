"""Each planted defect is found by its rule, and by no rule in the package without it."""

from pathlib import Path

import pytest

from takeup.media.check.access import open_access
from takeup.media.check.judge import Against, check
from takeup.media.check.report import Report
from takeup.media.fmp4 import NOT_SYNC
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.media import damage as d
from tests.media.packages import make_package, make_source

PIECE_1, PIECE_2 = "00001.m4s", "00002.m4s"
TICKS = 1
"""One frame in ticks of the picture at 25 frames a second."""

LISTS: dict[str, tuple[str, d.Damage]] = {
    "wrong BANDWIDTH": ("C25.peak", d.change(d.MASTER, r"(INF:BANDWIDTH=)(\d+)", d.times(1.3))),
    "BANDWIDTH without the sound": ("C25.peak", d.change(d.MASTER, r"(INF:BANDWIDTH=)(\d+)", d.times(0.7))),
    "wrong AVERAGE-BANDWIDTH": ("C25.mean", d.change(d.MASTER, r"(AVERAGE-BANDWIDTH=)(\d+)", d.times(0.8))),
    "wrong CODECS": ("C26.codecs", d.change(d.MASTER, r'CODECS="avc1\.\w+,', 'CODECS="avc1.640028,')),
    "CODECS without the sound": ("C26.codecs", d.without(d.MASTER, r",mp4a\.40\.2")),
    "wrong RESOLUTION": ("C27.size", d.change(d.MASTER, "RESOLUTION=160x90", "RESOLUTION=320x180")),
    "wrong FRAME-RATE": ("C27.rate", d.change(d.MASTER, r"FRAME-RATE=25\.000", "FRAME-RATE=24.000")),
    "wrong VIDEO-RANGE": ("C27.range", d.change(d.MASTER, "VIDEO-RANGE=SDR", "VIDEO-RANGE=PQ")),
    "no CLOSED-CAPTIONS": ("C27.captions", d.without(d.MASTER, ",CLOSED-CAPTIONS=NONE")),
    "no LANGUAGE": ("C27.language", d.without(d.MASTER, r'LANGUAGE="\w+",')),
    "a group that does not exist": ("C16.group", d.change(d.MASTER, 'AUDIO="sound"', 'AUDIO="other"')),
    "a variant without its group": ("C16.group", d.without(d.MASTER, ',AUDIO="sound"')),
    "a sound codec without sound": (
        "C16.none",
        d.both(d.without(d.MASTER, r"#EXT-X-MEDIA.*\n"), d.without(d.MASTER, ',AUDIO="sound"', 0)),
    ),
    "EXTINF wrong": ("C5.pieces", d.change(f"{d.BIG}/index.m3u8", r"EXTINF:6\.000000", "EXTINF:5.900000")),
    "EXTINF rounded": ("C5.drift", d.change(f"{d.BIG}/index.m3u8", r"EXTINF:6\.000000", "EXTINF:6.003")),
    "TARGETDURATION too small": ("C24.target", d.change(f"{d.BIG}/index.m3u8", r"TION:\d+", "TION:5")),
    "TARGETDURATION not the same": ("C24.same", d.change(f"{d.BIG}/index.m3u8", r"TION:\d+", "TION:8")),
    "long target": ("C31.length", d.change(f"{d.BIG}/index.m3u8", r"TION:\d+", "TION:12")),
    "no ENDLIST": ("C23.end", d.without(f"{d.SMALL}/index.m3u8", "#EXT-X-ENDLIST\n")),
    "no EXT-X-MAP": ("C23.map", d.without(f"{d.SMALL}/index.m3u8", r"#EXT-X-MAP.*\n")),
    "no type": ("C23.type", d.without(f"{d.SMALL}/index.m3u8", r"#EXT-X-PLAYLIST-TYPE.*\n")),
    "old version": ("C23.version", d.change(f"{d.SMALL}/index.m3u8", "VERSION:7", "VERSION:3")),
    "pieces that may need others": (
        "C23.independent",
        d.both(
            d.without(d.MASTER, "#EXT-X-INDEPENDENT-SEGMENTS\n"),
            d.without(f"{d.BIG}/index.m3u8", "#EXT-X-INDEPENDENT-SEGMENTS\n"),
        ),
    ),
    "a duration that is no number": ("C23.syntax", d.change(f"{d.BIG}/index.m3u8", r"INF:6\.0+", "INF:six")),
    "two headers": (
        "C12.header",
        d.change(
            f"{d.BIG}/index.m3u8", r"00001\.m4s\n", f'00001.m4s\n#EXT-X-MAP:URI="../{d.SMALL}/init.mp4"\n'
        ),
    ),
    "a rung shorter than the others": ("C24.lengths", d.shorter(d.SMALL)),
    "a rung with fewer pieces": ("C35.borders", d.shorter(d.SMALL)),
    "sound too short": ("C15.ends", d.shorter(d.SOUND)),
    "sound with fewer pieces": ("C17.grid", d.shorter(d.SOUND)),
    "no I-frame playlists": ("C28.exist", d.without(d.MASTER, r"#EXT-X-I-FRAME.*\n", 0)),
    "an I-frame range too long": (
        "C28.range",
        d.change(f"{d.BIG}/keys.m3u8", r"(BYTERANGE:)(\d+)(?=@)", d.times(1.5)),
    ),
    "an I-frame range elsewhere": (
        "C28.range",
        d.change(f"{d.BIG}/keys.m3u8", r"(@)([1-9]\d*)", d.times(0.5)),
    ),
    "an I-frame left out": (
        "C28.every",
        d.without(f"{d.BIG}/keys.m3u8", r"#EXTINF.*\n#EXT-X-BYTERANGE.*\n00001\.m4s\n"),
    ),
    "wrong I-frame BANDWIDTH": (
        "C28.rate",
        d.change(d.MASTER, r"(I-FRAME-STREAM-INF:BANDWIDTH=)(\d+)", d.times(2)),
    ),
    "a path that leads outside": (
        "C38.outside",
        d.change(f"{d.BIG}/index.m3u8", r"\n00002\.m4s", "\n../../secret.m4s"),
    ),
    "another server": (
        "C38.outside",
        d.change(f"{d.BIG}/index.m3u8", r"\n00002\.m4s", "\nhttp://localhost:1/x.m4s"),
    ),
}  # fmt: skip

DASH: dict[str, tuple[str, d.Damage]] = {
    "wrong timeline": ("C32.times", d.change(d.MANIFEST, r'd="150"', 'd="100"')),
    "a gap in the timeline": ("C33.gaps", d.change(d.MANIFEST, r't="152"', 't="153"')),
    "wrong presentationTimeOffset": (
        "C33.start",
        d.change(d.MANIFEST, 'presentationTimeOffset="2"', 'presentationTimeOffset="9"'),
    ),
    "wrong mediaPresentationDuration": (
        "C34.duration",
        d.change(d.MANIFEST, 'mediaPresentationDuration="PT9S"', 'mediaPresentationDuration="PT8S"'),
    ),
    "a period that is too long": ("C33.cover", d.change(d.MANIFEST, ' duration="PT9S"', ' duration="PT10S"')),
    "a period without its length": ("C33.period", d.without(d.MANIFEST, ' duration="PT9S"')),
    "wrong @codecs": ("C26.dash", d.change(d.MANIFEST, r'codecs="avc1\.\w+"', 'codecs="avc1.640028"')),
    "wrong @height": ("C27.dash", d.change(d.MANIFEST, ' height="90"', ' height="180"')),
    "wrong @frameRate": ("C27.dash", d.change(d.MANIFEST, 'frameRate="25"', 'frameRate="30000/1001"')),
    "wrong @maxWidth": ("C34.most", d.change(d.MANIFEST, 'maxWidth="160"', 'maxWidth="1920"')),
    "@bandwidth too low": ("C25.dash", d.change(d.MANIFEST, r'(bandwidth=")(\d+)', d.times(0.5))),
    "sound called video": ("C32.sets", d.change(d.MANIFEST, 'contentType="audio"', 'contentType="video"')),
    "no @lang": ("C32.language", d.without(d.MANIFEST, r' lang="\w+"')),
    "the wrong profile": ("C34.profile", d.change(d.MANIFEST, "isoff-live", "isoff-on-demand")),
    "a DOCTYPE": ("C34.syntax", d.change(d.MANIFEST, "<MPD", '<!DOCTYPE x [<!ENTITY a "b">]><MPD')),
}

BOXES: dict[str, tuple[str, d.Damage]] = {
    "sync flag on a picture that is no IDR": ("C9.flags", d.flag(f"{d.BIG}/{PIECE_1}", 0, 10, 0x2000000)),
    "first picture no IDR": ("C9.first", d.patch(f"{d.BIG}/{PIECE_2}", d.no_idr)),
    "a key not on the grid": ("C9.grid", d.flag(f"{d.SMALL}/{PIECE_1}", 1, 0, NOT_SYNC)),
    "tfdt restart": ("C18.time", d.restart(f"{d.BIG}/{PIECE_2}")),
    "tfdt gap": ("C18.time", d.move(f"{d.BIG}/{PIECE_2}", 25 * TICKS)),
    "a hole in time": ("C2.even", d.move(f"{d.BIG}/{PIECE_2}", 25 * TICKS)),
    "a rung that starts late": (
        "C24.start",
        d.both(*(d.move(f"{d.BIG}/{piece}", TICKS) for piece in (PIECE_1, PIECE_2))),
    ),
    "time that wraps": ("C21.wrap", d.move(f"{d.BIG}/{PIECE_1}", 1 << 40)),
    "sequence number repeated": ("C20.sequence", d.renumber(f"{d.BIG}/{PIECE_2}")),
    "swapped segments": ("C18.time", d.swap(f"{d.BIG}/{PIECE_1}", f"{d.BIG}/{PIECE_2}")),
    "swapped segments of sound": ("C20.sequence", d.swap(f"{d.SOUND}/{PIECE_1}", f"{d.SOUND}/{PIECE_2}")),
    "sound gap": ("C17.gap", d.move(f"{d.SOUND}/{PIECE_2}", 4800)),
    "sound that starts late": (
        "C14.start",
        d.both(*(d.move(f"{d.SOUND}/{piece}", 9600) for piece in (PIECE_1, PIECE_2))),
    ),
    "missing segment": ("C36.files", d.remove(f"{d.BIG}/{PIECE_2}")),
    "a playlist that is missing": ("C36.files", d.remove(f"{d.BIG}/index.m3u8")),
    "a link that leads outside": ("C38.outside", d.link_out(f"{d.BIG}/{PIECE_2}")),
    "truncated segment": ("C20.whole", d.patch(f"{d.BIG}/{PIECE_2}", d.cut_off)),
    "another timescale": ("C21.timescale", d.patch(f"{d.SMALL}/init.mp4", d.other_timescale)),
    "edit list in one rendition only": ("C14.edits", d.patch(f"{d.SOUND}/init.mp4", d.edit_list)),
    "two tracks in one file": ("C20.tracks", d.patch(f"{d.SMALL}/init.mp4", d.second_track)),
    "places not counted from the fragment": ("C20.place", d.patch(f"{d.BIG}/{PIECE_1}", d.place_elsewhere)),
}  # fmt: skip

TEXTS: dict[str, tuple[str, d.Damage]] = {
    "no X-TIMESTAMP-MAP": ("C29.map", d.text(d.without("text-1/00001.vtt", r"X-TIMESTAMP.*\n"))),
    "X-TIMESTAMP-MAP of another clock": (
        "C29.map",
        d.text(d.change("text-1/00002.vtt", "MPEGTS:7200", "MPEGTS:907200")),
    ),
    "a cue not repeated": (
        "C29.edges",
        d.text(d.without("text-1/00002.vtt", r"00:00:05.*\nAcross.*\n\n")),
    ),
    "a cue that ends before it begins": (
        "C29.order",
        d.text(d.change("text-1/00001.vtt", "00:00:02.000", "00:00:00.500")),
    ),
    "a text that is no WebVTT": ("C29.read", d.text(d.without("text-1/00001.vtt", "WEBVTT"))),
    "a text that is too short": (
        "C29.cover",
        d.text(d.without("text-1/index.m3u8", r"#EXTINF:3.*\n00002\.vtt\n")),
    ),
}

DEFECTS = {**LISTS, **{f"DASH: {name}": one for name, one in DASH.items()}, **BOXES, **TEXTS}


async def judged(tools: Tools, folder: Path, source: Path | None = None, *, decodes: bool = False) -> Report:
    against = Against(look_at(source)) if source else None
    return await check(open_access(str(folder)), tools, against, decodes=decodes)


def failed(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings}


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_defect_is_found(tools: Tools, copy: Path, name: str):
    rule, damage = DEFECTS[name]
    damage(copy)
    report = await judged(tools, copy)
    found = [finding for finding in report.findings if finding.rule == rule]
    assert found, f"{rule} did not find it; found: {report.findings}"
    assert all(finding.where and finding.message and finding.hint for finding in found)
    assert report.ok == all(finding.severity == "warning" for finding in report.findings)


@pytest.mark.parametrize("has_text", [False, True])
async def test_the_package_without_a_defect_is_clean(
    tools: Tools, copy: Path, source: Path, *, has_text: bool
):
    if has_text:
        d.add_text(copy)
    report = await judged(tools, copy, source, decodes=True)
    assert report.findings == []
    assert report.ok
    assert {v.rule for v in report.verdicts if v.state == "not applicable"} == {
        *({"C29.map", "C29.order", "C29.edges", "C29.read", "C29.cover"} if not has_text else ()),
        "C30.cache",
        "C30.packed",
        "C30.type",
    }


async def test_garbage_does_not_decode(tools: Tools, copy: Path):
    d.patch(f"{d.BIG}/{PIECE_1}", d.garbage)(copy)
    assert "C36.decode" in failed(await judged(tools, copy, decodes=True))


async def test_pictures_that_no_decoder_shows_are_counted(tools: Tools, copy: Path):
    d.patch(f"{d.BIG}/{PIECE_2}", d.no_idr)(copy)
    assert failed(await judged(tools, copy, decodes=True)) & {"C36.frames", "C36.decode"}


SWAPPED = " ".join(map(str, [*range(60), 61, 60, *range(62, 225)]))
PICTURES = {
    "doubled": (("select='not(eq(n,60))'", "fps=25"), {"C2.pictures"}),
    "dropped": (("select='not(eq(n,60))'", "setpts=N/25/TB"), {"C1.frames", "C2.pictures"}),
    "swapped": ((f"shuffleframes={SWAPPED}",), {"C2.pictures"}),
    "doubled at the end": (("select='not(eq(n,224))'", "tpad=stop=1:stop_mode=clone"), {"C2.pictures"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PICTURES)
async def test_wrong_pictures_are_found(tools: Tools, source: Path, tmp_path: Path, name: str):
    filters, rules = PICTURES[name]
    other = make_source(tools, tmp_path / "other.mp4", *filters)
    folder = await make_package(tools, other, tmp_path / "made")
    assert failed(await judged(tools, folder)) == set(), "by counts and times alone nothing is wrong"
    report = await judged(tools, folder, source)
    assert rules <= failed(report)
    (finding,) = [finding for finding in report.findings if finding.rule == "C2.pictures"]
    assert ("the first is 224" if name == "doubled at the end" else "the first is 60") in finding.message
    assert failed(await judged(tools, folder, other)) == set(), "it is right for its own source"


async def test_wrong_pictures_are_found_in_places_of_a_long_package(
    tools: Tools, source: Path, tmp_path: Path
):
    late = make_source(tools, tmp_path / "late.mp4", "tpad=start=1:start_mode=clone", "trim=end_frame=225")
    folder = open_access(str(await make_package(tools, late, tmp_path / "made")))
    for against, rules in ((late, set()), (source, {"C2.pictures"})):
        frames = (await survey(tools, look_at(against))).index
        report = await check(folder, tools, Against(look_at(against), frames, sample=1), decodes=False)
        assert failed(report) == rules
