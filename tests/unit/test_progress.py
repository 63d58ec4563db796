"""How far and how long: never backwards, and no time is foretold without evidence."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from takeup.cli.bars import Bars
from takeup.core.model import Job
from takeup.core.progress import Forecast, JobProgress, StageProgress, left_s, range_text

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def at(*stages: StageProgress) -> JobProgress:
    return JobProgress(stages, NOW)


def stage(name: str = "work", splitter: str | None = "split", **options: object) -> StageProgress:
    return StageProgress(name, 0, splitter, **options)  # type: ignore[arg-type]


def test_the_percent_never_goes_back():
    forecast = Forecast()
    assert forecast.see(at(stage(counts={"RUNNING": 1}, percent_sum=60))) == 60
    assert forecast.see(at(stage(counts={"ERROR": 1}))) == 60
    assert forecast.see(at(stage(counts={"DONE": 1}))) == 100


def test_a_stage_that_is_not_split_yet_counts_as_nothing_done():
    assert stage(is_expanded=False).fraction == 0
    assert stage(counts={}).fraction == 1
    assert at(stage("split", None, counts={"DONE": 1}), stage(is_expanded=False)).percent == pytest.approx(
        100 / 6
    )
    assert at().percent == 0


def test_no_time_is_told_without_evidence():
    assert left_s([stage(counts={"READY": 9})], 1) is None
    assert left_s([stage(counts={"RUNNING": 1, "READY": 9}, percent_sum=5, elapsed_s=3)], 1) is None
    one = stage("cut", None, counts={"DONE": 1}, seconds=5)
    assert left_s([one, stage(counts={"READY": 9})], 1) is None
    many = stage(counts={"READY": 90})
    assert left_s([stage("few", counts={"DONE": 2, "READY": 2}, seconds=4, squares=8), many], 4) is None


def test_the_time_left_is_a_range_around_the_truth():
    half = stage(counts={"DONE": 10, "READY": 8, "RUNNING": 2}, seconds=100, squares=1000)
    low, high = left_s([half], 2) or (0, 0)
    assert low < 50 < high < 100
    alone = left_s([stage("one", None, counts={"RUNNING": 1}, percent_sum=50, elapsed_s=60)], 1)
    assert alone == (pytest.approx(30), pytest.approx(90))
    assert left_s([stage(counts={"DONE": 5}, seconds=5)], 1) is None


def test_ranges_are_short_to_read():
    texts = [range_text(*pair) for pair in ((0.2, 0.9), (20, 40), (100, 250), (3000, 9000), (7200, 7200))]
    assert texts == ["0–1 s", "20–40 s", "1–5 min", "0–3 h", "2 h"]


def test_the_bars_show_stages_failures_and_notes():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    job = Job(
        "job_1", "demo", None, 1, "", None, 5, "READY", "processing", None, 1,
        NOW - timedelta(minutes=5), NOW, NOW - timedelta(minutes=4), None, {},
    )  # fmt: skip
    counts = {"DONE": 9, "FAILED": 1, "RUNNING": 2}
    work = stage(counts=counts, seconds=900, squares=90_000, note="[b]half\x1b[2J")
    with Bars(console) as bars:
        bars.show(job, at(stage("split", None, counts={"DONE": 1}), work, stage("next", is_expanded=False)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for part in (
        "split",
        "1/1",
        "9/12, 1 failed",
        "[b]half [2J",
        "not split yet",
        "processing",
        "4 min",
        "ETA",
    ):
        assert part in text
