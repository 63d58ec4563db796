"""The socket that is listened on."""

import asyncio
import socket
import subprocess
import sys

import pytest

from takeup.api.listening import CannotListen, listen


async def test_no_answer_waits_until_a_packet_is_full():
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def look(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    opened = listen("127.0.0.1", 0)
    async with await asyncio.start_server(look, sock=opened):
        _, writer = await asyncio.open_connection(*opened.getsockname()[:2])
        assert await asyncio.wait_for(told, 5) == 1
        writer.close()
        await writer.wait_closed()


def test_an_address_that_cannot_be_had_is_named():
    with listen("127.0.0.1", 0) as opened, pytest.raises(CannotListen, match=r"127\.0\.0\.1:\d+ cannot be"):
        listen(*opened.getsockname()[:2])


ROOM = """
import resource, sys
from takeup.api.listening import room_for

resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(room_for(int(sys.argv[3])), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "room", "files"),
    [
        (256, 4096, 1000, 1000, 2256),
        (256, 1024, 1000, 384, 1024),
        (200, 200, 1000, 50, 200),
        (4096, 4096, 1000, 1000, 4096),
    ],
)
def test_as_many_connections_are_kept_as_there_may_be_files(
    soft: int, hard: int, wanted: int, room: int, files: int
):
    asked = [sys.executable, "-c", ROOM, *map(str, (soft, hard, wanted))]
    said = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert said.stdout.split()[-2:] == [str(room), str(files)]
    assert ("raise ulimit -n" in said.stdout + said.stderr) is (room < wanted)
