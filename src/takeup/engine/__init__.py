"""The loops and the worker: each loop is a class with `run_once()`."""
