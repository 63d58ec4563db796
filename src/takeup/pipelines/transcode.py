"""The pipelines that make an adaptive stream of a video, segment by segment."""

from takeup.core.pipeline import Pipeline
from takeup.core.policy import RetryPolicy
from takeup.stages import streaming, transcoding

PATIENCE = RetryPolicy(max_attempts=25, initial_s=1.0, cap_s=60.0)
"""Every death of a worker costs the tasks it held an attempt, and a machine may die often; what is wrong with
a source is told at once."""
VERSION = 2


def pipeline(name: str, *, is_early: bool) -> Pipeline:
    """The stages of a transcode; what they make for each other is removed when the stream is published."""
    made = Pipeline(name, lease="1m", version=VERSION)
    made.stage(name="validate", phase="validating", retries=PATIENCE)(transcoding.validate)
    made.stage(name="plan", needs=["validate"], phase="planning", retries=PATIENCE, temporary=True)(
        transcoding.make_plan
    )
    encoded = ["first", "encode"] if is_early else ["encode"]
    for stage in encoded:
        made.stage(name=stage, needs=["plan"], each="segment", stall="5m", retries=PATIENCE, temporary=True)(
            transcoding.encode_segment
        )
    made.stage(name="sound", needs=["plan"], stall="30m", retries=PATIENCE, temporary=True)(
        transcoding.encode_sound
    )
    if is_early:
        made.stage(name="early", needs=["plan", "first", "sound"], phase="processing", retries=PATIENCE)(
            streaming.publish_early
        )
    made.stage(
        name="package",
        needs=["plan", *encoded, "sound"],
        phase="uploading_outputs",
        retries=PATIENCE,
        temporary=True,
    )(streaming.make_package)
    published = ["package", "early"] if is_early else ["package"]
    made.stage(name="publish", needs=published, phase="uploading_outputs", retries=PATIENCE)(
        streaming.publish
    )
    return made


transcode = pipeline("transcode", is_early=False)
transcode_early = pipeline("transcode_early", is_early=True)
