"""The facade of files that the server fetches."""

import secrets
from collections.abc import Mapping, Sequence

from takeup.core.ids import RandomBytes, new_id
from takeup.core.pulls import PULL, Beat, Pull, PullEnd
from takeup.core.repeats import Asked
from takeup.core.videos import About
from takeup.store.drivers import Driver
from takeup.store.ops import pulls

FORGET_MAX = 1000


class PullStore:
    """Pulls: asked for, taken, held, ended, cancelled."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the ids."""
        self._driver = driver
        self._random = random

    async def add(
        self, user_id: str, url: str, about: About, *, count_max: int, asked: Asked | None = None
    ) -> Pull:
        """A file to fetch; its address was judged by who calls this."""
        pull_id = PULL + asked.tail if asked else new_id(PULL.rstrip("_"), self._random)
        return await self._driver.run(pulls.add, pull_id, user_id, url, about, count_max, asked)

    async def asked(self, what: Asked) -> Pull | None:
        """The pull that a call with this key made."""
        return await self._driver.read(pulls.asked_before, what)

    async def find(self, pull_id: str, user_id: str) -> Pull:
        """A pull of this caller."""
        return await self._driver.read(pulls.find, pull_id, user_id)

    async def among(self, pull_ids: Sequence[str]) -> dict[str, Pull]:
        """How these stand, whosever they are."""
        return await self._driver.read(pulls.among, pull_ids)

    async def page(self, user_id: str, *, before: Pull | None = None, limit: int = 100) -> list[Pull]:
        """A page of a caller's pulls, newest first."""
        return await self._driver.read(pulls.page, user_id, before, limit)

    async def take(
        self, *, limit: int, lease_s: float, share: int | None = None, held: Mapping[str, int] | None = None
    ) -> list[Pull]:
        """Take what is due, of users in turn; with what is `held` already nobody gets beyond his share."""
        each, known = share or limit, held or {}
        if not await self._driver.read(pulls.has_due, each, known):
            return []
        return await self._driver.run(pulls.take, limit, lease_s, each, known)

    async def next_user(self, share: int, held: Mapping[str, int]) -> str | None:
        """Whose pull would be taken next."""
        return await self._driver.read(pulls.next_user, share, held)

    async def beat(self, pull: Pull, now: Beat, *, lease_s: float) -> bool:
        """Hold it on; False if it is not his any more who says so."""
        return await self._driver.run(pulls.beat, pull.id, pull.attempt, now, lease_s)

    async def end(self, pull: Pull, how: PullEnd) -> bool:
        """Note how an attempt ended."""
        return await self._driver.run(pulls.end, pull.id, pull.attempt, how)

    async def has_waited(self, pull: Pull, wait_s: float) -> bool:
        """Whether it was asked for so long ago."""
        return await self._driver.read(pulls.has_waited, pull.id, wait_s)

    async def cancel(self, pull_id: str, user_id: str) -> bool:
        """Fetch no more of it; whether it was not over."""
        return await self._driver.run(pulls.cancel, pull_id, user_id)

    async def forget(self, older_than_s: float = pulls.KEPT_S, *, limit: int = FORGET_MAX) -> int:
        """Remove what is over for longer than this."""
        return await self._driver.run(pulls.forget, older_than_s, limit)
