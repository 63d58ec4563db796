"""The pool of connections: who finds none free waits, but never longer than he is told."""

import asyncio
import pickle

import pytest

from takeup.core.ids import Token
from takeup.core.model import Completion, Held
from takeup.store.drivers.pool import Link, Pool


class Line:
    """A connection as far as the pool knows it."""

    def __init__(self) -> None:
        self.is_ended = False

    def is_closed(self) -> bool:
        return self.is_ended

    def terminate(self) -> None:
        self.is_ended = True

    async def close(self) -> None:
        self.is_ended = True


async def connect() -> Link:
    return Link(Line(), prepares=False)


async def test_who_finds_no_connection_free_waits_only_so_long():
    pool = Pool(connect, 1, 0.01)
    await pool.lend()
    with pytest.raises(TimeoutError):
        await pool.lend()


async def test_who_comes_between_a_return_and_the_waiter_waits_only_so_long():
    pool = Pool(connect, 1, 0.01)
    lent = await pool.lend()
    waiter = asyncio.create_task(pool.lend())
    await asyncio.sleep(0)
    pool.give_back(lent)
    with pytest.raises(TimeoutError):
        await pool.lend()
    assert await waiter is lent


async def test_a_broken_connection_is_replaced_and_a_late_one_ended():
    pool = Pool(connect, 1, 0.01)
    first = await pool.lend()
    first.connection.terminate()
    pool.give_back(first)
    second = await pool.lend()
    assert second is not first
    await pool.close()
    pool.give_back(second)
    assert second.connection.is_closed()


def test_a_report_can_be_sent_to_another_process():
    report = Completion(Held(1, Token(1, "n")))
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301 - our own bytes
