"""The lobby: few look for many, nobody is forgotten, and what was granted reaches who it was granted to."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from takeup.api.lobby import Lobby
from takeup.core.errors import StoreUnavailable
from takeup.dispatch.bell import Bell


class House:
    """Some leases to have, and how often it was looked for them."""

    def __init__(self, able: str = "a") -> None:
        self.bell = Bell()
        self.left: list[Any] = []
        self.looks = 0
        self.stop = asyncio.Event()
        self.lobby = Lobby(self.bell, self, look_every_s=60.0)  # type: ignore[arg-type]
        self.able = able
        self.running = asyncio.create_task(self.lobby.run(self.stop))

    async def worker(self, worker_id: str) -> Any:
        return SimpleNamespace(stages=("*",), capabilities=frozenset({worker_id[0]}), quarantined_at=None)

    async def ask(self) -> list[Any]:
        self.looks += 1
        await asyncio.sleep(0)
        return [self.left.pop()] if self.left else []

    def come(self, worker_id: str, wait_s: float = 60.0) -> "asyncio.Task[list[Any]]":
        return asyncio.create_task(self.lobby.claim(worker_id, self.ask, wait_s))

    def put(self, *leases: Any) -> None:
        self.left += leases
        self.bell.ring("work")

    async def close(self) -> None:
        self.stop.set()
        await self.running


@pytest.fixture
async def house():
    made = House()
    yield made
    await made.close()


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_few_look_for_many(house: House):
    waiting = [house.come(f"a{n}") for n in range(500)]
    await settle()
    assert house.looks == 500  # each once, when it came
    house.put("one", "two")
    await settle()
    answered = [task.result() for task in waiting if task.done()]
    assert sorted(answered) == [["one"], ["two"]]
    assert house.looks <= 500 + 2 + 3
    house.stop.set()
    assert await asyncio.gather(*waiting[2:]) == [[]] * 498


async def test_who_can_take_nothing_holds_up_nobody(house: House):
    async def nothing() -> list[Any]:
        return []

    full = [asyncio.create_task(house.lobby.claim(f"a{n}", nothing, 60.0)) for n in range(3)]
    await settle()
    able = house.come("a9")
    await settle()
    house.put("one")
    await settle()
    house.bell.ring("work")
    await settle()
    assert able.done()
    assert await able == ["one"]
    house.stop.set()
    assert await asyncio.gather(*full) == [[]] * 3


async def test_each_line_looks_for_itself(house: House):
    first, second = house.come("a1"), house.come("b1")
    await settle()
    house.put("one", "two")
    assert sorted([*(await first), *(await second)]) == ["one", "two"]


async def test_what_is_found_at_the_last_moment_is_not_forgotten(house: House):
    found = asyncio.Event()

    async def slow() -> list[Any]:
        house.looks += 1
        if house.looks == 1:
            return []
        await found.wait()
        return ["late"]

    task = asyncio.create_task(house.lobby.claim("a1", slow, 0.05))
    await settle()
    house.bell.ring("work")
    await asyncio.sleep(0.1)
    assert not task.done()
    found.set()
    assert await task == ["late"]


async def test_who_waits_in_vain_is_told_so_in_time(house: House):
    assert await house.come("a1", 0.01) == []
    assert await house.come("a1", 0.0) == []


async def test_a_failure_reaches_who_asked(house: House):
    async def broken() -> list[Any]:
        house.looks += 1
        if house.looks > 1:
            raise StoreUnavailable("gone")
        return []

    task = asyncio.create_task(house.lobby.claim("a1", broken, 60.0))
    await settle()
    house.bell.ring("work")
    with pytest.raises(StoreUnavailable):
        await task


async def test_a_worker_waits_once(house: House):
    first = house.come("a1")
    await settle()
    second = house.come("a1")
    await settle()
    assert await first == []
    house.put("one")
    assert await second == ["one"]


async def test_a_fault_of_one_is_not_one_of_the_others(house: House):
    """Whatever was wrong reaches who asked, and who looked in vain before him waits on."""

    async def breaks() -> list[Any]:
        house.looks += 1
        if house.looks > 2:
            raise RuntimeError("a fault")
        return []

    other = house.come("a1")
    await settle()
    broken = asyncio.create_task(house.lobby.claim("a2", breaks, 60.0))
    await settle()
    house.bell.ring("work")
    with pytest.raises(RuntimeError, match="a fault"):
        await asyncio.wait_for(broken, 5)
    house.put("one")
    assert await asyncio.wait_for(other, 5) == ["one"]
