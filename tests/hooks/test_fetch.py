"""Files are fetched only from where they may be, at every step of the way."""

from collections.abc import Sequence

import pytest

from takeup.net.calling import Caller, Unreachable
from takeup.net.fetch import Fetcher
from takeup.net.guard import Forbidden, Guard, networks
from tests.videos.origin import Origin, origin_of, says

DATA = b"x" * 50_000
GUARD = Guard(networks("127.0.0.1/32"), allows_http=True, settings="pull")


class Names:
    """Names that mean one thing after the other."""

    def __init__(self, *meanings: Sequence[str]) -> None:
        self._meanings = list(meanings)
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        return self._meanings.pop(0)


def fetcher(names: Names, guard: Guard = GUARD) -> Fetcher:
    return Fetcher(Caller(guard, resolve=names), timeout_s=5)


async def fetched(one: Fetcher, url: str) -> bytes:
    async with one.get(url, {}) as answer:
        return b"".join([block async for block in answer.body])


async def test_s112_a_name_is_looked_up_for_every_connection_and_what_was_judged_is_called():
    async with origin_of(DATA) as origin:
        url = f"http://films.example:{origin.port}/film.mp4"
        one = fetcher(names := Names(["127.0.0.1"], ["10.0.0.1"], ["127.0.0.1", "10.0.0.1"]))
        assert await fetched(one, url) == DATA
        for _ in range(2):
            with pytest.raises(Forbidden, match=r"10\.0\.0\.1 is not a public one") as caught:
                await fetched(one, url)
            assert "pull_allowed_networks" in caught.value.help
    assert len(origin.asked) == 1
    assert origin.asked[0]["host"] == f"films.example:{origin.port}"
    assert names.asked == ["films.example"] * 3


async def test_a_redirect_to_another_name_is_looked_up_too():
    async with origin_of(DATA) as origin:
        origin.misbehave = says(f"HTTP/1.1 307 X\nLocation: http://inner.example:{origin.port}/")
        one = fetcher(names := Names(["127.0.0.1"], ["192.168.0.5"]))
        with pytest.raises(Forbidden, match=r"192\.168\.0\.5"):
            await fetched(one, f"http://films.example:{origin.port}/film.mp4")
    assert names.asked == ["films.example", "inner.example"]
    assert len(origin.asked) == 1


async def test_a_redirect_leads_to_the_file():
    async with origin_of(DATA) as there, origin_of(DATA) as here:
        here.misbehave = says(f"HTTP/1.1 302 X\nLocation: {there.url}")
        assert await fetched(fetcher(Names()), here.url) == DATA
    assert len(there.asked) == 1


async def test_plain_http_only_if_it_is_allowed():
    with pytest.raises(Forbidden, match="plain http is not allowed") as caught:
        await fetched(fetcher(Names(), Guard(settings="pull")), "http://films.example/film.mp4")
    assert "pull_http" in caught.value.help


async def test_nobody_there():
    async with origin_of(DATA) as gone:
        url = Origin(DATA, gone.port).url
    with pytest.raises(Unreachable, match="no connection"):
        await fetched(fetcher(Names()), url)
