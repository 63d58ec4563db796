"""`takeup watch`, the real server: what goes over the wire, how it is refused, how it ends."""

import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeup.cli import watch_work
from tests.cli.conftest import Cli, environment

PIECE = b"0123456789"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    (folder / "720p").mkdir(parents=True)
    (folder / "master.m3u8").write_text("#EXTM3U\n")
    (folder / "720p/00001.m4s").write_bytes(PIECE)
    return folder


@pytest.fixture
def running(package: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "takeup.cli.main", "watch", str(package)]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    return int(address.rstrip("/").rpartition(":")[2])


def ask(connection: http.client.HTTPConnection, method: str, path: str, **headers: str):
    connection.request(
        method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    answer = connection.getresponse()
    return answer, answer.read()


def test_files_go_over_one_connection(running: subprocess.Popen[str]):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(running), timeout=10)
    page, text = ask(connection, "GET", "/")
    assert (page.status, b"<video" in text) == (200, True)
    whole, data = ask(connection, "GET", "/720p/00001.m4s")
    assert (whole.status, data) == (200, PIECE)
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in whole.headers
    part, data = ask(connection, "GET", "/720p/00001.m4s", Range="bytes=2-4")
    assert (part.status, data, part.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    head, data = ask(connection, "HEAD", "/720p/00001.m4s")
    assert (head.status, data, head.headers["Content-Length"]) == (200, b"", "10")
    again, data = ask(connection, "GET", "/720p/00001.m4s", If_None_Match=whole.headers["ETag"])
    assert (again.status, data) == (304, b"")
    gone, _ = ask(connection, "GET", "/../../etc/hostname")
    assert gone.status == 404
    foreign, _ = ask(connection, "GET", "/master.m3u8", Host="evil.example")
    assert foreign.status == 421
    connection.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well_even_while_somebody_is_connected(running: subprocess.Popen[str], number: int):
    with socket.create_connection(("127.0.0.1", port_of(running)), timeout=10) as idle:
        idle.sendall(b"GET /master.m3u8 HTTP/1.1\r\nHost: localhost\r\n")
        running.send_signal(number)
        assert running.wait(timeout=10) == 0
    assert running.stderr
    assert running.stderr.read() == "Ctrl-C ends it\n"


def test_it_writes_nothing_and_understands_nothing_else(running: subprocess.Popen[str]):
    connection = http.client.HTTPConnection("127.0.0.1", port_of(running), timeout=10)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        refused, _ = ask(connection, method, "/master.m3u8")
        assert refused.status == 501
        connection.close()


def test_who_comes_when_all_threads_are_busy_is_turned_away(package: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch_work, "THREADS_MAX", 1)
    monkeypatch.setattr(watch_work, "ROOM_S", 0.01)
    with watch_work.listen(package, "127.0.0.1", 0) as server:
        place = ("127.0.0.1", server.server_address[1])
        with (
            socket.create_connection(place, timeout=10),
            socket.create_connection(place, timeout=10) as second,
        ):
            server.handle_request()
            server.handle_request()
            assert second.recv(1) == b""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["none"], 1, "none cannot be read"),
        (["empty"], 1, "there is no master.m3u8 in empty"),
        (["out", "--host", "203.0.113.9"], 1, "cannot listen on 203.0.113.9"),
        (["out", "--port", "70000"], 2, "is not a port"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(
    cli: Cli, tmp_path: Path, package: Path, arguments: list[str], code: int, says: str
):
    (tmp_path / "empty").mkdir()
    ran = cli("watch", *arguments)
    assert (ran.returncode, says in ran.stderr, ran.stderr.count("\n")) == (code, True, 1), ran.stderr


def test_a_port_that_is_taken_is_told(cli: Cli, package: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = cli("watch", package, "--port", taken.getsockname()[1])
    assert (ran.returncode, "Choose another one with --port" in ran.stderr) == (1, True)
