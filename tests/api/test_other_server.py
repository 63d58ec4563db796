"""A worker that knows two servers: whichever does not answer is passed by while its leases still hold."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from takeup.app import App
from takeup.core.errors import InvalidInput
from takeup.core.model import Progress
from takeup.core.policy import trusted_until
from takeup.engine.holding import margin_s
from takeup.engine.remote import source as remote
from takeup.engine.remote.client import Client, ServerUnavailable
from takeup.engine.remote.source import HttpSource
from tests.api.afar import Hire, hire, submit

__all__ = ["hire"]
QUICK_S = 0.3


@pytest.fixture
async def frozen() -> AsyncIterator[str]:
    """A server that takes connections and never says a word, as one that was stopped does."""
    over = asyncio.Event()

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    over.set()
    server.close()


@pytest.fixture
def url(tmp_path) -> str:
    """What is asked of the database is asked elsewhere."""
    return f"sqlite:///{tmp_path}/takeup.db"


async def test_leases_outlive_a_server_that_is_frozen(
    app: App, hire: Hire, address: str, frozen: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(remote, "URGENT_S", QUICK_S)
    await submit(app)
    afar = await hire("a")
    (lease,) = await afar.claim()
    began = time.monotonic()
    for call in (
        lambda source: source.renew(afar.id, [Progress(lease.held, 5.0)], request_id="r"),
        lambda source: source.glance(afar.id, [lease.held]),
        lambda source: source.heartbeat([afar.id]),
    ):
        client = Client(f"{frozen},{address}", afar.key)
        source = HttpSource(client, wait_s=0.0)
        with pytest.raises(ServerUnavailable):
            await call(source)
        assert await call(source)
        await client.close()
    assert time.monotonic() - began < 10 * QUICK_S
    assert (await app.store.read.task(lease.task_id)).progress_percent == 5


def test_there_is_time_for_the_other_server_within_every_usual_lease():
    lease_s = 60.0
    assert lease_s / 3 + 3 * remote.URGENT_S < trusted_until(0.0, lease_s, margin_s(lease_s))


async def test_what_fails_together_passes_one_server_by(frozen: str, address: str, app: App, hire: Hire):
    """Not the one after it, which would be the first again."""
    del app
    afar = await hire("a")
    client = Client(f"{frozen},{address}", afar.key)
    calls = [client.call("GET", "/api/worker/me", within_s=QUICK_S) for _ in range(4)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, ServerUnavailable) for end in ends)
    assert (await client.call("GET", "/api/worker/me"))["worker_id"] == afar.id
    await client.close()


def test_every_address_must_be_one():
    for wrong in ("", ",", "http://a,b"):
        with pytest.raises(InvalidInput, match="must begin with http"):
            Client(wrong, "")
