"""Stages that come with Takeup: each a thin hand between its context and a library that knows no jobs."""
