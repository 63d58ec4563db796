"""From old rows to jobs: nothing is un-paused, whatever it says."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.core.pipeline import Pipeline, Stage
from takeup.pipelines.control.mapping import STRICTNESS, TOGGLE_WORDS, OldRow, Rules, judge
from tests.control.conftest import PIPELINE

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RULES = Rules(PIPELINE, NOW)
NAMES = tuple(PIPELINE.stages)


def verdict(rules: Rules = RULES, lease_until: datetime | float | None = None, **values: Any):
    return judge(OldRow(0, {"url": "u", "iteration": 1, **values}, lease_until), rules)


@pytest.mark.parametrize(
    ("task_state", "process_status", "control"),
    [
        (None, None, "READY"),
        ("READY", "READY", "READY"),
        ("READY", "PAUSED", "PAUSED"),
        ("PAUSED", "READY", "PAUSED"),
        ("READY", "SKIP", "SKIP"),
        ("SKIP", "PAUSED", "SKIP"),
        ("READY", " paused ", "PAUSED"),
        ("READY", "skipped", "SKIP"),
        ("READY", "on hold", "PAUSED"),
        (7, None, "PAUSED"),
    ],
)
def test_the_stricter_toggle_wins(task_state, process_status, control):
    found = verdict(task_state=task_state, process_status=process_status)
    assert found.control == control
    assert found.adoption.is_skipped == (control == "SKIP")
    assert (found.adoption.job.control == "PAUSED") == (control == "PAUSED")


@pytest.mark.parametrize(
    ("stage", "status", "goes_on", "control"),
    [
        (None, None, "fetch", "READY"),
        ("fetch", "READY", "fetch", "READY"),
        ("fetch", "COMPLETED", "align", "READY"),
        ("ALIGN", "completed", "score", "READY"),
        ("score", "COMPLETED", None, "READY"),
        ("align", "ERROR", "align", "READY"),
        ("align", "IN_PROGRESS", "align", "READY"),
        ("align", "WHATEVER", "align", "PAUSED"),
        ("unheard of", "READY", "fetch", "PAUSED"),
        ("unheard of", "COMPLETED", "fetch", "PAUSED"),
        (None, "COMPLETED", "fetch", "PAUSED"),
        (None, "IN_PROGRESS", "fetch", "PAUSED"),
    ],
)
def test_where_the_work_goes_on(stage, status, goes_on, control):
    found = verdict(stage=stage, status=status)
    assert (found.stage, found.control) == (goes_on, control)
    assert found.adoption.done == NAMES[: NAMES.index(goes_on) if goes_on else 3]
    assert bool(found.notes) == (control == "PAUSED")


def test_old_names_of_stages_can_be_given():
    rules = Rules(PIPELINE, NOW, {"Similarity Pipe": "align"})
    assert verdict(rules, stage="Similarity Pipe", status="COMPLETED").stage == "score"


def test_a_pipeline_of_one_stage_needs_no_stage_column():
    rules = Rules(Pipeline.of("one", [Stage("work")], key=("url", "iteration")), NOW)
    assert verdict(rules, status="COMPLETED").stage is None
    assert verdict(rules, status="IN_PROGRESS").control == "READY"


def test_a_splitter_runs_again_when_its_segments_are_needed():
    stages = [
        Stage("split"),
        Stage("encode", needs=("split",), each="segment"),
        Stage("join", needs=("encode",)),
    ]
    rules = Rules(Pipeline.of("fan", stages, key=("url", "iteration")), NOW)
    for stage, goes_on in (("split", "split"), ("encode", "join"), ("join", None)):
        found = verdict(rules, stage=stage, status="COMPLETED")
        assert (found.stage, found.control) == (goes_on, "READY")
    assert verdict(rules, stage="encode", status="ERROR").stage == "split"


@pytest.mark.parametrize(
    ("is_claimed", "status", "after_s", "not_before_s", "control"),
    [
        (True, "IN_PROGRESS", 60, 60, "READY"),
        (None, "IN_PROGRESS", 60, 60, "READY"),
        (True, "READY", 60, 60, "READY"),
        (False, "IN_PROGRESS", 60, None, "READY"),
        (None, "READY", 60, None, "READY"),
        (True, "IN_PROGRESS", -60, None, "READY"),
        (True, "IN_PROGRESS", 0, None, "READY"),
        (True, "IN_PROGRESS", None, None, "READY"),
        (True, "IN_PROGRESS", 10**9, None, "PAUSED"),
    ],
)
def test_a_lease_that_lives_is_waited_for(is_claimed, status, after_s, not_before_s, control):
    until = None if after_s is None else NOW + timedelta(seconds=after_s)
    found = verdict(lease_until=until, is_claimed=is_claimed, status=status, stage="fetch")
    assert found.control == control
    assert found.not_before == (None if not_before_s is None else NOW + timedelta(seconds=not_before_s))
    assert found.adoption.job.not_before == found.not_before


def test_a_lease_that_cannot_be_read_pauses():
    assert (
        verdict(lease_until=math.inf, is_claimed=True, status="IN_PROGRESS", stage="fetch").control
        == "PAUSED"
    )


@pytest.mark.parametrize("values", [{"url": None}, {"url": ""}, {"url": 5}, {"iteration": None},
    {"iteration": "first"}, {"iteration": 1.5}, {"iteration": True}, {"iteration": 10**19},
    {"note": "\x00"}])  # fmt: skip
def test_what_cannot_be_a_job_is_kept_with_a_note(values):
    found = judge(OldRow(0, {"url": "u", "iteration": 1, **values}), RULES)
    assert (found.adoption, len(found.notes)) == (None, 1)


def test_other_columns_travel_in_the_spec():
    found = verdict(
        iteration="7", title="t", score=math.nan, tags=[1, math.inf], worker_id="w", updated_at="x"
    )
    assert found.adoption.job.spec == {
        "url": "u",
        "iteration": 7,
        "title": "t",
        "score": "nan",
        "tags": [1, "inf"],
    }


words = st.one_of(
    st.none(),
    st.sampled_from(["READY", "PAUSED", "SKIP", "COMPLETED", "ERROR", "IN_PROGRESS", *NAMES]),
    st.text(max_size=8),
    st.integers(),
)


@given(
    task_state=words,
    process_status=words,
    stage=words,
    status=words,
    is_claimed=st.sampled_from([None, True, False]),
    lease=st.one_of(
        st.none(), st.just(math.inf), st.integers(-(10**6), 10**6).map(lambda s: NOW + timedelta(seconds=s))
    ),
)
def test_nothing_is_unpaused(task_state, process_status, stage, status, is_claimed, lease):
    found = verdict(
        lease_until=lease,
        task_state=task_state,
        process_status=process_status,
        stage=stage,
        status=status,
        is_claimed=is_claimed,
    )
    asked = [
        TOGGLE_WORDS.get("" if word is None else str(word).strip().upper(), "PAUSED")
        for word in (task_state, process_status)
    ]
    assert STRICTNESS.index(found.control) >= max(map(STRICTNESS.index, asked))
    adoption = found.adoption
    assert adoption is not None
    assert adoption.done == NAMES[: len(adoption.done)]
    assert len(adoption.done) == 0 or str(stage).strip().lower() in NAMES, "nothing is left out by a guess"
    if isinstance(lease, datetime) and lease > NOW and status == "IN_PROGRESS" and is_claimed is not False:
        assert found.not_before == lease or found.control != "READY"
