"""How the first admin comes in: by a secret from the environment, or by a link that works once."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, MutableMapping

from takeup.api.passwords import hash_of
from takeup.app import App
from takeup.config import InvalidSetting
from takeup.core.errors import TakeupError
from takeup.core.people import WeakPassword, check_password
from takeup.telemetry import logs

VARIABLE = "TAKEUP_ADMIN_PASSWORD"
NAME = "admin"
CONFIGURATION_ERROR = 78
"""What sysexits.h calls a wrong configuration, so that a supervisor need not start it again and again."""
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on

log = logs.logger("serve")


class RefusedSecret(InvalidSetting):
    """The secret of the first admin would be guessed."""

    exit_code = CONFIGURATION_ERROR
    help = f"Give {VARIABLE} a longer value, or leave it out: then a link is printed."


def take_secret(environment: MutableMapping[str, str]) -> str | None:
    """The secret, if there is one; it is taken out, since what we start later inherits the environment."""
    secret = environment.pop(VARIABLE, None)
    if secret is None:
        return None
    try:
        check_password(NAME, secret)
    except WeakPassword as error:
        raise RefusedSecret(f"{VARIABLE} cannot be used: {error}") from None
    return secret


@contextlib.asynccontextmanager
async def first_admin(app: App, opened: socket.socket, secret: str | None) -> AsyncIterator[None]:
    """Before anybody is answered there is an admin, or a way to become one."""
    await _let_in(app, opened, secret)
    yield


async def _let_in(app: App, opened: socket.socket, secret: str | None) -> None:
    """As long as there is no admin: make one, or print one line with the link to become one."""
    people = app.store.people
    if secret is not None:
        if not await people.has_admin():
            made = await people.add_first(NAME, await asyncio.to_thread(hash_of, secret))
            log.info("the first admin is made", name=NAME, made=made is not None)
        return
    try:
        link = await people.offer_setup()
    except TakeupError as error:  # the server works without
        log.warning("no link to the first admin could be made", error=str(error))
        return
    if link is not None:
        place = f"{address_of(opened)}/setup#{link.text}"
        with contextlib.suppress(OSError):  # not into the log, which is kept
            sys.stdout.write(f"Nobody can log in yet. Within a day, make the first admin at {place}\n")
            sys.stdout.flush()


def address_of(opened: socket.socket) -> str:
    """How a browser reaches this socket."""
    host, port = opened.getsockname()[:2]
    host = socket.gethostname() if host in ANYWHERE else host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
