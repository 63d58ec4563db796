"""What `takeup people` does."""

import argparse
import getpass
import sys
from collections.abc import Sequence

from takeup.api.passwords import hash_of
from takeup.cli.opening import open_store
from takeup.cli.printing import age, line, plain, print_json, table
from takeup.core.errors import InvalidInput, NotFound
from takeup.core.people import PASSWORD_CHARS_MAX, Person, check_name, check_password
from takeup.store.ops.people import PAGE_MAX
from takeup.store.people import PeopleStore


async def add(options: argparse.Namespace) -> int:
    """Let somebody log in."""
    check_name(options.name)
    password_hash = hash_of(asked_for(options.name))
    async with open_store(options) as (store, _):
        person = await store.people.add(options.name, password_hash, options.role)
    _tell(options, [person], f"may log in as {person.role}")
    return 0


async def show_list(options: argparse.Namespace) -> int:
    """Print everybody."""
    async with open_store(options) as (store, _):
        people = await everybody(store.people)
        now = await store.read.now()
    if options.json:
        print_json([plain(person) for person in people])
        return 0
    rows = [
        (one.name, one.role, "disabled" if one.disabled else "", age(one.created_at, now), one.id)
        for one in people
    ]
    table(("name", "role", "disabled", "added", "id"), rows)
    return 0


async def password(options: argparse.Namespace) -> int:
    """Set a password."""
    async with open_store(options) as (store, _):
        person = await called(store.people, options.name)
    password_hash = hash_of(asked_for(person.name))  # the database is not held while somebody types
    async with open_store(options) as (store, _):
        changed = await store.people.change(person.id, password_hash=password_hash)
    _tell(options, [changed], "has a new password")
    return 0


async def role(options: argparse.Namespace) -> int:
    """Change what somebody may do."""
    async with open_store(options) as (store, _):
        person = await called(store.people, options.name)
        changed = await store.people.change(person.id, role=options.role)
    _tell(options, [changed], f"is {changed.role} now")
    return 0


async def disable(options: argparse.Namespace) -> int:
    """Let these people in no more."""
    return await _switch(options, "is disabled", disabled=True)


async def enable(options: argparse.Namespace) -> int:
    """Let these people in again."""
    return await _switch(options, "is enabled", disabled=False)


async def remove(options: argparse.Namespace) -> int:
    """Let these people in no more, for good."""
    async with open_store(options) as (store, _):
        people = [await called(store.people, name) for name in dict.fromkeys(options.names)]
        for person in people:
            await store.people.remove(person.id)
    _tell(options, people, "is removed")
    return 0


async def _switch(options: argparse.Namespace, done: str, *, disabled: bool) -> int:
    async with open_store(options) as (store, _):
        people = [await called(store.people, name) for name in dict.fromkeys(options.names)]
        changed = [await store.people.change(person.id, disabled=disabled) for person in people]
    _tell(options, changed, done)
    return 0


async def called(store: PeopleStore, name: str) -> Person:
    """The person of this name."""
    known = await store.by_name(name)
    if known is None:
        raise NotFound(f"nobody is called {name!r}", advice="`takeup people list` shows who there is.")
    return known.person


async def everybody(store: PeopleStore) -> list[Person]:
    """Page by page."""
    people: list[Person] = []
    while True:
        page = await store.list(after=people[-1].name if people else "", limit=PAGE_MAX)
        people += page
        if len(page) < PAGE_MAX:
            return people


def asked_for(name: str) -> str:
    """A password that may be used, from whoever sits there, or the first line of standard input."""
    if sys.stdin.isatty():
        found = getpass.getpass(f"Password for {name}: ")
        if getpass.getpass("Once more: ") != found:
            raise InvalidInput("the passwords are not the same", advice="Type it again.")
    else:
        found = sys.stdin.readline(PASSWORD_CHARS_MAX + 2).rstrip("\r\n")
    check_password(name, found)
    return found


def _tell(options: argparse.Namespace, people: Sequence[Person], done: str) -> None:
    if options.json:
        print_json([plain(person) for person in people])
        return
    for person in people:
        line(f"{person.name} {done}")
