"""Where outputs lie: pure names, decided before anything touches a disk."""

import re
from typing import NamedTuple

from takeup.core.errors import InvalidInput
from takeup.core.ids import NONCE_BYTES
from takeup.core.pipeline import NAME as PLAIN_NAME

MANIFEST = "manifest.json"
MANIFEST_NEW = "manifest.json.new"
"""The manifest while it is written; a rename gives it its name."""
LOCK = "manifest.json.lock"
"""Held by whoever writes to a staging folder or seals it; a file, as network file systems lock no folders."""
OWN_FILES = frozenset({MANIFEST, MANIFEST_NEW, LOCK})

NAME_CHARS_MAX = 512
PART_BYTES_MAX = 255
KEY_PARTS = 5
"""Pipeline, job, generation, stage and segment; what follows them in a file's key is the file's name."""

_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_FOLDER = re.compile(rf"({_NUMBER})\.({_NUMBER})\.([0-9a-f]{{{2 * NONCE_BYTES}}})\Z")
_PLAIN = PLAIN_NAME.pattern.removesuffix(r"\Z")
_JOB = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"
_JOB_ID = re.compile(rf"{_JOB}\Z")
_KEY = re.compile(
    rf"{_PLAIN}/{_JOB}/g{_NUMBER}/{_PLAIN}\.v{_NUMBER}/(?:[0-9]{{6}}|[1-9][0-9]{{6,18}}|whole)\Z"
)


class TaskFolder(NamedTuple):
    """Whose a staging or scratch folder is: one attempt's, by its token, so that attempts never meet."""

    task_id: int
    epoch: int
    nonce_hash: str

    @property
    def name(self) -> str:
        return f"{self.task_id}.{self.epoch}.{self.nonce_hash}"

    @staticmethod
    def parse(name: str) -> "TaskFolder | None":
        """The folder of this very name; None for any other name."""
        match = _FOLDER.match(name)
        return TaskFolder(int(match[1]), int(match[2]), match[3]) if match else None

    def check(self) -> "TaskFolder":
        """The folder itself, if its name is one that `parse` reads back: nothing else may become a path."""
        if TaskFolder.parse(self.name) != self:
            raise InvalidInput(f"{self.name[:80]!r} does not name the folder of a task")
        return self


def output_key(
    pipeline: str, job_id: str, generation: int, stage: str, version: int, segment: int | None
) -> str:
    """The one place of a task's outputs, the same for every attempt."""
    piece = "whole" if segment is None else f"{segment:06d}"
    return check_key(f"{pipeline}/{job_id}/g{generation}/{stage}.v{version}/{piece}")


def check_job(job_id: str) -> str:
    """The id of a job, if it can be part of a key."""
    if not _JOB_ID.match(job_id):
        raise InvalidInput(f"{job_id[:160]!r} is not the id of a job")
    return job_id


def check_key(key: str) -> str:
    """The key, if `output_key` can have made it."""
    if not _KEY.match(key):
        raise InvalidInput(f"{key[:160]!r} is not the key of a task's outputs")
    return key


def split_key(key: str) -> tuple[str, str]:
    """The key of a file as the key of its task's outputs and the file's name."""
    parts = key.split("/", KEY_PARTS)
    if len(parts) <= KEY_PARTS:
        raise InvalidInput(f"{key[:160]!r} is not the key of an output file")
    return check_key("/".join(parts[:KEY_PARTS])), check_name(parts[KEY_PARTS])


def check_name(name: str) -> str:
    """The name of an output as a stage gives it: a relative path that means the same everywhere."""
    shown = ascii(name[:80])
    if not 0 < len(name) <= NAME_CHARS_MAX:
        raise InvalidInput(f"output name {shown} must have 1 to {NAME_CHARS_MAX} characters")
    if not name.isprintable() or "\\" in name:
        raise InvalidInput(f"output name {shown} must be printable text without a backslash")
    if name in OWN_FILES:
        raise InvalidInput(f"output name {shown} is kept for the list of the outputs; choose another")
    for part in name.split("/"):
        if part in ("", ".", ".."):
            raise InvalidInput(
                f"output name {shown} must be a relative path without empty parts, '.' and '..'"
            )
        if len(part.encode()) > PART_BYTES_MAX:
            raise InvalidInput(f"output name {shown} has a part of more than {PART_BYTES_MAX} bytes")
    return name
