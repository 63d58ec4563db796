"""The pipeline that makes an adaptive stream of a video, segment by segment."""

from takeup.core.pipeline import Pipeline
from takeup.core.policy import RetryPolicy
from takeup.stages import transcoding

PATIENCE = RetryPolicy(max_attempts=25, initial_s=1.0, cap_s=60.0)
"""Every death of a worker costs the tasks it held an attempt, and a machine may die often; what is wrong with
a source is told at once."""

transcode = Pipeline("transcode", lease="1m")

transcode.stage(name="plan", phase="validating", retries=PATIENCE)(transcoding.make_plan)
transcode.stage(name="encode", needs=["plan"], each="segment", stall="5m", retries=PATIENCE)(
    transcoding.encode_segment
)
transcode.stage(name="sound", needs=["plan"], stall="30m", retries=PATIENCE)(transcoding.encode_sound)
transcode.stage(
    name="package", needs=["plan", "encode", "sound"], phase="uploading_outputs", retries=PATIENCE
)(transcoding.make_package)
