"""Frames between a worker and its runners: a length and a JSON object, as a runner runs foreign code."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from takeup.core.errors import InvalidInput
from takeup.core.model import Brief

FRAME_BYTES_MAX = 32 * 1024 * 1024
HEAD_BYTES = 4

Frame = Mapping[str, Any]


class Start(NamedTuple):
    """A task as its runner is told of it; what belongs to its job is told once a frame."""

    task_id: int
    epoch: int
    nonce_hash: str
    job_id: str
    pipeline: str
    stage: str
    segment: int | None
    generation: int
    attempt: int
    max_attempts: int
    parameters: Mapping[str, Any]


def encode(frame: Frame) -> bytes:
    """A frame as it is sent."""
    body = json.dumps(frame, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > FRAME_BYTES_MAX:
        raise InvalidInput(
            f"a message of {len(body)} bytes between worker and runner exceeds {FRAME_BYTES_MAX}"
        )
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def encode_starts(starts: Sequence[Start], jobs: Mapping[str, Brief]) -> bytes:
    """These tasks and their jobs, in as few frames as they fit in."""
    told = {start.job_id: jobs[start.job_id] for start in starts}
    try:
        return encode({"op": "start", "tasks": starts, "jobs": told})
    except InvalidInput:
        if len(starts) == 1:
            raise
    middle = len(starts) // 2
    return encode_starts(starts[:middle], jobs) + encode_starts(starts[middle:], jobs)


class Decoder:
    """Frames from the bytes of a stream, however they are cut."""

    def __init__(self) -> None:
        """Start at the beginning of a stream."""
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete."""
        self._buffer += data
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= HEAD_BYTES:
            size = int.from_bytes(self._buffer[start : start + HEAD_BYTES], "big")
            if size > FRAME_BYTES_MAX:
                raise InvalidInput(f"a frame announces {size} bytes; at most {FRAME_BYTES_MAX} are allowed")
            end = start + HEAD_BYTES + size
            if len(self._buffer) < end:
                break
            frames.append(json.loads(self._buffer[start + HEAD_BYTES : end]))
            start = end
        del self._buffer[:start]
        return frames
