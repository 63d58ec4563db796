"""Pipelines: what is declared is checked at once, and a bad graph says which stage is at fault."""

import functools
import re

import pytest

from takeup.core.errors import InvalidInput, InvalidPipeline, UnknownStage
from takeup.core.pipeline import STAGES_MAX, Pipeline, Stage, sorted_stages, splitter_of
from takeup.core.policy import RetryPolicy


def test_a_pipeline_is_declared_by_functions():
    pipeline = Pipeline("demo", key=("url",), lease="2m")

    @pipeline.stage(requires=["gpu"], retries=4, phase="planning")
    def probe() -> None: ...

    @pipeline.stage(name="pack", needs=[probe], lease="30s", stall="5m", retries=RetryPolicy("fixed"))
    def package() -> None: ...

    first, second = pipeline.stages.values()
    assert (first.name, first.requires, first.lease_s) == ("probe", frozenset({"gpu"}), 120.0)
    assert (first.retry.max_attempts, first.phase, first.function) == (4, "planning", probe)
    assert (second.name, second.needs, second.lease_s, second.stall_s) == ("pack", ("probe",), 30.0, 300.0)
    assert pipeline.get("pack") is second
    assert "probe, pack" in repr(pipeline)


def stages(**needs: tuple[str, ...]) -> list[Stage]:
    return [Stage(name, needs=needed) for name, needed in needs.items()]


def test_stages_in_any_order_are_sorted():
    pipeline = Pipeline.of("demo", stages(c=("a", "b"), b=("a",), a=()))
    assert list(pipeline.stages) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (stages(a=("a",)), "cycle"),
        (stages(a=("b",), b=("a",)), "a, b wait for each other in a cycle"),
        (stages(x=(), a=("c",), b=("a",), c=("b",)), "a, b, c wait"),
        (stages(a=("nobody",)), "'nobody', which does not exist"),
        ([Stage("a"), Stage("a")], "two stages named a"),
        ([Stage("a", each="segment")], "exactly one stage must list the segments; it has none"),
        ([Stage("a"), Stage("b"), Stage("c", ("a", "b"), each="segment")], "it has a, b"),
        (
            [
                Stage("s"),
                Stage("t"),
                Stage("a", ("s",), each="segment"),
                Stage("b", ("t",), each="segment"),
                Stage("c", ("a", "b"), each="segment"),
            ],
            "it has s, t",
        ),
        ([Stage("A")], "must match"),
        ([Stage("")], "must match"),
        ([Stage("x" * 64)], "must match"),
        ([Stage("a\n")], "must match"),
        ([Stage("a", phase="pending")], "phase 'pending' is not one of"),
        ([Stage("a", each="frame")], "each='frame'"),  # type: ignore[arg-type]
        ([Stage("a", requires=frozenset({"GPU!"}))], "capability 'GPU!'"),
        ([Stage("a", stall_s=0)], "stall 0"),
        ([Stage("a", stall_s=float("nan"))], "stall nan"),
        ([Stage("a", stall_s=float("inf"))], "stall inf"),
    ],
)
def test_bad_graphs(bad: list[Stage], says: str):
    with pytest.raises(InvalidPipeline, match=says):
        Pipeline.of("demo", bad)


@pytest.mark.parametrize("lease_s", [-5, 0, float("inf"), 10**9])
def test_a_lease_that_cannot_be_kept(lease_s: float):
    with pytest.raises(InvalidInput, match="lease"):
        Pipeline.of("demo", [Stage("a", lease_s=lease_s)])
    with pytest.raises(InvalidInput, match="lease"):
        Pipeline("demo", lease=lease_s)


@pytest.mark.parametrize("name", ["", "Demo", "a b", "a/b", "é", "a" * 64, "9a"])
def test_bad_names(name: str):
    with pytest.raises(InvalidPipeline):
        Pipeline(name)


def test_a_stage_that_is_refused_leaves_the_pipeline_as_it_was():
    pipeline = Pipeline.of("demo", [Stage("a")])
    for bad in (Stage("a"), Stage("b", ("c",)), Stage("b", ("b",)), Stage("b", each="segment")):
        with pytest.raises(InvalidPipeline):
            pipeline.add(bad)
    assert list(pipeline.stages) == ["a"]


def test_there_is_a_most_of_stages():
    pipeline = Pipeline("demo")
    pipeline.stages = {f"s{n}": Stage(f"s{n}") for n in range(STAGES_MAX)}
    with pytest.raises(InvalidPipeline, match="more than 256"):
        pipeline.add(Stage("last"))


def test_segment_stages_share_their_splitter():
    chain = [Stage("split"), Stage("a", ("split",), each="segment"), Stage("b", ("a",), each="segment")]
    by_name = {stage.name: stage for stage in chain}
    assert [splitter_of(stage, by_name) for stage in chain[1:]] == ["split", "split"]
    assert [stage.name for stage in sorted_stages(chain[::-1])] == ["split", "a", "b"]


def test_unknown_names_are_told_with_the_known_ones():
    pipeline = Pipeline.of("demo", [Stage("a"), Stage("b")])
    with pytest.raises(UnknownStage, match="it has: a, b"):
        pipeline.get("c")


def test_a_stage_that_is_needed_is_known_by_its_function_whatever_it_is_called():
    pipeline = Pipeline("demo")

    @pipeline.stage(name="first")
    def begin(ctx):
        return ctx

    @pipeline.stage(needs=[begin])
    def second(ctx):
        return ctx

    assert pipeline.get("second").needs == ("first",)
    with pytest.raises(InvalidPipeline, match="'print', which is not declared"):
        pipeline.stage(name="third", needs=[print])(second)


def test_a_list_is_not_a_text_and_a_stage_has_a_name():
    pipeline = Pipeline("demo")

    @pipeline.stage()
    def probe(ctx): ...

    for options, says in (
        ({"needs": "probe"}, "needs must be a list, as in needs=['probe']"),
        ({"needs": probe}, "needs must be a list, as in needs=[probe]"),
        ({"needs": None}, "needs must be a list"),
        ({"requires": "gpu"}, "requires must be a list, as in requires=['gpu']"),
    ):
        with pytest.raises(InvalidPipeline, match=re.escape(says)):
            pipeline.stage(name="next", **options)(probe)
    with pytest.raises(InvalidPipeline, match="has no name of its own; give the stage one with name="):
        pipeline.stage()(functools.partial(probe, None))
    pipeline.stage(name="bound", requires={"gpu"})(functools.partial(probe, None))
    assert list(pipeline.stages) == ["probe", "bound"]
