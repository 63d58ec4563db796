"""Log lines: one event with its fields, as text for people or as JSON for machines; never a secret."""

import logging
import sys
from typing import Any, Literal

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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def logger(part: str) -> Any:
    """The logger of one part of the system."""
    return structlog.get_logger(part=part)


def _without_secrets(_logger: Any, _method: str, event: Any) -> Any:
    return {name: redact(value) if isinstance(value, str) else value for name, value in event.items()}
