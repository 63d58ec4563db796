"""Outputs that come from elsewhere: staged under their token, sealed, published by the winner only."""

import asyncio
import os
import shutil
import stat
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from takeup.artifacts.archive import Extracted, Extraction
from takeup.artifacts.files import walk
from takeup.artifacts.hashing import beside
from takeup.artifacts.layout import TaskFolder, check_name, output_key
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.manifest import Manifest
from takeup.core.errors import DISK_FULL, Conflict, InvalidInput, LeaseLost, NotFound, TakeupError
from takeup.core.ids import nonce_hash
from takeup.core.model import Answer, Artifact, Completion, Held, HeldTask
from takeup.core.pipeline import Pipeline
from takeup.core.points import point
from takeup.engine.videos.receiving import Part, opened, undisturbed
from takeup.media.check.uploaded import check_stream
from takeup.store.store import WorkerStore
from takeup.telemetry.logs import logger

LOOKS_MAX, LOOK_S = 40, 0.05
FILE_MODE = 0o644

log = logger("receiving")


class WrongOffset(Conflict):
    """A part of a file does not follow what is here of it."""

    help = "Ask what is here (`GET …/outputs`) and go on from there."


class StorageFull(TakeupError):
    """There is no room for a file."""

    retryable = True
    http_status = HTTPStatus.INSUFFICIENT_STORAGE
    help = "Make room on the server's disk; the call can be sent again then."


class BadUpload(InvalidInput):
    """What came is not what its sender says it is."""

    retryable = True
    help = "Send the file that the message names once more, from its beginning."


class Receiving:
    """The files of held tasks, for workers that have no way to the disk."""

    def __init__(
        self,
        store: WorkerStore,
        artifacts: LocalArtifacts,
        pipelines: Mapping[str, Pipeline],
        *,
        reserve_bytes: int,
    ) -> None:
        """With less than `reserve_bytes` free nothing is taken."""
        self._store = store
        self._artifacts = artifacts
        self._pipelines = pipelines
        self._reserve_bytes = reserve_bytes
        self._senders: Counter[TaskFolder] = Counter()
        self._taken: set[TaskFolder] = set()
        """Attempts whose outputs are sealed and published, or replaced as a whole, just now."""

    async def held(self, worker_id: str, held: Held) -> HeldTask:
        """The task of this token; raises if the worker does not hold it any more."""
        task = await self._store.held_task(worker_id, held)
        if task is None:
            raise LeaseLost(f"task {held.task_id} is not held with this token")
        return task

    async def output(self, key: str) -> Path:
        """The file of a published output; its maker may make it visible only in a moment."""
        for _ in range(LOOKS_MAX):
            try:
                return await asyncio.to_thread(self._artifacts.open_path, key)
            except NotFound:
                await asyncio.sleep(LOOK_S)
        return await asyncio.to_thread(self._artifacts.open_path, key)

    async def named_file(self, task: HeldTask, name: str) -> Path:
        """A file that the spec of its job names, if its pipeline says that this name is one of a file."""
        pipeline = self._pipelines.get(task.pipeline)
        if pipeline is None or name not in pipeline.files:
            raise NotFound(f"pipeline {task.pipeline} declares no file {name!r} in its specs")
        place = task.brief.spec.get(name)
        if not isinstance(place, str) or not place:
            raise NotFound(f"the spec of this job names no file as {name!r}")
        return await asyncio.to_thread(_regular, Path(place), name)

    async def sizes(self, worker_id: str, held: Held) -> dict[str, int]:
        """How much of each file is here."""
        await self.held(worker_id, held)
        return await asyncio.to_thread(self._sizes, _folder(held))

    def _sizes(self, folder: TaskFolder) -> dict[str, int]:
        path = self._artifacts.staged_path(folder)
        if not path.exists():
            return {}
        return {entry.name: entry.stat.st_size for entry in walk(path) if not entry.is_folder}

    async def receive(
        self,
        worker_id: str,
        held: Held,
        name: str,
        chunks: AsyncIterator[bytes],
        *,
        offset: int,
        length: int,
    ) -> int:
        """Take bytes of a file from `offset` on; at 0 it begins anew. Answers with how much of it is here."""
        await self.held(worker_id, held)
        folder = _folder(held)
        path = self._artifacts.staged_path(folder) / check_name(name)
        try:
            with self._sending(folder):
                self._check_room(length - offset)
                await asyncio.to_thread(self._artifacts.stage, folder)
                with opened(path, may_make=True, mode=FILE_MODE) as part:
                    size = await _write(part, chunks, offset, length, name)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise StorageFull(f"there is no room for {name}") from None
            raise
        await self.held(worker_id, held)
        return size

    @contextmanager
    def _sending(self, folder: TaskFolder) -> Iterator[None]:
        """Write to an attempt's files, beside others who write to other files of it."""
        if folder in self._taken:
            raise Conflict("outputs of this task are being sent already, or published just now")
        self._senders[folder] += 1
        try:
            yield
        finally:
            self._senders[folder] -= 1
            if not self._senders[folder]:
                del self._senders[folder]

    @contextmanager
    def _alone(self, folder: TaskFolder) -> Iterator[None]:
        """Have an attempt's files to oneself: what is sealed must stay as it is until it is published."""
        if self._is_busy(folder):
            raise Conflict("outputs of this task are being sent already")
        self._taken.add(folder)
        try:
            yield
        finally:
            self._taken.discard(folder)

    def _is_busy(self, folder: TaskFolder) -> bool:
        return folder in self._taken or folder in self._senders

    async def unpack(
        self,
        worker_id: str,
        held: Held,
        chunks: AsyncIterator[bytes],
        *,
        sha256: str,
        size_bytes: int,
    ) -> dict[str, int]:
        """Take a whole stream as one gzipped tar, in place of what was sent before; answers with sizes."""
        await self.held(worker_id, held)
        folder = _folder(held)
        try:
            with self._alone(folder):
                files = await self._unpack(folder, chunks, sha256, size_bytes)
                await self._held_still(worker_id, held)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise StorageFull("there is no room for what is in the archive") from None
            raise
        return {one.name: one.size_bytes for one in files}

    async def _held_still(self, worker_id: str, held: Held) -> None:
        try:
            await self.held(worker_id, held)
        except LeaseLost:
            await asyncio.to_thread(self._artifacts.drop, _folder(held))
            raise

    async def _unpack(
        self, folder: TaskFolder, chunks: AsyncIterator[bytes], sha256: str, size_bytes: int
    ) -> Sequence[Extracted]:
        """Nothing stays of what is refused."""
        try:
            self._check_room(size_bytes)
            with (
                self._emptied(folder) as root,
                Extraction(root, sha256=sha256, size_bytes=size_bytes) as coming,
            ):
                async for chunk in chunks:
                    await asyncio.to_thread(coming.feed, chunk)
                files = await asyncio.to_thread(coming.finish)
            await asyncio.to_thread(check_stream, self._artifacts.staged_path(folder))
        except TakeupError:
            await asyncio.to_thread(self._artifacts.drop, folder)
            raise
        return files

    @contextmanager
    def _emptied(self, folder: TaskFolder) -> Iterator[int]:
        """A descriptor of the staging folder, with nothing in it."""
        self._artifacts.drop(folder)
        root = os.open(self._artifacts.stage(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield root
        finally:
            os.close(root)

    def _check_room(self, wanted_bytes: int) -> None:
        root = self._artifacts.root
        root.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(root).free < wanted_bytes + self._reserve_bytes:
            raise StorageFull(f"there is no room for {wanted_bytes} more bytes")

    async def complete(
        self, worker_id: str, reports: Sequence[Completion], *, request_id: str | None
    ) -> list[Answer]:
        """Finish tasks; outputs are sealed first, and become visible if the completion is accepted."""
        with ExitStack() as taken:
            for folder in {_folder(report.held) for report in reports if report.artifacts}:
                await self._until_quiet(folder)
                taken.enter_context(self._alone(folder))
            return await self._complete(worker_id, reports, request_id)

    async def _until_quiet(self, folder: TaskFolder) -> None:
        """A repeated call waits for the one before it, a moment at most."""
        for _ in range(LOOKS_MAX):
            if not self._is_busy(folder):
                return
            await asyncio.sleep(LOOK_S)

    async def _complete(
        self, worker_id: str, reports: Sequence[Completion], request_id: str | None
    ) -> list[Answer]:
        sealed: dict[Held, Manifest] = {}
        checked = []
        for report in reports:
            if report.artifacts and (task := await self._store.held_task(worker_id, report.held)):
                await asyncio.to_thread(self._check_unwritten, report)
                manifest = await beside(self._seal, task, report)
                sealed[report.held] = manifest
                checked.append(report._replace(artifacts=manifest.files))
            else:  # it has no files, or is refused or answered again: the store says which
                checked.append(report)
        answers = await self._store.complete(worker_id, checked, request_id=request_id)
        for report, answer in zip(reports, answers, strict=True):
            made = sealed.get(report.held)
            if made is not None and answer.accepted:
                point("receiving.before publish")
                await asyncio.to_thread(self._publish, made)
        return answers

    def _check_unwritten(self, report: Completion) -> None:
        """Refuse what another server on the same storage is still writing, for somebody who was cut off."""
        folder = self._artifacts.staged_path(_folder(report.held))
        for name in sorted(check_name(file.name) for file in report.artifacts):
            with suppress(NotFound), opened(folder / name):  # what is missing is told when it is sealed
                pass

    def _seal(self, task: HeldTask, report: Completion) -> Manifest:
        pipeline = self._pipelines.get(task.pipeline)
        stage = pipeline.stages.get(task.stage) if pipeline else None
        if pipeline is None or stage is None:
            raise InvalidInput(f"this server knows no stage {task.pipeline}/{task.stage}")
        key = output_key(
            f"{pipeline.name}.v{pipeline.version}",
            task.job_id,
            task.generation,
            task.stage,
            stage.version,
            task.segment,
        )
        folder = _folder(report.held)
        try:
            found = self._artifacts.seal(
                folder, key, stage.version, report.result, is_temporary=stage.temporary
            )
        except NotFound:
            raise BadUpload("none of the outputs has been sent") from None
        here = {one.name: one for one in found.files}
        told = {one.name: one for one in report.artifacts}
        wrong = [name for name in here.keys() | told.keys() if not _same(here.get(name), told.get(name))]
        if wrong:
            raise BadUpload(f"{min(wrong)!r} is not here as it was sent: its size or SHA-256 is another")
        return found

    def _publish(self, manifest: Manifest) -> None:
        """Make it visible; should that fail, the sweep does it."""
        try:
            self._artifacts.publish(manifest.folder, manifest.key)
        except (TakeupError, OSError) as error:
            log.exception("outputs not published", task=manifest.task_id, error=str(error))


def _regular(path: Path, name: str) -> Path:
    try:
        found = path.resolve(strict=True)
        if stat.S_ISREG(found.stat(follow_symlinks=False).st_mode):
            return found
    except OSError:
        pass
    raise NotFound(f"the file {name!r} of this job is not there any more")


def _same(here: Artifact | None, told: Artifact | None) -> bool:
    return here is not None and told is not None and replace(here, key="") == replace(told, key="")


def _folder(held: Held) -> TaskFolder:
    return TaskFolder(held.task_id, held.token.epoch, nonce_hash(held.token.nonce)).check()


async def _write(part: Part, chunks: AsyncIterator[bytes], offset: int, length: int, name: str) -> int:
    if not offset:
        part.cut(0)
    elif part.size != offset:
        raise WrongOffset(f"{part.size} bytes of {name} are here, not {offset}")
    size = offset
    async for chunk in chunks:
        if size + len(chunk) > length:
            raise InvalidInput(f"{name} is longer than the {length} bytes that were announced")
        await undisturbed(part.write, chunk, size)
        size += len(chunk)
    return size
