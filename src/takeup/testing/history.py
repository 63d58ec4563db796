"""The history checker, for tests; what it decides and from what is told in `takeup.history`."""

from takeup.history import Call, Checker, Settings, Tables, Violation, check, read_tables

__all__ = ["Call", "Checker", "Settings", "Tables", "Violation", "check", "read_tables"]
