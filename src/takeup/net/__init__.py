"""Calls to the outside: where they may go, how long they take, and how a receiver knows us."""
