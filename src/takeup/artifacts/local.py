"""Outputs on a local disk: staged under the token, published by one rename: a reader sees all or nothing."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from takeup.artifacts import manifest as manifests
from takeup.artifacts.files import hash_file, sync_folder, walk
from takeup.artifacts.layout import LOCK, MANIFEST, TaskFolder, check_job, check_key, split_key
from takeup.artifacts.manifest import Keeping, Manifest, listed
from takeup.artifacts.port import Artifacts
from takeup.artifacts.removal import remove, sweep, task_folders
from takeup.core.errors import Conflict, InvalidInput, NotFound
from takeup.core.points import point
from takeup.core.report import check_artifacts, result_text

STAGING = ".staging"
PUBLISH_TRIES = 5
"""Several processes may publish one output at once; each try sees what the others did."""


class LocalArtifacts(Artifacts):
    """Outputs under one root, which must be one file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staging = root / STAGING

    def stage(self, folder: TaskFolder) -> Path:
        path = self.staged_path(folder)
        self.root.mkdir(parents=True, exist_ok=True)
        self._staging.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(exist_ok=True)
        return path

    def staged_path(self, folder: TaskFolder) -> Path:
        """Where this attempt's outputs are staged, whether or not they are there."""
        return self._staging / folder.check().name

    def seal(
        self,
        folder: TaskFolder,
        key: str,
        version: int,
        result: Mapping[str, Any],
        *,
        is_temporary: bool = False,
    ) -> Manifest:
        path = self.staged_path(folder)
        if not path.exists():
            raise NotFound(f"the staging folder {folder.name} is gone: removed, or taken by a later attempt")
        if (path / MANIFEST).exists() and manifests.read(path) is None:
            raise InvalidInput(f"output {MANIFEST!r} has a name that is kept for the list of the outputs")
        files, folders = [], [path]
        for entry in walk(path):
            if entry.is_folder:
                folders.append(entry.path)
                continue
            if entry.stat.st_nlink > 1:
                raise InvalidInput(f"output {entry.name!r} is a hard link, so others could change it later")
            files.append(listed(check_key(key), entry.name, *hash_file(entry.path, sync=True)))
        check_artifacts(files)
        files.sort(key=lambda file: file.name)
        stored = json.loads(result_text(result))
        keeping: Keeping = "temporary" if is_temporary else "kept"
        manifest = Manifest(*folder, check_key(key), version, stored, tuple(files), keeping)
        for made in reversed(folders):
            sync_folder(made)
        point("seal.before manifest")
        if manifests.read(path) != manifest:
            manifests.write(path, manifest)
        sync_folder(self._staging)
        sync_folder(self.root)
        point("seal.after manifest")
        return manifest

    def find(self, folder: TaskFolder, key: str) -> Manifest | None:
        for path in (self._final(key), *self._earlier(folder)):
            manifest = manifests.read(path)
            if manifest is not None and _is_sound(path, manifest, key):
                return manifest
        return None

    def adopt(self, folder: TaskFolder, manifest: Manifest) -> Manifest:
        if manifest.folder == folder or manifests.read(self._final(manifest.key)) == manifest:
            return manifest
        ours = self.staged_path(folder)
        # Not looked up by its token: an adoption cut short leaves a folder whose manifest names an older one.
        source = next((path for path in self._earlier(folder) if manifests.read(path) == manifest), None)
        if source is None:
            raise NotFound(f"the outputs sealed as {manifest.folder.name} are gone; make them again")
        if source != ours:
            remove(ours, self._staging)
            point("adopt.before rename")
            try:
                source.rename(ours)
            except FileNotFoundError:
                raise NotFound(
                    f"the outputs sealed as {manifest.folder.name} are gone; make them again"
                ) from None
            sync_folder(self._staging)
            point("adopt.after rename")
        adopted = manifest.under(folder)
        manifests.write(ours, adopted)
        return adopted

    def publish(self, folder: TaskFolder, key: str) -> bool:
        staged, final = self.staged_path(folder), self._final(key)
        for _ in range(PUBLISH_TRIES):
            sealed = manifests.read(staged)
            if not staged.exists():
                return self._is_published(key)
            ours = sealed is not None and sealed.folder == folder and sealed.key == key
            ready = ours and not staged.is_symlink()
            if self._keep(final, key, may_replace=ready):
                remove(staged, self._staging)
                return True
            if not ready:
                raise Conflict(
                    f"{folder.name} is not sealed as {key} under its own token; nothing was published"
                )
            final.parent.mkdir(parents=True, exist_ok=True)
            (staged / LOCK).unlink(missing_ok=True)
            point("publish.before rename")
            try:
                staged.rename(final)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                    continue
                raise
            point("publish.after rename")
            self._sync_names(final)
            return True
        raise Conflict(f"{key} is being published by too many at once")

    def open_path(self, key: str) -> Path:
        place, name = split_key(key)
        path = self._final(place) / name
        if not path.resolve().is_relative_to(self.root.resolve()) or not path.is_file():
            raise NotFound(f"there is no output {key!r}")
        return path

    def forget(self, job_id: str) -> int:
        """Remove the temporary outputs of a job that is over, cut short or repeated as often as it may be."""
        count = 0
        for path in sorted(self.root.glob(f"*/{check_job(job_id)}/g*/*/*")):
            manifest = manifests.read(path)
            if manifest is None or manifest.keeping == "kept":
                continue
            if manifest.keeping == "temporary":
                manifests.write(path, replace(manifest, keeping="removed"))
                count += 1
            point("forget.before remove")
            for entry in path.iterdir():
                if entry.name != MANIFEST:
                    remove(entry, self._staging)
        return count

    def staged(self) -> list[TaskFolder]:
        return task_folders(self._staging)

    def drop(self, folder: TaskFolder) -> None:
        remove(self.staged_path(folder), self._staging)

    def sweep_trash(self) -> int:
        """Finish removals that a crash cut short; how many there were."""
        return sweep(self._staging)

    def verify(self, manifest: Manifest) -> list[str]:
        """What is wrong with a published output, a sentence each."""
        final = self._final(manifest.key)
        stored = manifests.read(final)
        if stored is None:
            return [f"{manifest.key}: nothing is published here that has a manifest"]
        other = [] if stored == manifest else [f"{manifest.key}: the published manifest is another one"]
        return other + [f"{manifest.key}: {problem}" for problem in _problems(final, manifest)]

    def _final(self, key: str) -> Path:
        return self.root / check_key(key)

    def _earlier(self, folder: TaskFolder) -> list[Path]:
        """The staging folders an attempt may take from: its own and those of earlier epochs, latest first.

        Never of a later one: a zombie would take from the holder what the holder is about to publish.
        """
        others = [
            other for other in self.staged() if other.task_id == folder.task_id and other.epoch < folder.epoch
        ]
        return [self.staged_path(one) for one in (folder, *reversed(others))]

    def _is_published(self, key: str) -> bool:
        final = self._final(key)
        manifest = manifests.read(final)
        if manifest is None or manifest.key != key:
            return False
        self._sync_names(final)  # whoever renamed it may have died before
        return True

    def _keep(self, final: Path, key: str, *, may_replace: bool) -> bool:
        """Whether the published folder is sound; if not and it may be replaced, it is removed."""
        try:
            fd = os.open(final, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)  # two that replace at once must not remove each other's
            manifest = manifests.read(final)
            if manifest is not None and (_is_removed(manifest, key) or _is_sound(final, manifest, key)):
                return True
            if may_replace and final.exists() and os.fstat(fd).st_ino == final.stat().st_ino:
                remove(final, self._staging)
            return False
        finally:
            os.close(fd)

    def _sync_names(self, final: Path) -> None:
        sync_folder(self._staging)
        for parent in final.parents:
            sync_folder(parent)
            if parent == self.root:
                return


def _is_removed(manifest: Manifest, key: str) -> bool:
    return manifest.key == key and manifest.keeping == "removed"


def _is_sound(path: Path, manifest: Manifest, key: str) -> bool:
    return manifest.key == key and next(_problems(path, manifest), None) is None


def _problems(path: Path, manifest: Manifest) -> Iterator[str]:
    """Where a folder differs from its manifest; the cheap looks come first."""
    try:
        found = {entry.name: entry for entry in walk(path) if not entry.is_folder}
    except (InvalidInput, OSError) as error:
        yield str(error)
        return
    names = {file.name for file in manifest.files}
    yield from (f"{name!r} is not in the manifest" for name in found if name not in names)
    yield from (f"{name!r} is missing" for name in sorted(names) if name not in found)
    present = [(file, found[file.name]) for file in manifest.files if file.name in found]
    for file, entry in present:
        if entry.stat.st_size != file.size_bytes:
            yield f"{file.name!r} has {entry.stat.st_size} bytes instead of {file.size_bytes}"
    for file, entry in present:
        try:
            if entry.stat.st_size == file.size_bytes and hash_file(entry.path)[0] != file.sha256:
                yield f"{file.name!r} has another content than its SHA-256 says"
        except (InvalidInput, OSError) as error:
            yield f"{file.name!r} cannot be read: {error}"
