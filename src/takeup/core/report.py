"""Checks of what a holder reports, made before anything is written."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from takeup.core.errors import InvalidInput, InvalidResult
from takeup.core.ids import canonical_json
from takeup.core.model import Artifact, Failure, Held
from takeup.core.policy import DELAY_S_MAX

ARTIFACTS_MAX = 10_000
SIZE_BYTES_MAX = 2**63 - 1
NAME_CHARS_MAX = 1024
SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def check_batch(held: Sequence[Held]) -> None:
    """Refuse a batch in which a task stands twice: the answers could not be told apart."""
    if len({task_id for task_id, _ in held}) < len(held):
        raise InvalidInput("a task may stand only once in a batch of reports")


def weigh(report: Failure, last_error: str | None) -> tuple[str, bool]:
    """The error as it is kept, and whether to try again, if the last attempt ended with that one."""
    if report.retryable and report.sign and (last_error or "").startswith(report.sign):
        return f"{report.error}; the same as the last time, so it is not tried again", False
    return report.error, report.retryable


def result_text(result: Any) -> str:
    """The stored text of a stage's result."""
    if not isinstance(result, Mapping):
        raise InvalidResult(f"a result must be a JSON object, not {type(result).__name__}")
    return canonical_json(dict(result), what="result")


def check_artifacts(artifacts: Sequence[Artifact]) -> None:
    """Refuse a manifest that does not name each file once, with its hash and size."""
    if len(artifacts) > ARTIFACTS_MAX:
        raise InvalidInput(f"{len(artifacts)} artifacts are more than {ARTIFACTS_MAX}")
    names = set()
    for artifact in artifacts:
        for text in (artifact.name, artifact.key):
            if not 0 < len(text) <= NAME_CHARS_MAX or not text.isprintable():
                raise InvalidInput(f"artifact {text[:80]!r}: name and key must be printable text")
        if artifact.name in names:
            raise InvalidInput(f"artifact {artifact.name!r} is listed twice")
        if not SHA256.match(artifact.sha256):
            raise InvalidInput(
                f"artifact {artifact.name!r}: {artifact.sha256[:80]!r} is not a SHA-256 in hex"
            )
        if type(artifact.size_bytes) is not int or not 0 <= artifact.size_bytes <= SIZE_BYTES_MAX:
            raise InvalidInput(
                f"artifact {artifact.name!r}: size {artifact.size_bytes!r} is not a number of bytes"
            )
        names.add(artifact.name)


def check_percent(percent: Any) -> float | None:
    """Progress within 0 to 100; what is beyond is cut, what is no number is refused."""
    if percent is None:
        return None
    if type(percent) not in (int, float) or math.isnan(percent):
        raise InvalidInput(f"progress {percent!r} is not a number from 0 to 100")
    return min(max(float(percent), 0.0), 100.0)


def check_after_s(after_s: Any) -> float | None:
    """A back-off asked for by the stage, if it can be kept."""
    if after_s is None:
        return None
    if type(after_s) not in (int, float) or not 0 <= after_s <= DELAY_S_MAX:
        raise InvalidInput(f"a retry after {after_s!r} seconds is not within 0 to {DELAY_S_MAX:.0f}")
    return float(after_s)
