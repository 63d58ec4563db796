"""The pipelines that make an adaptive stream of a video, segment by segment."""

from typing import Any

from takeup.core.pipeline import Pipeline, StageFunction
from takeup.core.policy import RetryPolicy
from takeup.core.remote import STORAGE
from takeup.stages import checking, streaming, transcoding

PATIENCE = RetryPolicy(max_attempts=25, initial_s=1.0, cap_s=60.0)
"""Every death of a worker costs the tasks it held an attempt, and a machine may die often; what is wrong with
a source is told at once."""
VERSION = 3


def pipeline(name: str, *, is_early: bool) -> Pipeline:
    """The stages of a transcode; what they make for each other is removed when the stream is published."""
    made = Pipeline(name, files=("source",), lease="1m", version=VERSION)

    def add(name: str, function: StageFunction, *needs: str, **options: Any) -> None:
        made.stage(name=name, needs=needs, retries=PATIENCE, **options)(function)

    here = {STORAGE}  # these read all of the source or make the folder that is served, and take little time
    add("validate", transcoding.validate, phase="validating", requires=here)
    add("plan", transcoding.make_plan, "validate", phase="planning", temporary=True, requires=here)
    encoded = ["first", "encode"] if is_early else ["encode"]
    for stage in encoded:
        add(stage, transcoding.encode_segment, "plan", each="segment", stall="1h", temporary=True)
    add("sound", transcoding.encode_sound, "plan", stall="30m", temporary=True)
    add("texts", streaming.make_texts, "plan", temporary=True)
    beside = ["plan", "sound", "texts"]
    if is_early:
        add("early", streaming.publish_early, "first", *beside, requires=here)
    out = "uploading_outputs"
    add("package", streaming.make_package, *encoded, *beside, phase=out, temporary=True, requires=here)
    add("check", checking.check_package, "package", "plan", phase=out, requires=here)
    served = ["package", "check", *(["early"] if is_early else [])]
    add("publish", streaming.publish, *served, phase=out, requires=here)
    return made


transcode = pipeline("transcode", is_early=False)
transcode_early = pipeline("transcode_early", is_early=True)
