"""The in-memory model that every store is compared with."""

from takeup.testing.oracle.store import OracleStore, Tables

__all__ = ["OracleStore", "Tables"]
