"""Takeup: a self-hosted media pipeline whose state is rows in one database."""

from typing import TYPE_CHECKING, Any

from takeup.core.pipeline import Pipeline
from takeup.core.policy import RetryPolicy
from takeup.core.signals import Fatal, Retry

if TYPE_CHECKING:
    from takeup.engine.runner.context import Context

__all__ = ["Context", "Fatal", "Pipeline", "Retry", "RetryPolicy"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Context`, for annotations, is loaded when it is asked for: most files never do."""
    if name == "Context":
        from takeup.engine.runner.context import Context  # noqa: PLC0415 - see above

        return Context
    raise AttributeError(f"module 'takeup' has no attribute {name!r}")
