"""Pipelines that come with Takeup, and how users' own ones are found."""
