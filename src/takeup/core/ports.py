"""The seams of the core: what the outside must provide."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where a test takes time from; in life the database's own clock decides."""

    def now(self) -> datetime:
        """The current moment, with zone."""
        ...
