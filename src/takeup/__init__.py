"""Takeup: a self-hosted media pipeline whose state is rows in one database."""

from takeup.core.pipeline import Pipeline

__all__ = ["Pipeline"]
__version__ = "0.1.0"
