"""The five words for where a transcode stands follow from its stages."""

import pytest

from takeup.core.progress import StageProgress
from takeup.core.steps import DRAWING, STEPS, current_step
from takeup.pipelines.transcode import transcode, transcode_early


def stages(pipeline, done: int, **of_current: object) -> list[StageProgress]:
    names = list(pipeline.stages)
    made = [StageProgress(name, n, counts={"DONE": 1}) for n, name in enumerate(names[:done])]
    current = [
        StageProgress(name, done, **{"counts": {"RUNNING": 1}, **of_current})
        for name in names[done : done + 1]
    ]
    return [*made, *current, *(StageProgress(n, done + 1, counts={"NEW": 1}) for n in names[done + 1 :])]


def test_every_stage_of_a_transcode_has_its_step():
    assert {*transcode.stages, *transcode_early.stages} == set(STEPS)


@pytest.mark.parametrize(
    ("done", "step"),
    [
        (0, "probe"),
        (1, "probe"),
        (2, "transcode"),
        (4, "transcode"),
        (5, "master_playlist"),
        (7, "finalize"),
        (8, "finalize"),
    ],
)
def test_the_step_is_that_of_the_first_stage_that_is_not_over(done: int, step: str):
    assert current_step(stages(transcode, done)) == step


def test_the_poster_is_a_step_of_its_own():
    assert current_step(stages(transcode, 5, note=DRAWING)) == "thumbnail"


def test_other_pipelines_have_no_steps():
    assert current_step([StageProgress("primes", 0)]) is None
    assert current_step([]) is None
