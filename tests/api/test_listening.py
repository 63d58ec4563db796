"""The socket that is listened on."""

import asyncio
import socket

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
