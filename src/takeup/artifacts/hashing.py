"""Whole files are hashed in threads of their own: that may take minutes, and others read meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
"""More would only make each slower; who waits is bounded by how many connections there are."""


async def beside(work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """The result of work that reads whole files, without holding up what is read in the common threads."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads(), partial(work, *arguments, **options))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="hashing")
