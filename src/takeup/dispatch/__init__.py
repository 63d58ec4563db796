"""Hints that say "look at the database now"; losing one costs only time."""
