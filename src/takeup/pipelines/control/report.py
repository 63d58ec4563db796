"""What sync, watchdog and import tell of their work."""

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TextIO

from takeup.core.model import Control

Outcome = Literal["imported", "present", "kept"]
"""A new job; a job was there and is untouched; no job, the row stays in the old table alone."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How many rows were new; every other one was left exactly as it is."""

    inserted: int
    existing: int


@dataclass(frozen=True, slots=True)
class WatchdogReport:
    """How many leases were taken back, retries woken, and tasks or jobs moved on."""

    expired: int
    woken: int
    advanced: int


@dataclass(frozen=True, slots=True)
class ImportLine:
    """What became of one row of the old table."""

    row: int
    """Its number in the old table, from 1."""
    url: str
    iteration: str
    outcome: Outcome
    task_state: Control | None
    stage: str | None
    """The stage at which the work goes on; None if all is done, or if there is no job."""
    not_before: datetime | None
    job_id: str | None
    note: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """A line for every row of the old table, and where the old table and its copy are now."""

    source: Path
    table: str
    backup: Path | None
    """The copy that this run made; None if nothing of the file had to change its shape."""
    lines: Sequence[ImportLine]
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many rows had each outcome."""
        found = Counter(line.outcome for line in self.lines)
        return {"imported": found["imported"], "present": found["present"], "kept": found["kept"]}

    @property
    def is_nothing_new(self) -> bool:
        """Whether this run found everything done."""
        return self.counts["imported"] == 0 and self.backup is None

    def summary(self) -> list[str]:
        """The report in a few lines for people."""
        counts, states = self.counts, Counter(line.task_state for line in self.lines if line.task_state)
        told = [f"{len(self.lines)} rows in {self.table} of {self.source}"]
        if self.is_nothing_new:
            told.append("nothing to do: every row that can be imported was imported before")
        told += [f"{counts['imported']} imported, {counts['present']} were there, {counts['kept']} only kept"]
        told += [f"{count} {state}" for state, count in sorted(states.items())]
        told += [f"{count} × {note}" for note, count in Counter(x.note for x in self.lines if x.note).items()]
        return [*told, *([f"the file as it was: {self.backup}"] if self.backup else []), *self.notes]

    def as_json(self) -> dict[str, Any]:
        """Everything, as plain JSON."""
        return {
            "source": str(self.source),
            "table": self.table,
            "backup": str(self.backup) if self.backup else None,
            "counts": self.counts,
            "notes": list(self.notes),
            "lines": [_plain(line) for line in self.lines],
        }

    def write_csv(self, file: TextIO) -> None:
        """A header and one line a row."""
        writer = csv.DictWriter(file, [field.name for field in fields(ImportLine)])
        writer.writeheader()
        writer.writerows(_plain(line) for line in self.lines)


def _plain(line: ImportLine) -> dict[str, Any]:
    moment = line.not_before
    return {**asdict(line), "not_before": moment.isoformat() if moment else None}
