"""Control tables: rows of (url, iteration) that a pipeline works off, toggled by people, and their import."""

from takeup.pipelines.control.importing import import_control
from takeup.pipelines.control.report import ImportLine, ImportReport, SyncReport, WatchdogReport
from takeup.pipelines.control.table import ControlTable
from takeup.pipelines.control.tickets import Claimed, Ticket

__all__ = [
    "Claimed",
    "ControlTable",
    "ImportLine",
    "ImportReport",
    "SyncReport",
    "Ticket",
    "WatchdogReport",
    "import_control",
]
