"""The manifest: which attempt made an output, what it returned, and each file with its size and hash."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from takeup.artifacts.files import read_bounded, write_durably
from takeup.artifacts.layout import MANIFEST, MANIFEST_NEW, TaskFolder, check_key, check_name
from takeup.core.errors import InvalidInput
from takeup.core.model import Artifact
from takeup.core.report import ARTIFACTS_MAX, check_artifacts, result_text

FORMAT = 1
Keeping = Literal["kept", "temporary", "removed"]
MANIFEST_BYTES_MAX = 32 * 2**20
"""More than the longest names for every file that a task may have, with the largest result."""


class InvalidManifest(InvalidInput):
    """A manifest is torn, altered or of another format, so its folder is no output."""

    help = "Nothing needs to be done: the output is made again by the task's next attempt."


@dataclass(frozen=True, slots=True)
class Manifest:
    """The list of one task's outputs under one token."""

    task_id: int
    epoch: int
    nonce_hash: str
    key: str
    version: int
    result: Mapping[str, Any]
    files: tuple[Artifact, ...]
    keeping: Keeping = "kept"
    """Temporary outputs are removed when their job is over; their list stays, and says so."""
    format: int = FORMAT

    @property
    def folder(self) -> TaskFolder:
        """The token it was sealed under."""
        return TaskFolder(self.task_id, self.epoch, self.nonce_hash)

    def under(self, folder: TaskFolder) -> "Manifest":
        """The same outputs in the hands of another attempt."""
        return replace(self, task_id=folder.task_id, epoch=folder.epoch, nonce_hash=folder.nonce_hash)

    def to_json(self) -> str:
        """Its text, the same for the same outputs."""
        value: dict[str, Any] = {
            "format": self.format,
            "task_id": self.task_id,
            "epoch": self.epoch,
            "nonce_hash": self.nonce_hash,
            "key": self.key,
            "version": self.version,
            "result": self.result,
            "files": [{"name": f.name, "sha256": f.sha256, "size_bytes": f.size_bytes} for f in self.files],
        }
        if self.keeping != "kept":
            value["keeping"] = self.keeping
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1, sort_keys=True) + "\n"


def parse(text: str) -> Manifest:
    """The manifest of this text; raises `InvalidManifest` for a text that cannot be one."""
    try:
        return _build(json.loads(text))
    except (InvalidInput, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidManifest(f"the manifest cannot be used: {error}") from None


def read(path: Path) -> Manifest | None:
    """The manifest of this folder, or None if it has none that can be used."""
    data = read_bounded(path / MANIFEST, MANIFEST_BYTES_MAX)
    if data is None:
        return None
    try:
        return parse(data.decode())
    except (InvalidManifest, UnicodeDecodeError):
        return None


def write(path: Path, manifest: Manifest) -> None:
    """Give this folder its manifest: all of it or none, also after a power cut."""
    data = manifest.to_json().encode()
    if len(data) > MANIFEST_BYTES_MAX:
        raise InvalidInput(f"the manifest has {len(data)} bytes; at most {MANIFEST_BYTES_MAX} are allowed")
    write_durably(path / MANIFEST, path / MANIFEST_NEW, data)


def listed(key: str, name: str, sha256: str, size_bytes: int) -> Artifact:
    """A file as the manifest of this key lists it."""
    return Artifact(check_name(name), f"{key}/{name}", sha256, size_bytes)


def _build(value: Any) -> Manifest:
    if not isinstance(value, dict) or _number(value["format"]) != FORMAT:
        raise InvalidManifest(f"it is not of format {FORMAT}")
    if len(value["files"]) > ARTIFACTS_MAX:
        raise InvalidManifest(f"it lists more than {ARTIFACTS_MAX} files")
    key = check_key(value["key"])
    files = tuple(listed(key, f["name"], f["sha256"], f["size_bytes"]) for f in value["files"])
    check_artifacts(files)
    result_text(value["result"])
    manifest = Manifest(
        task_id=_number(value["task_id"]),
        epoch=_number(value["epoch"]),
        nonce_hash=value["nonce_hash"],
        key=key,
        version=_number(value["version"]),
        result=value["result"],
        files=files,
        keeping=_keeping(value.get("keeping", "kept")),
    )
    manifest.folder.check()
    return manifest


def _keeping(value: Any) -> Keeping:
    for keeping in get_args(Keeping):
        if value == keeping:
            return keeping  # type: ignore[no-any-return]
    raise InvalidManifest(f"{str(value)[:80]!r} does not say how long the outputs are kept")


def _number(value: Any) -> int:
    if type(value) is not int:
        raise InvalidManifest(f"{str(value)[:80]!r} is not a whole number")
    return value
