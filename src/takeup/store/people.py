"""The facade of people and their sessions: who may do what is decided at the edge."""

import secrets

from takeup.core.access import Role
from takeup.core.ids import RandomBytes
from takeup.core.keys import ID_BYTES, NOBODY, Key, new_key
from takeup.core.people import Person
from takeup.store.drivers import Driver
from takeup.store.ops import people, sessions
from takeup.store.ops.people import Known
from takeup.store.ops.sessions import Seen


class PeopleStore:
    """People who log in; the secret of a session or of a link leaves this class once, when it is made."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes ids and secrets."""
        self._driver = driver
        self._random = random

    async def add(self, name: str, password_hash: str, role: Role) -> Person:
        """A new person."""
        return await self._driver.run(
            people.add, self._new_id(), name=name, password_hash=password_hash, role=role
        )

    async def by_name(self, name: str) -> Known | None:
        """The person of this name, with the hash of his password."""
        return await self._driver.read(people.by_name, name)

    async def person(self, person_id: str) -> Person:
        """One person."""
        return await self._driver.read(people.one, person_id)

    async def list(self, *, after: str = "", limit: int = people.PAGE_MAX) -> list[Person]:
        """A page of people in the order of their names."""
        return await self._driver.read(people.page, after, limit)

    async def change(
        self,
        person_id: str,
        *,
        role: Role | None = None,
        disabled: bool | None = None,
        password_hash: str | None = None,
    ) -> Person:
        """Change what is given."""
        return await self._driver.run(
            people.change, person_id, role=role, disabled=disabled, password_hash=password_hash
        )

    async def remove(self, person_id: str) -> None:
        """Let a person in no more."""
        await self._driver.run(people.remove, person_id)

    async def rehash(self, known: Known, password_hash: str) -> Known:
        """The same password, hashed anew."""
        await self._driver.run(people.rehash, known.person.id, known.password_hash, password_hash)
        return known._replace(password_hash=password_hash)

    async def begin_session(self, known: Known) -> Key | None:
        """Let somebody in whose password was right; None if he was changed meanwhile."""
        session = new_key("ses", self._random)
        return session if await self._driver.run(sessions.begin, session, known) else None

    async def find_session(self, shown: Key) -> Seen | None:
        """Whose session this is; None if it is nobody's. An unknown id takes as long as a wrong secret."""
        found = await self._driver.read(sessions.find, shown.id, shown.hash)
        fits = shown.fits(NOBODY if found is None else found.session_hash)
        return found if fits else None

    async def note_session(self, session_id: str) -> None:
        """It was used now."""
        await self._driver.run(sessions.see, session_id)

    async def end_session(self, session_id: str) -> bool:
        """Log out; whether it was alive."""
        return await self._driver.run(sessions.end, session_id)

    async def has_admin(self) -> bool:
        """Whether somebody can let others in."""
        return await self._driver.read(people.has_admin)

    async def offer_setup(self) -> Key | None:
        """What the one-time link to the first admin carries; None if there is an admin."""
        link = new_key("set", self._random)
        return link if await self._driver.run(sessions.offer_setup, link) else None

    async def knows_setup(self, shown: Key) -> bool:
        """Whether this link can be used."""
        found = await self._driver.read(sessions.setup_hash, shown.id)
        return shown.fits(found or NOBODY)

    async def set_up(self, link: Key, name: str, password_hash: str) -> Person:
        """The first admin, by his link."""
        return await self._driver.run(
            sessions.set_up, link, self._new_id(), name=name, password_hash=password_hash
        )

    async def add_first(self, name: str, password_hash: str) -> Person | None:
        """The first admin, by whoever starts the server; None if there is one."""
        return await self._driver.run(
            sessions.add_first, self._new_id(), name=name, password_hash=password_hash
        )

    def _new_id(self) -> str:
        return self._random(ID_BYTES).hex()
