"""The desk where people are let in, by password or by the first link; who guesses has to wait."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from takeup.api.memory import Tries
from takeup.api.passwords import Passwords, is_outdated
from takeup.api.problems import HttpError
from takeup.core.keys import Key, parse_key
from takeup.core.people import Person, check_name, check_password, name_key
from takeup.store.ops.people import Known
from takeup.store.ops.sessions import SetupRefused
from takeup.store.people import PeopleStore
from takeup.telemetry.logs import logger

TRIES_MAX, TRIES_S = 10, 60.0

log = logger("api")


class LoginRefused(HttpError):
    """Name and password do not belong together, or their owner is let in no more."""

    http_status = 401
    help = "Check both; an admin, or `takeup people password NAME` on the server, sets a new password."
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class TooManyLogins(HttpError):
    """Too many tries from one address, or with one name."""

    http_status = 429
    help = "Wait for as long as `Retry-After` says."
    headers: Mapping[str, str] = {"Retry-After": str(round(TRIES_S))}


class Entered(NamedTuple):
    """Somebody who was let in, with the secret of his new session."""

    person: Person
    session: Key


class Desk:
    """Lets people in."""

    def __init__(self, people: PeopleStore, clock: Callable[[], float] = time.monotonic) -> None:
        self.passwords = Passwords()
        self._people = people
        self._addresses = Tries(clock, most=TRIES_MAX, within_s=TRIES_S)
        self._names = Tries(clock, most=TRIES_MAX, within_s=TRIES_S)

    async def log_in(self, name: str, password: str, address: str) -> Entered:
        """A new session for whoever has this name and password."""
        return await self._enter(await self._check(name, password, address), address)

    async def set_up(self, text: str, name: str, password: str, address: str) -> Entered:
        """The first admin, by the link that the server printed."""
        self._count(self._addresses, address)
        link = parse_key(text)
        if link is None or link.kind != "set" or not await self._people.knows_setup(link):
            raise SetupRefused("this link cannot be used")
        check_name(name)
        check_password(name, password)
        password_hash = await self.passwords.hash_of(password)
        person = await self._people.set_up(link, name, password_hash)
        log.info("the first admin is set up", person=person.id, address=address)
        return await self._enter(Known(person, password_hash), address)

    async def change_password(self, person: Person, old: str, new: str, address: str) -> Entered:
        """Another password for somebody who knows his old one; all of his sessions end, and one begins."""
        await self._check(person.name, old, address)
        check_password(person.name, new)
        password_hash = await self.passwords.hash_of(new)
        changed = await self._people.change(person.id, password_hash=password_hash)
        log.info("a password was changed", person=person.id, address=address)
        return await self._enter(Known(changed, password_hash), address)

    async def _check(self, name: str, password: str, address: str) -> Known:
        """Whose name and password these are; whatever is wrong takes as long and is told alike."""
        self._count(self._addresses, address)
        self._count(self._names, name_key(name))
        known = await self._people.by_name(name)
        is_right = await self.passwords.fits(known.password_hash if known else None, password)
        if known is None or not is_right or known.person.disabled:
            self._refuse(address)
        if is_outdated(known.password_hash):
            known = await self._people.rehash(known, await self.passwords.hash_of(password))
        return known

    async def _enter(self, known: Known, address: str) -> Entered:
        session = await self._people.begin_session(known)
        if session is None:
            self._refuse(address)
        log.info("a person logged in", person=known.person.id, address=address)
        return Entered(known.person, session)

    def _refuse(self, address: str) -> NoReturn:
        # Without the name: it may be a password in the wrong field.
        log.warning("a login was refused", address=address)
        raise LoginRefused("name and password do not belong together")

    def _count(self, tries: Tries, who: str) -> None:
        if tries.are_too_many(who):
            raise TooManyLogins("too many tries to log in")
        tries.add(who)
