"""Packages that others made are read and judged by the same rules: ffmpeg's own muxers are the others."""

from pathlib import Path

import pytest

from takeup.media.check.access import open_access
from takeup.media.check.judge import Against, check
from takeup.media.check.report import Report
from takeup.media.fmp4 import boxes
from takeup.media.source import look_at
from takeup.media.tools import Tools
from tests.media.packages import H264, ffmpeg

TWO_SIZES = (
    "-filter_complex", "[0:v]split=2[a][b];[a]scale=160:90[va];[b]scale=128:72,setsar=1[vb]",
    "-map", "[va]", "-map", "[vb]", "-map", "0:a", *H264, "-c:a", "aac",
)  # fmt: skip
HLS = ("-f", "hls", "-hls_time", "4", "-hls_playlist_type", "vod")
MANIFEST = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT9S" minBufferTime="PT6S"
 profiles="urn:mpeg:dash:profile:isoff-on-demand:2011"><Period duration="PT9S">
<AdaptationSet contentType="video">
<Representation id="one" bandwidth="330000" codecs="{codec}" width="160" height="90">
<BaseURL>one.mp4</BaseURL>
<SegmentBase indexRange="{first}-{last}"><Initialization range="0-{end}"/></SegmentBase>
</Representation></AdaptationSet></Period></MPD>
"""


async def judged(tools: Tools, folder: Path, source: Path | None = None, *, decodes: bool = True) -> Report:
    against = Against(look_at(source)) if source else None
    return await check(open_access(str(folder)), tools, against, decodes=decodes)


def failed(report: Report) -> set[str]:
    return {finding.rule for finding in report.findings}


def states(report: Report) -> dict[str, str]:
    return {verdict.rule: verdict.state for verdict in report.verdicts}


async def test_hls_in_fragmented_mp4(tools: Tools, source: Path, tmp_path: Path):
    streams = "v:0,agroup:a v:1,agroup:a a:0,agroup:a"
    ffmpeg(
        tools, "-i", source, *TWO_SIZES, *HLS, "-hls_segment_type", "fmp4", "-master_pl_name", "master.m3u8",
        "-var_stream_map", streams, "-hls_fmp4_init_filename", "init_%v.mp4", "out_%v.m3u8", cwd=tmp_path,
    )  # fmt: skip
    report = await judged(tools, tmp_path, source)
    assert {"C25.peak", "C27.language", "C27.rate", "C28.exist"} <= failed(report), "what ffmpeg leaves out"
    passed = states(report)
    for rule in ("C2.pictures", "C1.frames", "C9.first", "C14.start", "C15.ends", "C18.time", "C36.decode"):
        assert passed[rule] == "passed"
    assert not report.ok


async def test_hls_in_mpeg_ts(tools: Tools, source: Path, tmp_path: Path):
    ffmpeg(tools, "-i", source, *H264, "-c:a", "aac", *HLS, "out.m3u8", cwd=tmp_path)
    report = await judged(tools, tmp_path, source)
    assert report.ok
    passed = states(report)
    for rule in ("C2.pictures", "C2.even", "C9.first", "C15.ends", "C17.gap", "C36.decode", "C36.frames"):
        assert passed[rule] == "passed"
    assert passed["C18.time"] == passed["C20.sequence"] == "not applicable"
    (tmp_path / "out1.ts").unlink()
    assert "C36.files" in failed(await judged(tools, tmp_path, decodes=False))


async def test_hls_in_one_file(tools: Tools, source: Path, tmp_path: Path):
    single = ("-hls_segment_type", "fmp4", "-hls_flags", "single_file")
    ffmpeg(tools, "-i", source, "-an", *H264, *HLS, *single, "out.m3u8", cwd=tmp_path)
    report = await judged(tools, tmp_path)
    assert report.ok
    assert report.facts["tracks"][0]["pieces"] == 3


@pytest.mark.parametrize("is_single", [False, True])
async def test_dash(tools: Tools, source: Path, tmp_path: Path, *, is_single: bool):
    sets = "id=0,streams=v id=1,streams=a"
    ffmpeg(
        tools, "-i", source, *TWO_SIZES, "-f", "dash", "-seg_duration", "4", "-adaptation_sets", sets,
        *(("-single_file", "1") if is_single else ()), "manifest.mpd", cwd=tmp_path,
    )  # fmt: skip
    report = await judged(tools, tmp_path, source, decodes=False)
    assert report.ok, report.findings
    assert failed(report) == {"C33.period"}
    assert states(report)["C2.pictures"] == "passed"


async def test_dash_with_an_index_in_the_file(tools: Tools, source: Path, tmp_path: Path):
    file = tmp_path / "one.mp4"
    ffmpeg(
        tools, "-i", source, "-an", *H264, "-movflags",
        "+dash+global_sidx+empty_moov+default_base_moof+frag_keyframe", file,
    )  # fmt: skip
    index = next(box for box in boxes(file.read_bytes()) if box.kind == b"sidx")
    values = {"first": index.start, "last": index.end - 1, "end": index.start - 1, "codec": "avc1.42c00b"}
    (tmp_path / "manifest.mpd").write_text(MANIFEST.format(**values))
    report = await judged(tools, tmp_path, source, decodes=False)
    assert failed(report) == {"C15.source"}, "its sound was left out"
    assert report.facts["tracks"][0]["samples"] == 225
    file.unlink()
    assert "C36.files" in failed(await judged(tools, tmp_path, decodes=False))


X265 = "log-level=none:keyint=50:min-keyint=50:scenecut=0"
CODECS = {
    "libx265": ("-tag:v", "hvc1", "-x265-params", f"{X265}:open-gop=0"),
    "libsvtav1": ("-preset", "12", "-svtav1-params", "keyint=50:scd=0"),
    "libvpx-vp9": ("-cpu-used", "8", "-deadline", "realtime", "-g", "50", "-dash_segment_type", "mp4"),
}  # fmt: skip


@pytest.mark.parametrize("encoder", CODECS)
async def test_other_codecs(tools: Tools, source: Path, tmp_path: Path, encoder: str):
    ffmpeg(
        tools, "-i", source, "-an", "-t", "5", "-c:v", encoder, *CODECS[encoder], "-f", "dash",
        "-seg_duration", "2", "manifest.mpd", cwd=tmp_path,
    )  # fmt: skip
    passed = states(await judged(tools, tmp_path, decodes=False))
    for rule in ("C9.first", "C9.flags", "C26.dash", "C22.tag", "C32.times"):
        assert passed[rule] == "passed", rule
    text = (tmp_path / "manifest.mpd").read_text()
    (tmp_path / "manifest.mpd").write_text(text.replace('codecs="', 'codecs="x'))
    assert "C26.dash" in failed(await judged(tools, tmp_path, decodes=False))


async def test_keys_that_lean_on_earlier_pictures_are_found(tools: Tools, source: Path, tmp_path: Path):
    params = f"{X265}:open-gop=1:bframes=3"
    ffmpeg(
        tools, "-i", source, "-an", "-t", "5", "-c:v", "libx265", "-tag:v", "hvc1", "-x265-params", params,
        "-f", "dash", "-seg_duration", "2", "manifest.mpd", cwd=tmp_path,
    )  # fmt: skip
    assert "C9.first" in failed(await judged(tools, tmp_path, decodes=False))


async def test_sound_that_was_encoded_in_parts_is_heard(tools: Tools, tmp_path: Path):
    holes = "sine=duration=8,volume=0:enable='lt(mod(t+0.01,2),0.02)'"
    for name, tone in (("parts", holes), ("whole", "sine=duration=8")):
        (tmp_path / name).mkdir()
        ffmpeg(
            tools, "-f", "lavfi", "-i", tone, "-c:a", "aac", "-f", "hls", "-hls_time", "2",
            "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4", "out.m3u8", cwd=tmp_path / name,
        )  # fmt: skip
    assert "C13.joints" in failed(await judged(tools, tmp_path / "parts"))
    assert "C13.joints" not in failed(await judged(tools, tmp_path / "whole"))


async def test_the_check_finds_what_cutting_by_seconds_does(tools: Tools, source: Path, tmp_path: Path):
    """The trap of the checklist: counts and lengths are perfect, and frames are repeated and lost."""
    names = []
    for number in range(3):
        names.append(f"{number}.ts")
        ffmpeg(
            tools, "-ss", f"{number * 3 - (0.023 if number else 0)}", "-i", source, "-frames:v", "75", "-an",
            "-r", "25", *H264, "-bf", "0", "-output_ts_offset", str(number * 3), names[-1], cwd=tmp_path,
        )  # fmt: skip
    lines = [f"#EXTINF:3.000000,\n{name}" for name in names]
    head = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:3\n#EXT-X-PLAYLIST-TYPE:VOD\n"
    (tmp_path / "out.m3u8").write_text(head + "\n".join([*lines, "#EXT-X-ENDLIST\n"]))
    report = await judged(tools, tmp_path, source)
    assert states(report)["C1.frames"] == states(report)["C2.even"] == "passed"
    assert "C2.pictures" in failed(report)
