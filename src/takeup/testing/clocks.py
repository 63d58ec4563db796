"""Clocks for tests: time stands still until the test moves it."""

from datetime import UTC, datetime, timedelta

START = datetime(2030, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that a test sets; hand it to a driver as `clock=`, and no test has to sleep."""

    def __init__(self, start: datetime = START) -> None:
        """Begin at this moment."""
        self._now = start

    def now(self) -> datetime:
        """The current moment."""
        return self._now

    def advance(self, seconds: float) -> datetime:
        """Let time pass; answers with the new moment."""
        if seconds < 0:
            raise ValueError(f"time passes forward; use set_back for {seconds} seconds")
        self._now += timedelta(seconds=seconds)
        return self._now

    def set_back(self, seconds: float) -> datetime:
        """What a corrected host clock does: the same moments come again."""
        if seconds < 0:
            raise ValueError(f"set_back takes a length above 0, not {seconds}")
        self._now -= timedelta(seconds=seconds)
        return self._now

    def set(self, moment: datetime) -> datetime:
        """Jump to a moment."""
        self._now = moment
        return self._now
