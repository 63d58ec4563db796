"""A package is read from its folder or its server, and nothing beside it is."""

import functools
import gzip
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeup.media.check import access
from takeup.media.check.access import Folder, Missing, NoPackage, Outside, Span, Web, open_access
from takeup.media.check.judge import check
from takeup.media.errors import TooLarge
from takeup.media.tools import Tools


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, ranges too, and sends some askers elsewhere."""

    def do_GET(self) -> None:
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", "http://elsewhere.invalid/secret")
            self.end_headers()
        elif self.path.startswith("/round"):
            self.send_response(302)
            self.send_header("Location", "/round")
            self.end_headers()
        elif self.path.startswith("/packed"):
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(gzip.compress(b"#EXTM3U\n" + b"#" * 100_000))
        elif "Range" in self.headers:
            self._part()
        else:
            super().do_GET()

    def _part(self) -> None:
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        data = Path(self.translate_path(self.path)).read_bytes()[int(first) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: Any) -> None:
        """Nobody reads it."""


class Server(http.server.ThreadingHTTPServer):
    """Does not mind that somebody has read enough and hangs up."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@pytest.fixture
def server(good: Path) -> Iterator[str]:
    handler = functools.partial(Handler, directory=str(good))
    with Server(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


async def test_a_package_on_a_server_is_judged_as_in_its_folder(tools: Tools, good: Path, server: str):
    here = await check(open_access(str(good)), tools, decodes=False)
    there = await check(open_access(server), tools, decodes=False)
    assert here.ok
    assert there.ok
    assert here.facts == there.facts
    states = {verdict.rule: verdict.state for verdict in there.verdicts}
    assert states["C30.cache"] == "failed"
    assert all(
        verdict.state == states[verdict.rule]
        for verdict in here.verdicts
        if not verdict.rule.startswith("C30.")
    )


async def test_a_part_of_a_file_is_read(good: Path, server: str):
    whole = (good / "90p" / "00001.m4s").read_bytes()
    for found, address in ((Folder(good), "90p/00001.m4s"), (Web(server), f"{server}/90p/00001.m4s")):
        assert await found.read(address, Span(100, 50)) == whole[100:150]
        with pytest.raises(Missing, match="ends before"):
            await found.read(address, Span(len(whole) - 10, 50))
        with pytest.raises(TooLarge):
            await found.read(address, most=100)
        with pytest.raises(TooLarge):
            await found.read(address, Span(0, 200), most=100)


async def test_a_packed_playlist_is_unpacked_up_to_a_bound(server: str):
    found = Web(server)
    assert len(await found.read(f"{server}/packed.m3u8")) == 100_008
    assert found.served[f"{server}/packed.m3u8"].encoding == "gzip"
    with pytest.raises(TooLarge):
        await found.read(f"{server}/packed.m3u8", most=1000)


@pytest.mark.parametrize(
    "uri",
    [
        "../x.m4s",
        "a/../../x.m4s",
        "/etc/hosts",
        "file:///etc/hosts",
        "%2e%2e/x.m4s",
        "//host/x",
        "http://host/x",
    ],
)
async def test_no_address_leads_out_of_a_folder(good: Path, uri: str):
    with pytest.raises(Outside, match="out of the package"):
        Folder(good).join("master.m3u8", uri)


async def test_a_link_is_followed_only_inside(tmp_path: Path):
    folder = tmp_path / "package"
    folder.mkdir()
    (tmp_path / "secret").write_text("x")
    (folder / "real").write_text("y")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "in").symlink_to("real")
    found = Folder(folder)
    assert await found.read("in") == b"y"
    with pytest.raises(Outside, match="is a link out of the package"):
        await found.read("out")


async def test_another_server_is_not_asked(server: str):
    found = Web(server)
    with pytest.raises(Outside, match="another server"):
        found.join(f"{server}/master.m3u8", "http://127.0.0.1:1/x")
    with pytest.raises(Missing, match="another server"):
        await found.read(f"{server}/away")
    with pytest.raises(Missing, match="HTTP 302"):
        await found.read(f"{server}/round")
    with pytest.raises(Missing, match="HTTP 404"):
        await found.read(f"{server}/nothing.m4s")


async def test_what_is_no_package_is_told_in_one_line(tools: Tools, tmp_path: Path, server: str):
    for where in (str(tmp_path / "nowhere"), "ftp://host/x", str(tmp_path), f"{server}/90p/nothing.mpd"):
        with pytest.raises(NoPackage) as told:
            await check(open_access(where), tools)
        assert "\n" not in str(told.value)
    (tmp_path / "a.m3u8").write_text("not a playlist")
    with pytest.raises(NoPackage, match="does not begin with #EXTM3U"):
        await check(open_access(str(tmp_path)), tools)


def test_every_read_is_bounded():
    assert access.FILE_BYTES_MAX <= 1 << 30
    assert access.TIMEOUT_S <= 60
    assert access.REDIRECTS_MAX <= 5
