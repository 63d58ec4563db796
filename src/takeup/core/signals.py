"""What a stage raises to say how its attempt ended; any other exception is a failed attempt, tried again."""


class Fatal(Exception):
    """Trying again cannot help: the task is FAILED at once."""


class Retry(Exception):
    """Try again, after so many seconds if given; without them the stage's back-off decides."""

    def __init__(self, reason: str = "no reason was given", *, after: float | None = None) -> None:
        """`reason` is what people read; `after` is in seconds."""
        super().__init__(reason)
        self.after = after
