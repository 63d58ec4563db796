"""Log lines: one event with its fields, as text for people or as JSON for machines; never a secret."""

import contextlib
import logging
import sys
from typing import Any, Literal, TextIO, cast

import structlog

from takeup.telemetry.redact import redact

LEVELS = ("debug", "info", "warning", "error")


def configure(*, style: Literal["text", "json"] = "text", level: str = "info") -> None:
    """Set up the lines of this process; they go to standard error."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_secrets,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Careless(sys.stderr))),
        cache_logger_on_first_use=False,
    )


class _Careless:
    """A stream whose failures nobody hears of: a full disk for logs must not end a process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def logger(part: str) -> Any:
    """The logger of one part of the system."""
    return structlog.get_logger(part=part)


def _without_secrets(_logger: Any, _method: str, event: Any) -> Any:
    return {name: redact(value) if isinstance(value, str) else value for name, value in event.items()}
