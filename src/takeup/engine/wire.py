"""Frames between a worker and its runners: a length and a JSON object, as a runner runs foreign code."""

import json
from collections.abc import Mapping
from typing import Any

from takeup.core.errors import InvalidInput

FRAME_BYTES_MAX = 32 * 1024 * 1024
HEAD_BYTES = 4

Frame = Mapping[str, Any]


def encode(frame: Frame) -> bytes:
    """A frame as it is sent."""
    body = json.dumps(frame, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > FRAME_BYTES_MAX:
        raise InvalidInput(
            f"a message of {len(body)} bytes between worker and runner exceeds {FRAME_BYTES_MAX}"
        )
    return len(body).to_bytes(HEAD_BYTES, "big") + body


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
