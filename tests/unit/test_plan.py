"""From a request to rows, and from a splitter's result to segments."""

from datetime import UTC, datetime
from typing import Any

import pytest

from takeup.core.errors import InvalidInput, InvalidResult
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import LanePlan, NewJob, lists_segments, plan_job, plan_segments, segments_of
from takeup.core.policy import RetryPolicy

FAN = Pipeline.of(
    "fan",
    [
        Stage("split", phase="planning", requires=frozenset({"b", "a"})),
        Stage("encode", ("split",), each="segment", prefers="gpu", retry=RetryPolicy("none", max_attempts=9)),
        Stage("check", ("encode", "split"), each="segment"),
        Stage("join", ("check",)),
    ],
)


def test_a_job_is_laid_out():
    plan = plan_job(NewJob(FAN, {"b": 1, "a": [None]}, user_id="u", priority=7))
    assert (plan.pipeline, plan.priority, plan.user_id, plan.spec) == ("fan", 7, "u", '{"a":[null],"b":1}')
    assert [(task.stage, task.segment, task.status) for task in plan.tasks] == [
        ("split", None, "READY"),
        ("join", None, "NEW"),
    ]
    assert [(s.stage, s.position, s.splitter, s.max_attempts) for s in plan.stages] == [
        ("split", 0, None, 3),
        ("encode", 1, "split", 1),
        ("check", 2, "split", 3),
        ("join", 3, None, 3),
    ]
    assert [(n.stage, n.needs, n.per_segment) for n in plan.needs] == [
        ("encode", "split", False),
        ("check", "encode", True),
        ("check", "split", False),
        ("join", "check", False),
    ]
    assert plan.stages[0].lane == LanePlan("fan", "split", ("a", "b"))


def test_the_hash_is_of_pipeline_version_and_spec():
    def hash_of(**options: Any) -> str:
        spec = options.pop("spec", {"a": 1})
        name, version = options.pop("name", "p"), options.pop("version", 1)
        return plan_job(NewJob(Pipeline.of(name, [Stage("a")], version=version), spec, **options)).spec_hash

    same = hash_of()
    assert hash_of(priority=9, subject="s", idempotency_key="k") == same
    assert len({same, hash_of(spec={"a": 2}), hash_of(name="q"), hash_of(version=2)}) == 4


def test_a_job_for_later_waits_in_new():
    plan = plan_job(NewJob(Pipeline.of("p", [Stage("a")]), not_before=datetime(2030, 1, 1, tzinfo=UTC)))
    assert [task.status for task in plan.tasks] == ["NEW"]


def test_the_key_of_a_pipeline_makes_the_subject():
    keyed = Pipeline.of("p", [Stage("a")], key=("url", "turn"))
    assert plan_job(NewJob(keyed, {"url": "u", "turn": 1})).subject == 'p:["u",1]'
    assert plan_job(NewJob(keyed, {"url": "u", "turn": 1}, subject="mine")).subject == "mine"
    assert plan_job(NewJob(FAN)).subject is None
    with pytest.raises(InvalidInput, match="needs url, turn in the spec"):
        plan_job(NewJob(keyed))


@pytest.mark.parametrize(
    "options",
    [
        {"spec": None},
        {"spec": "text"},
        {"spec": [1]},
        {"subject": 5},
        {"subject": "x" * 513},
        {"user_id": "a\x00"},
        {"idempotency_key": ""},
        {"idempotency_key": "a\nb"},
        {"not_before": "tomorrow"},
        {"not_before": datetime(2030, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
        {"control": "SKIP"},
        {"control": None},
        {"priority": 11},
    ],
)
def test_bad_requests(options: dict[str, Any]):
    with pytest.raises(InvalidInput):
        plan_job(NewJob(FAN, **options))


def test_a_pipeline_without_stages_makes_no_job():
    with pytest.raises(InvalidInput, match="no stages"):
        plan_job(NewJob(Pipeline("empty")))


def test_segments_come_from_a_list_or_a_number():
    assert segments_of({"segments": 3}) == [{}, {}, {}]
    assert segments_of({"segments": [{"a": 1}, {}]}) == [{"a": 1}, {}]
    plans = plan_segments("encode", {"segments": [{"b": 1, "a": 2}, {}]})
    assert [(p.stage, p.segment, p.status, p.parameters) for p in plans] == [
        ("encode", 0, "NEW", '{"a":2,"b":1}'),
        ("encode", 1, "NEW", "{}"),
    ]
    assert plan_segments("encode", {"segments": 0}) == ()


@pytest.mark.parametrize("segments", [-1, 100_001, True, 1.0, "2", None, [1], [{}, None], {"a": 1}])
def test_what_is_no_list_of_segments(segments: Any):
    with pytest.raises(InvalidResult):
        segments_of({"segments": segments})
    assert not lists_segments({"segments": segments})
    assert not lists_segments({})


def test_too_many_segments():
    with pytest.raises(InvalidResult, match="at most 100000"):
        segments_of({"segments": [{}] * 100_001})


@pytest.mark.parametrize(
    ("able", "stages", "fits"),
    [
        ({"a", "b"}, ["*"], True),
        ({"a", "b", "c"}, ["p/*"], True),
        ({"a", "b"}, ["x/*", "p/s"], True),
        ({"a", "b"}, ["p/t", "q/s"], False),
        ({"a"}, ["*"], False),
        ({"a", "b"}, [], False),
        ({"a", "b"}, ["p"], False),
    ],
)
def test_lanes_fit_by_stage_and_capability(able: set[str], stages: list[str], fits: bool):  # noqa: FBT001
    assert LanePlan("p", "s", ("a", "b")).fits(frozenset(able), stages) is fits


def test_lanes_suit_by_preference_and_have_one_name_each():
    lane = LanePlan("p", "s", prefers="gpu")
    assert lane.suits(frozenset({"gpu"}))
    assert not lane.suits(frozenset())
    assert LanePlan("p", "s").suits(frozenset())
    names = {LanePlan("p", "s").name, lane.name, LanePlan("p", "s", ("gpu",)).name, LanePlan("p", "t").name}
    assert len(names) == 4
