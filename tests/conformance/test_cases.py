"""Every case of the public suite on every store."""

import pytest

from takeup.testing.conformance import CASES, run_case
from tests.conformance.conftest import STORES, OpenWorld

LARGE_STORES = ("oracle", "sqlite", "postgres15")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.large])
@pytest.mark.parametrize("store", STORES)
async def test_case(store: str, name: str, open_world: OpenWorld):
    async with open_world(store) as world:
        await run_case(CASES[name], world)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.large])
@pytest.mark.parametrize("store", LARGE_STORES)
async def test_large_case(store: str, name: str, open_world: OpenWorld):
    async with open_world(store) as world:
        await run_case(CASES[name], world)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.any_clock])
async def test_case_by_the_servers_own_clock(name: str, open_world: OpenWorld):
    async with open_world("postgres15-own-clock") as world:
        await run_case(CASES[name], world)
