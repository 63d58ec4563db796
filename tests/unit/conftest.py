"""The same examples on every run, whatever else the machine is doing."""

from hypothesis import settings

settings.register_profile("unit", deadline=None, derandomize=True, max_examples=300)
settings.load_profile("unit")
