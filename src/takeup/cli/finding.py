"""What a check of `takeup doctor` found."""

from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """One thing that was looked at; `advice` says what to do about it."""

    state: Literal["ok", "warn", "fail"]
    part: str
    text: str
    advice: str = ""
