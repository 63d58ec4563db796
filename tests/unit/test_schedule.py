"""Schedules as they are declared: what is wrong with a cron text is said at once, and by its field."""

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import given
from hypothesis import strategies as st

from takeup.core.errors import InvalidInput, InvalidPipeline
from takeup.core.pipeline import Pipeline
from takeup.core.schedule import SCHEDULES_MAX, check_cron
from takeup.testing.clocks import START

GOOD = [
    "* * * * *",
    "0 3 * * *",
    "*/5 8-18 * * MON-FRI",
    "0,30 0/6 1-15/2 JAN,jul sun",
    "0 0 L * *",
    "0 0 LW * *",
    "0 12 * * 5L",
    "0 12 * * FRI#2",
    "*/10 * * * * *",
]
BAD = {
    "": "five fields",
    "0 3 * *": "five fields",
    "1 2 3 4 5 6 7": "five fields",
    "@daily": "five fields",
    "61 3 * * *": "minute",
    "0 24 * * *": "hour",
    "0 3 0 * *": "day of the month",
    "0 3 * 13 *": "month",
    "0 3 * * 8": "day of the week",
    "61 0 3 * * *": "second",
    "*/0 * * * *": "minute",
    "5-1 * * * *": "minute",
    "1,,2 * * * *": "minute",
    "0 3 * * 5#6": "day of the week",
    "0 3 * * L": "day of the week",
    "L 3 * * *": "minute",
    "x * * * *": "minute",
    "-1 * * * *": "minute",
    "٣ * * * *": "minute",
    "* * * * *" + " " * 300: "five fields",
}
PIECES = ["*", "0", "1", "5", "7", "12", "23", "31", "59", "60", "/", "-", ",", "L", "LW", "#", "MON", "JAN"]
PART = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)


@pytest.mark.parametrize("cron", GOOD)
def test_a_cron_text_is_kept_in_one_spelling(cron: str):
    spaced = "  " + cron.replace(" ", "\t ")
    assert check_cron(spaced) == check_cron(cron) == cron.upper()


@pytest.mark.parametrize("cron", BAD)
def test_a_wrong_cron_text_is_refused_by_its_field(cron: str):
    with pytest.raises(InvalidPipeline, match=BAD[cron]):
        Pipeline("p").every(cron)


@given(st.lists(PART, min_size=5, max_size=6).map(" ".join))
def test_what_is_accepted_can_be_run_and_what_is_refused_could_not(cron: str):
    try:
        CronSim(cron, START)
        why = ""
    except (CronSimError, AssertionError) as error:
        why = str(error) or "assertion"
    try:
        check_cron(cron)
    except InvalidPipeline:
        assert why or "L" in cron, f"{cron!r} could be run"
    else:
        assert why in ("", "Bad day-of-month"), f"{cron!r} cannot be run: {why}"


def test_a_schedule_is_data_that_nobody_changes_later():
    pipeline = Pipeline("p")
    spec = {"urls": ["a"]}
    schedule = pipeline.every("0 3 * * *", spec=spec, name="nightly", zone="Europe/Berlin", priority=9)
    spec["urls"].append("b")
    assert pipeline.schedules == {"nightly": schedule}
    assert (schedule.spec, schedule.priority) == ({"urls": ["a"]}, 9)
    assert schedule.text == "0 3 * * * Europe/Berlin"
    assert pipeline.every("0 4 * * *").name == "default"


def test_what_cannot_be_declared():
    pipeline = Pipeline("p")
    pipeline.every("0 3 * * *")
    for wrong in (
        {},
        {"name": "No Name"},
        {"name": "x", "zone": "../etc"},
        {"name": "x", "zone": 3},
        {"name": "x", "spec": "text"},
        {"name": "x", "spec": {"s": {1, 2}}},
        {"name": "x", "priority": 11},
    ):
        with pytest.raises(InvalidInput):
            pipeline.every("0 3 * * *", **wrong)
    for bad in (None, 5):
        with pytest.raises(InvalidPipeline):
            pipeline.every(bad, name="x")
    for number in range(SCHEDULES_MAX - 1):
        pipeline.every("0 3 * * *", name=f"s{number}")
    with pytest.raises(InvalidPipeline, match="more than"):
        pipeline.every("0 3 * * *", name="x")
