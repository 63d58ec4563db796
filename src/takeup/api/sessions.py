"""Knows people by the cookies of their sessions, and forgets what it knows in a moment."""

from collections.abc import Callable

from takeup.api.access import KNOWN_S, Caller, Session, SessionOver
from takeup.api.crossing import csrf_token
from takeup.api.memory import Lately, Rarely
from takeup.core.access import ROLES
from takeup.core.errors import TakeupError
from takeup.core.keys import Key, parse_key
from takeup.store.ops.sessions import Seen
from takeup.store.people import PeopleStore
from takeup.telemetry.logs import logger

NOTE_EVERY_S = 60.0
"""How exactly it is known when a session was used last."""

log = logger("api")


class Sessions:
    """The people who are logged in."""

    def __init__(self, people: PeopleStore, clock: Callable[[], float]) -> None:
        self._people = people
        self._known: Lately[Seen] = Lately(clock, for_s=KNOWN_S)
        self._noting = Rarely(clock, every_s=NOTE_EVERY_S)

    async def caller(self, text: str) -> Caller | None:
        """Whose cookie this is; None if it is nobody's. Raises if his session is over."""
        shown = parse_key(text)
        seen = await self._seen(shown) if shown is not None and shown.kind == "ses" else None
        if shown is None or seen is None:
            return None
        if seen.is_over:
            raise SessionOver("the session is over")
        await self._note(seen.session_id)
        person = seen.person
        session = Session(seen.session_id, shown.hash, person, csrf_token(shown))
        return Caller(f"person:{person.id}", person.name, ROLES[person.role], session=session)

    def forget(self, session_hash: str) -> None:
        """Look again next time."""
        self._known.forget(session_hash)

    async def _seen(self, shown: Key) -> Seen | None:
        seen = self._known.get(shown.hash) or await self._people.find_session(shown)
        if seen is not None and not seen.is_over:
            self._known.keep(shown.hash, seen)
        return seen

    async def _note(self, session_id: str) -> None:
        if not self._noting.is_time(session_id):
            return
        try:
            await self._people.note_session(session_id)
        except TakeupError as error:
            log.warning("the use of a session was not noted", error=str(error))
