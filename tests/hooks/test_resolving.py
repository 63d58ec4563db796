"""Names that take long to look up: nobody but those who look up names waits for them."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from takeup.net.resolving import LOOKUPS_MAX, Unresolved, resolve_by_system

WAIT_S = 10.0


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No name is found before this event."""
    found = threading.Event()
    real = socket.getaddrinfo

    def slowly(host: str, *rest: Any, **options: Any) -> Any:
        assert found.wait(6 * WAIT_S)
        return real("127.0.0.1", *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    yield found
    found.set()


async def test_names_that_take_long_keep_no_file_waiting(slow_names: threading.Event):
    asked = [asyncio.create_task(resolve_by_system(f"n{number}.test")) for number in range(LOOKUPS_MAX)]
    await asyncio.sleep(0)
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.to_thread(lambda: "read") == "read"
    slow_names.set()
    assert await asyncio.gather(*asked) == [["127.0.0.1"]] * LOOKUPS_MAX


async def test_no_more_names_wait_than_are_allowed(slow_names: threading.Event):
    asked = [asyncio.create_task(resolve_by_system(f"n{number}.test")) for number in range(LOOKUPS_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(Unresolved, match="are looked up already"):
        await resolve_by_system("more.test")
    for task in asked[1:]:
        task.cancel()
    await asyncio.wait(asked[1:])
    slow_names.set()
    assert await asked[0] == ["127.0.0.1"]
    async with asyncio.timeout(WAIT_S):
        assert await resolve_by_system("again.test") == ["127.0.0.1"]
