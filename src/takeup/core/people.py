"""People: the row of one, and what a name and a password must be."""

import unicodedata
from dataclasses import dataclass
from datetime import datetime

from takeup.core.access import Role
from takeup.core.errors import InvalidInput

NAME_CHARS_MAX = 64
PASSWORD_CHARS_MIN, PASSWORD_CHARS_MAX = 12, 256
DISTINCT_MIN = 5
"""A password with fewer different characters is a pattern."""
NAME_CHARS_TELLING = 3
"""A shorter name may stand in a password by chance."""
WORST = frozenset(
    {
        "111122223333",
        "123123123123",
        "1234567890",
        "123456789012",
        "1q2w3e4r5t6y",
        "1qaz2wsx3edc",
        "administrator",
        "changeme",
        "correcthorsebatterystaple",
        "iloveyou",
        "letmein",
        "password",
        "passw0rd",
        "qazwsxedcrfv",
        "qwertyuiop",
        "qwertyuiopasdfghjkl",
        "qwerty123456",
        "takeup",
        "welcome",
    }
)
"""What is tried first; digits and signs around it, or the same again, make it no better."""


class WeakPassword(InvalidInput):
    """A password that is too short, or that others would try first."""

    help = "Choose a longer one, for example of four words that have nothing to do with each other."


@dataclass(frozen=True, slots=True)
class Person:
    """The row of a person: everything but what would let anybody in."""

    id: str
    name: str
    role: Role
    disabled: bool
    created_at: datetime
    changed_at: datetime


def name_key(name: str) -> str:
    """By what names are compared: neither case nor the way a letter is coded makes another one."""
    return unicodedata.normalize("NFKC", name).casefold()


def is_name(name: str) -> bool:
    """Whether somebody can be called so."""
    return 0 < len(name) <= NAME_CHARS_MAX and name.isprintable() and name.strip() == name


def check_name(name: str) -> None:
    """Refuse what nobody can be called."""
    if not is_name(name):
        raise InvalidInput(
            f"a name must be printable text of 1 to {NAME_CHARS_MAX} characters, without space at its ends"
        )


def check_password(name: str, password: str) -> None:
    """Refuse a password that would be guessed; what it is, is never repeated."""
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX:
        raise WeakPassword(f"a password has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters")
    if any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in password):
        raise WeakPassword("the password holds what cannot be typed")
    folded, called = name_key(password), name_key(name)
    if len(set(folded)) < DISTINCT_MIN or folded in WORST or _is_made_of(folded, WORST):
        raise WeakPassword("the password is one of those that are tried first")
    if len(called) >= NAME_CHARS_TELLING and _is_made_of(folded, {called}):
        raise WeakPassword("the password is little more than the name")


def _is_made_of(password: str, words: frozenset[str] | set[str]) -> bool:
    """Whether nothing but digits and signs is left without one of these words."""
    return any(
        word in password and not any(c.isalpha() for c in password.replace(word, "")) for word in words
    )
