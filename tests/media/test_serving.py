"""Which file an address means, and how it is answered; without a server."""

import gzip
import os
from http import HTTPStatus
from pathlib import Path

import pytest

from takeup.media.serving import ASK_AGAIN, FOREVER, SHORTLY, answer, packages

PIECE = bytes(range(256)) * 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package with versions, one without, and things around them that are nobody's business."""
    root = tmp_path / "served"
    for folder in ("film/v2/720p", "film/v2/entry", "plain/720p", "v1/720p"):
        (root / folder).mkdir(parents=True)
        if folder.endswith("720p"):
            (root / folder / "00001.m4s").write_bytes(PIECE)
    (root / "film/v2/entry/master.m3u8").write_text("#EXTM3U\n" * 50)
    (root / "film/current").symlink_to("v2")
    (root / "film/master.m3u8").symlink_to("current/entry/master.m3u8")
    (root / "plain/master.m3u8").write_text("#EXTM3U\n")
    (root / "plain/notes.txt").write_text("mine")
    (root / "plain/.hidden.mp4").write_bytes(b"x")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (root / "plain/out.mp4").symlink_to("../../secret.mp4")
    (root / "plain/up").symlink_to("../..")
    (root / "plain/loop.mp4").symlink_to("loop.mp4")
    os.mkfifo(root / "plain/pipe.mp4")
    return root


def test_links_are_followed_as_far_as_the_folder_reaches(root: Path):
    found = answer(root, "/film/master.m3u8", {})
    assert (found.status, found.file) == (HTTPStatus.OK, root / "film/v2/entry/master.m3u8")
    assert answer(root, "/film/current/720p/00001.m4s?x=1", {}).length == len(PIECE)


@pytest.mark.parametrize(
    "address",
    [
        "/../secret.mp4", "/%2e%2e/secret.mp4", "/plain/..%2f..%2fsecret.mp4", "/plain/out.mp4",
        "/plain/up/secret.mp4", "/plain/loop.mp4", "/plain/.hidden.mp4", "/plain/notes.txt",
        "/plain/none.mp4",
        "/plain/master.m3u8/x", "/plain/a%00.mp4", "/%ff.mp4", "/..\\secret.mp4", "/plain/pipe.mp4",
        "/" + "a" * 5000 + ".mp4", "//etc/passwd", "/plain/720p/", "http://other.example/plain/master.m3u8",
    ],
)  # fmt: skip
def test_nothing_else_is_handed_out(root: Path, address: str):
    found = answer(root, address, {})
    assert (found.status, found.file) == (HTTPStatus.NOT_FOUND, None)
    assert found.headers["Content-Length"] == str(len(found.body))


@pytest.mark.parametrize(
    ("asked", "status", "span"),
    [
        ("bytes=0-0", 206, (0, 1)),
        ("bytes=10-19", 206, (10, 10)),
        ("bytes=1000-", 206, (1000, 24)),
        ("bytes=-24", 206, (1000, 24)),
        ("bytes=-9999", 206, (0, 1024)),
        ("bytes=1000-9999", 206, (1000, 24)),
        ("bytes=1024-", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=5-4", 200, (0, 1024)),
        ("bytes=-", 200, (0, 1024)),
        ("bytes=0-1,5-6", 200, (0, 1024)),
        ("lines=0-1", 200, (0, 1024)),
        (f"bytes={'9' * 5000}-", 200, (0, 1024)),
    ],
)
def test_a_part_of_a_file(root: Path, asked: str, status: int, span: tuple[int, int] | None):
    found = answer(root, "/plain/720p/00001.m4s", {"Range": asked})
    assert found.status == status
    if span is None:
        assert found.headers["Content-Range"] == "bytes */1024"
        return
    assert (found.start, found.length, found.headers["Content-Length"]) == (*span, str(span[1]))
    if status == 206:
        assert found.headers["Content-Range"] == f"bytes {span[0]}-{sum(span) - 1}/1024"


def test_a_part_is_sent_only_of_the_file_that_the_client_knows(root: Path):
    known = answer(root, "/plain/720p/00001.m4s", {}).headers
    for told in (known["ETag"], known["Last-Modified"]):
        asked = {"Range": "bytes=0-1", "If-Range": told}
        assert answer(root, "/plain/720p/00001.m4s", asked).status == HTTPStatus.PARTIAL_CONTENT
    asked = {"Range": "bytes=0-1", "If-Range": '"old"'}
    assert answer(root, "/plain/720p/00001.m4s", asked).status == HTTPStatus.OK


def test_what_the_client_has_is_not_sent_again(root: Path):
    address = "/plain/720p/00001.m4s"
    known = answer(root, address, {}).headers
    for asked in (
        {"If-None-Match": known["ETag"]},
        {"if-none-match": f'"a", W/{known["ETag"]}'},
        {"If-Modified-Since": known["Last-Modified"]},
    ):
        found = answer(root, address, asked)
        assert (found.status, found.file, found.body) == (HTTPStatus.NOT_MODIFIED, None, b"")
    (root / address[1:]).write_bytes(PIECE + b"more")
    assert answer(root, address, {"If-None-Match": known["ETag"]}).status == HTTPStatus.OK
    assert answer(root, address, {"If-Modified-Since": "yesterday"}).status == HTTPStatus.OK


def test_playlists_are_packed_for_those_who_can_unpack_them(root: Path):
    packed = answer(root, "/film/master.m3u8", {"Accept-Encoding": "br, gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == b"#EXTM3U\n" * 50
    assert packed.headers["Content-Length"] == str(len(packed.body))
    plain = answer(root, "/film/master.m3u8", {"Accept-Encoding": "br, gzip;q=0"})
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] != packed.headers["ETag"]
    piece = answer(root, "/plain/720p/00001.m4s", {"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in piece.headers


def test_pieces_of_a_version_are_kept_forever_and_nothing_else(root: Path):
    told = {
        address: answer(root, address, {}).headers["Cache-Control"]
        for address in (
            "/film/v2/720p/00001.m4s",
            "/film/current/720p/00001.m4s",
            "/plain/720p/00001.m4s",
            "/v1/720p/00001.m4s",
            "/film/master.m3u8",
            "/film/v2/entry/master.m3u8",
        )
    }
    assert list(told.values()) == [FOREVER, ASK_AGAIN, ASK_AGAIN, ASK_AGAIN, SHORTLY, SHORTLY]
    served_alone = answer(root / "film", "/v2/720p/00001.m4s", {})
    assert served_alone.headers["Cache-Control"] == FOREVER


def test_types_are_those_of_a_stream(root: Path):
    for name, kind in {
        "a.m3u8": "application/vnd.apple.mpegurl", "a.mpd": "application/dash+xml", "a.mp4": "video/mp4",
        "a.m4s": "video/iso.segment", "a.vtt": "text/vtt; charset=utf-8", "a.jpg": "image/jpeg",
    }.items():  # fmt: skip
        (root / name).write_bytes(b"")
        found = answer(root, f"/{name}", {})
        assert (found.headers["Content-Type"], found.length) == (kind, 0)


def test_a_name_that_is_no_unicode_is_listed_and_found(root: Path):
    folder = root / os.fsdecode(b"\xff<")
    folder.mkdir()
    (folder / "master.m3u8").write_text("#EXTM3U\n")
    assert '<a href="%FF%3C/">?&lt;</a>' in answer(root, "/", {}).body.decode()
    assert answer(root, "/%FF%3C", {}).headers["Location"] == "%FF%3C/"
    assert b"<h1>?&lt;</h1>" in answer(root, "/%FF%3C/", {}).body


def test_folders_lead_to_pages(root: Path):
    moved = answer(root, "/plain", {})
    assert (moved.status, moved.headers["Location"]) == (HTTPStatus.MOVED_PERMANENTLY, "plain/")
    assert b"takeup watch" in answer(root, "/plain/", {}).body  # the player, for a package without a page
    (root / "plain/index.html").write_text("my own")
    assert answer(root, "/plain/", {}).file == root / "plain/index.html"
    (root / "<b>&").mkdir()
    (root / "<b>&/master.m3u8").write_text("#EXTM3U\n")
    listed = answer(root, "/", {}).body.decode()
    assert '<a href="%3Cb%3E%26/">&lt;b&gt;&amp;</a>' in listed
    assert listed.count("<li>") == 3
    assert packages(root) == ["<b>&", "film", "plain"]
