"""Takeup: a self-hosted media pipeline whose state is rows in one database."""

from takeup.core.pipeline import Pipeline
from takeup.core.policy import RetryPolicy
from takeup.core.signals import Fatal, Retry

__all__ = ["Fatal", "Pipeline", "Retry", "RetryPolicy"]
__version__ = "0.1.0"
