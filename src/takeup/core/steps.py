"""Where a transcode stands in the five words that its users know: `current_step`."""

from collections.abc import Sequence

from takeup.core.progress import StageProgress

STEPS = {
    "validate": "probe",
    "plan": "probe",
    "first": "transcode",
    "encode": "transcode",
    "sound": "transcode",
    "texts": "transcode",
    "package": "master_playlist",
    "early": "finalize",
    "check": "finalize",
    "publish": "finalize",
}
"""The step that each stage stands for; `thumbnail` is drawn by `package`, whose note says when."""
DRAWING = "thumbnail"


def current_step(stages: Sequence[StageProgress]) -> str | None:
    """The step of the first stage that is not over, else of the last; None for other pipelines."""
    if not stages or any(stage.stage not in STEPS for stage in stages):
        return None
    ordered = sorted(stages, key=lambda stage: (list(STEPS).index(stage.stage), stage.position))
    current = next((stage for stage in ordered if stage.fraction < 1.0), ordered[-1])
    is_drawing = current.stage == "package" and current.running and current.note == DRAWING
    return DRAWING if is_drawing else STEPS[current.stage]
