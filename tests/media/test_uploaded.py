"""What a folder of strangers must be to be one stream, row by row, on folders wrong in one way each."""

import io
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from takeup.core.errors import BadArchive
from takeup.media.check.uploaded import check_stream
from tests.artifacts.tars import extract

MASTER = '#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-STREAM-INF:BANDWIDTH=1000,CODECS="avc1.640028"\n720p/index.m3u8\n'
INDEX = (
    '#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXT-X-MAP:URI="init.mp4"\n#EXTINF:6.0,\n00001.m4s\n#EXTINF:6.0,\n00002.m4s\n'
    "#EXT-X-ENDLIST\n"
)
MPD = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" mediaPresentationDuration="PT12S"><Period>
<AdaptationSet contentType="video"><SegmentTemplate timescale="1" startNumber="1"
  initialization="$RepresentationID$/init.mp4" media="$RepresentationID$/$Number%05d$.m4s">
<SegmentTimeline><S t="0" d="6" r="1"/></SegmentTimeline></SegmentTemplate>
<Representation id="720p" bandwidth="1000"/></AdaptationSet></Period></MPD>
"""


def box(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I4s", 8 + len(data), kind) + data


HEADER = box(b"ftyp", b"iso6") + box(b"moov", b"m" * 40)
PIECE = box(b"moof", b"f" * 40) + box(b"mdat", b"d" * 100)
TRANSPORT = (b"G" + bytes(187)) * 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "720p").mkdir()
    (tmp_path / "master.m3u8").write_text(MASTER)
    (tmp_path / "manifest.mpd").write_text(MPD)
    (tmp_path / "720p/index.m3u8").write_text(INDEX)
    (tmp_path / "720p/init.mp4").write_bytes(HEADER)
    for number in (1, 2):
        (tmp_path / f"720p/0000{number}.m4s").write_bytes(PIECE)
    (tmp_path / "poster.jpg").write_bytes(b"\xff\xd8\xff\xe0 picture")
    (tmp_path / "storyboard.vtt").write_text("WEBVTT\n")
    return tmp_path


def refused(folder: Path, match: str) -> None:
    with pytest.raises(BadArchive, match=match) as caught:
        check_stream(folder)
    assert caught.value.code == "bad_archive"


def test_a_stream_is_taken(folder: Path):
    check_stream(folder)
    (folder / "manifest.mpd").unlink()
    check_stream(folder)


def test_a_stream_of_transport_packets_is_taken(folder: Path):
    (folder / "manifest.mpd").unlink()
    for path in (folder / "720p").iterdir():
        path.unlink()
    (folder / "720p/index.m3u8").write_text(
        "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,http://title\na.ts\n"
    )
    (folder / "720p/a.ts").write_bytes(TRANSPORT)
    check_stream(folder)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda f: (f / "master.m3u8").unlink(), "no master"),
        (lambda f: (f / "master.m3u8").write_text(INDEX), "no other playlist"),
        (lambda f: (f / "master.m3u8").write_text("hello"), "EXTM3U"),
        (lambda f: (f / "master.m3u8").write_bytes(b"#EXTM3U\n\xff"), "UTF-8"),
        (lambda f: (f / "720p/00002.m4s").unlink(), "not there"),
        (lambda f: (f / "720p/init.mp4").unlink(), "not there"),
        (lambda f: (f / "720p/index.m3u8").unlink(), "not there"),
        (lambda f: (f / "720p/00003.m4s").write_bytes(PIECE), "no playlist"),
        (lambda f: (f / "720p/poster.jpg").write_bytes(b"\xff\xd8\xff"), "no playlist"),
        (lambda f: (f / "evil.html").write_text("<script>"), "no playlist"),
        (lambda f: (f / "link.jpg").symlink_to("/etc/passwd"), "neither"),
        (lambda f: os.mkfifo(f / "pipe.ts"), "neither"),
    ],
)
def test_s66_files_are_those_that_are_named(folder: Path, change: Callable[[Path], object], match: str):
    change(folder)
    refused(folder, match)


@pytest.mark.parametrize(
    "uri",
    [
        "http://evil/a.m4s",
        "file:///etc/passwd",
        "//host/a.m4s",
        "../720p/00001.m4s",
        "/etc/passwd",
        "data:,x",
        "00001.m4s?x=1",
        "00001.m4s#x",
        "%2e%2e/00001.m4s",
        "./00001.m4s",
        "a\\b.m4s",
        "{$x}",
        "crypto:00001.m4s",
    ],
)
def test_s67_names_stay_inside(folder: Path, uri: str):
    index = folder / "720p/index.m3u8"
    index.write_text(INDEX.replace("00002.m4s", uri))
    refused(folder, "plain name")
    index.write_text(INDEX.replace("init.mp4", uri))
    refused(folder, "plain name|leads nowhere")
    index.write_text(INDEX)
    (folder / "master.m3u8").write_text(MASTER + f'#EXT-X-MEDIA:TYPE=AUDIO,URI="{uri}"\n')
    refused(folder, "plain name|leads nowhere")


@pytest.mark.parametrize(
    "tag",
    [
        '#EXT-X-KEY:METHOD=AES-128,URI="00001.m4s"',
        "#EXT-X-KEY:METHOD=SAMPLE-AES",
        '#EXT-X-SESSION-KEY:METHOD=AES-128,URI="x"',
        '#EXT-X-MAP:URI="init.mp4",URI="http://evil"',
        '#EXT-X-MAP:URI="init.mp4",@,URI="x"',
        '#EXT-X-DATERANGE:ID="1",X-ASSET-LIST="https://evil/"',
        '#EXT-X-CONTENT-STEERING:SERVER-URI="steer.json"',
        '#EXT-X-PART:DURATION=1,URI="part.m4s"',
    ],
)
def test_s67_no_tag_leads_elsewhere(folder: Path, tag: str):
    (folder / "720p/index.m3u8").write_text(INDEX.replace("#EXTINF", f"{tag}\n#EXTINF", 1))
    refused(folder, "key|nowhere|plain name|not there")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<Period>", "<BaseURL>http://evil/</BaseURL><Period>"),
        ("<Period>", "<BaseURL>../</BaseURL><Period>"),
        ("<Period>", "<Location>http://evil/</Location><Period>"),
        ("<Period>", '<Period xmlns:x="http://www.w3.org/1999/xlink" x:href="http://evil/">'),
        ("$RepresentationID$/$Number", "http://evil/$Number"),
        ("init.mp4", "other.mp4"),
        ('r="1"', 'r="2"'),
        ("<MPD", '<!DOCTYPE x [<!ENTITY y "z">]><MPD'),
        ("</MPD>", ""),
    ],
)
def test_s67_the_manifest_too(folder: Path, old: str, new: str):
    (folder / "manifest.mpd").write_text(MPD.replace(old, new))
    refused(folder, "manifest.mpd|not there|plain name")


def test_a_manifest_with_names_of_its_own_is_read(folder: Path):
    changed = MPD.replace("$RepresentationID$/", "").replace("<Period>", "<BaseURL>720p/</BaseURL><Period>")
    (folder / "manifest.mpd").write_text(changed)
    check_stream(folder)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("720p/00001.m4s", b"<html><script>alert(1)</script></html>"),
        ("720p/00001.m4s", b""),
        ("720p/00001.m4s", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("720p/00001.m4s", PIECE + b"<html>"),
        ("720p/00001.m4s", PIECE[:-1]),
        ("720p/00001.m4s", box(b"moof") + box(b"evil") + box(b"mdat")),
        ("720p/00001.m4s", HEADER),
        ("720p/00001.m4s", TRANSPORT),
        ("720p/00001.m4s", b"#!/bin/sh\necho"),
        ("720p/00001.m4s", struct.pack(">I4sQ", 1, b"moof", 1 << 60)),
        ("720p/init.mp4", PIECE),
        ("720p/init.mp4", b"\x7fELF" + bytes(100)),
        ("poster.jpg", b"<svg/>"),
        ("storyboard.vtt", b"<html>"),
        ("poster.webp", b"RIFF\0\0\0\0AVI "),
    ],
)
def test_s68_files_are_what_their_names_say(folder: Path, name: str, data: bytes):
    (folder / name).write_bytes(data)
    refused(folder, "not what its name says")


@pytest.mark.parametrize("data", [b"", TRANSPORT[:-1], b"G" + bytes(186) + TRANSPORT, b"GIF89a" + bytes(370)])
def test_s68_packets_are_packets(folder: Path, data: bytes):
    (folder / "720p/index.m3u8").write_text(INDEX.replace("00002.m4s", "a.ts"))
    (folder / "720p/00002.m4s").rename(folder / "720p/a.ts")
    (folder / "manifest.mpd").unlink()
    (folder / "720p/a.ts").write_bytes(data)
    refused(folder, "not what its name says")


def test_a_package_of_ours_is_taken_as_a_worker_sends_it(good: Path, tmp_path: Path):
    sent = io.BytesIO()
    with tarfile.open(fileobj=sent, mode="w:gz") as tar:
        for path in sorted(good.rglob("*")):
            if path.is_file() and path.name != "index.html":  # the page is made here
                tar.add(path, path.relative_to(good).as_posix())
    found = extract(tmp_path, sent.getvalue())
    assert len(found) > 10
    check_stream(tmp_path)
    assert all((tmp_path / one.name).read_bytes() == (good / one.name).read_bytes() for one in found)
