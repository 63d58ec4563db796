"""Live bars: one a stage, in the order of the pipeline, and one for the whole job with the time it takes."""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from takeup.core.machine import JOB
from takeup.core.model import Job
from takeup.core.progress import Forecast, JobProgress, Part, StageProgress, range_text
from takeup.core.why import length

BAR_CHARS = 28
NOTE_CHARS_MAX = 48
WHY_CHARS_MAX = 160
PERCENT = 100.0
REFRESHES_A_SECOND = 8


class Bars:
    """The bars on standard error."""

    every_s = 0.0

    def __init__(self, console: Console | None = None) -> None:
        """Nothing is drawn before the job is known."""
        self._forecast = Forecast()
        self._spinner = Spinner("dots", style="cyan")
        self._drawn: RenderableType = Text("")
        self._live = Live(
            console=console or Console(file=sys.stderr),
            get_renderable=lambda: self._drawn,
            refresh_per_second=REFRESHES_A_SECOND,
        )

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last state on the screen."""
        self._live.stop()

    def show(self, job: Job, progress: JobProgress, why: str = "", parts: Sequence[Part] = ()) -> None:
        """Draw the state of the job; the spinner goes on turning between two looks."""
        grid = Table.grid(padding=(0, 1))
        for column in ("mark", "name", "bar", "percent", "counts", "note"):
            grid.add_column(
                no_wrap=True, overflow="ellipsis", justify="right" if column == "percent" else "left"
            )
        for stage in progress.stages:
            grid.add_row(*self._stage(stage))
        for part in parts:
            grid.add_row(*_part(part))
        grid.add_row(*self._job(job, progress))
        self._drawn = Group(grid, Text(f"  {_one_line(why, WHY_CHARS_MAX)}", style="yellow")) if why else grid

    def _stage(self, stage: StageProgress) -> tuple[RenderableType, ...]:
        percent = PERCENT * stage.fraction
        style = "red" if stage.broken else "green" if percent >= PERCENT else "cyan"
        mark: RenderableType = Text(" ")
        if stage.broken:
            mark = Text("✗", style="red")
        elif stage.running:
            mark = self._spinner
        elif stage.is_expanded and percent >= PERCENT:
            mark = Text("✓", style="green")
        return (
            mark,
            Text(stage.stage),
            _bar(percent, style),
            Text(f"{percent:.0f} %" if stage.is_expanded else ""),
            Text(_counts(stage), style="red" if stage.broken else ""),
            Text(_one_line(stage.note or ""), style="dim"),
        )

    def _job(self, job: Job, progress: JobProgress) -> tuple[RenderableType, ...]:
        percent = PERCENT if job.status == "completed" else self._forecast.see(progress)
        is_paused = job.control == "PAUSED" and job.status in JOB.live
        style = {"failed": "red", "cancelled": "yellow", "completed": "green"}.get(job.status, "blue")
        return (
            Text(" "),
            Text("paused" if is_paused else job.status, style=f"bold {style}"),
            _bar(percent, style),
            Text(f"{percent:.0f} %", style="bold"),
            Text(self._times(job, progress)),
            Text(_one_line(job.error or ""), style="red"),
        )

    def _times(self, job: Job, progress: JobProgress) -> str:
        started = job.started_at or job.created_at
        elapsed = length(((job.finished_at or progress.now) - started).total_seconds())
        is_going = job.status in JOB.live and job.control == "READY"
        left = self._forecast.left_s(progress) if is_going else None
        return f"{elapsed}, ETA {range_text(*left)}" if left else elapsed


def _part(part: Part) -> tuple[RenderableType, ...]:
    style = "red" if part.is_broken else "green" if part.percent >= PERCENT else "cyan"
    mark = Text("✗" if part.is_broken else " ", style=style)
    return (
        mark,
        Text(f"  {part.name}", style="dim"),
        _bar(part.percent, style),
        Text(f"{part.percent:.0f} %"),
        Text(part.counts),
        Text(_one_line(part.note), style="red" if part.is_broken else "dim"),
    )


def _bar(percent: float, style: str) -> ProgressBar:
    return ProgressBar(PERCENT, percent, BAR_CHARS, complete_style=style, finished_style=style)


def _counts(stage: StageProgress) -> str:
    if not stage.is_expanded:
        return "not split yet"
    broken = f", {stage.broken} failed" if stage.broken else ""
    return f"{stage.done}/{stage.total}{broken}"


def _one_line(text: str, chars_max: int = NOTE_CHARS_MAX) -> str:
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return clean if len(clean) <= chars_max else clean[: chars_max - 1] + "…"
