"""Outputs that come from elsewhere: staged under their token, sealed, published by the winner only."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path

from takeup.artifacts.archive import Extracted, Extraction
from takeup.artifacts.files import reading, walk
from takeup.artifacts.hashing import beside
from takeup.artifacts.layout import LOCK, TaskFolder, check_name, output_key
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.locking import locked
from takeup.artifacts.manifest import Manifest
from takeup.core.errors import DISK_FULL, Conflict, InvalidInput, LeaseLost, NotFound, TakeupError
from takeup.core.files import MadeFile
from takeup.core.ids import nonce_hash
from takeup.core.model import Answer, Artifact, Completion, Held, HeldTask
from takeup.core.pipeline import Pipeline
from takeup.core.points import point
from takeup.engine.late import publish_won
from takeup.engine.videos.errors import NoRoom, WrongOffset
from takeup.engine.videos.receiving import Part, opened, to_its_end, undisturbed
from takeup.media.check.uploaded import check_stream
from takeup.store.store import WorkerStore
from takeup.telemetry.logs import logger

LOOKS_MAX, LOOK_S = 40, 0.05
FILE_MODE = 0o644

log = logger("receiving")


class Unpublished(TakeupError):
    """An output that won cannot be made visible now."""

    retryable = True
    http_status = HTTPStatus.SERVICE_UNAVAILABLE
    help = "Look at the server's storage; the call can be sent again."


class NothingSent(Conflict):
    """There are no outputs of an attempt."""

    help = "Send the outputs, then complete the task."


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

    async def held(self, worker_id: str, held: Held) -> HeldTask:
        """The task of this token; raises if the worker does not hold it any more."""
        task = await self._store.held_task(worker_id, held)
        if task is None:
            raise LeaseLost(f"task {held.task_id} is not held with this token")
        return task

    async def output(self, made: MadeFile) -> Path:
        """The file of an output; what its maker or the server before us did not publish is published here."""
        why = ""
        for _ in range(LOOKS_MAX):
            with suppress(NotFound):
                return await asyncio.to_thread(self._artifacts.open_path, made.file.key)
            try:
                attempts = {(made.task_id, made.epoch)}
                why = await publish_won(self._artifacts, self._store.fates, attempts)
            except OSError as error:
                why = str(error)
            await asyncio.sleep(LOOK_S)
        if why:
            raise Unpublished(f"{made.file.key} cannot be made visible now: {why}")
        return await asyncio.to_thread(self._artifacts.open_path, made.file.key)

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
            await asyncio.to_thread(self._check_room, length - offset)
            await asyncio.to_thread(self._artifacts.stage, folder)
            with self._locked(folder, is_shared=True):
                await self.held(worker_id, held)  # its files may have been sealed before they were locked
                with opened(path, may_make=True, mode=FILE_MODE) as part:
                    size = await _write(part, chunks, offset, length, name)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise NoRoom(f"there is no room for {name}") from None
            raise
        await self.held(worker_id, held)
        return size

    def _locked(self, folder: TaskFolder, *, is_shared: bool = False) -> AbstractContextManager[int]:
        """An attempt's files to oneself, or beside others who write to other files; on whatever server."""
        return locked(
            self._artifacts.staged_path(folder) / LOCK,
            os.O_RDWR | os.O_CREAT,
            busy=Conflict("outputs of this task are being sent already, or published just now"),
            gone=Conflict("outputs of this task were replaced or published just now"),
            missing=NothingSent("none of the outputs is here"),
            is_shared=is_shared,
        )

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
            await asyncio.to_thread(self._check_room, size_bytes)
            await asyncio.to_thread(self._artifacts.stage, folder)
            with self._locked(folder):
                await self.held(worker_id, held)  # its files may have been sealed before they were locked
                await undisturbed(self._artifacts.drop, folder)
                await asyncio.to_thread(self._artifacts.stage, folder)
                with self._locked(folder), reading(self._artifacts.staged_path(folder)) as root:
                    coming = Extraction(root, sha256=sha256, size_bytes=size_bytes)
                    files = await self._unpack(worker_id, held, coming, chunks)
        except OSError as error:
            if error.errno in DISK_FULL:
                raise NoRoom("there is no room for what is in the archive") from None
            raise
        return {one.name: one.size_bytes for one in files}

    async def _unpack(
        self, worker_id: str, held: Held, coming: Extraction, chunks: AsyncIterator[bytes]
    ) -> Sequence[Extracted]:
        """Nothing stays of what is refused."""
        folder = _folder(held)
        try:
            try:
                async for chunk in chunks:
                    await undisturbed(coming.feed, chunk)
                files = await undisturbed(coming.finish)
            finally:
                await undisturbed(coming.abandon)
            await asyncio.to_thread(check_stream, self._artifacts.staged_path(folder), apart=(LOCK,))
            await self.held(worker_id, held)
        except TakeupError:
            await undisturbed(self._artifacts.drop, folder)
            raise
        return files

    def _check_room(self, wanted_bytes: int) -> None:
        root = self._artifacts.root
        root.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(root).free < wanted_bytes + self._reserve_bytes:
            raise NoRoom(f"there is no room for {wanted_bytes} more bytes")

    async def complete(
        self, worker_id: str, reports: Sequence[Completion], *, request_id: str | None
    ) -> list[Answer]:
        """Finish tasks; outputs are sealed first, and become visible if the completion is accepted."""
        with ExitStack() as locks:
            folders = {_folder(report.held) for report in reports if report.artifacts}
            ours = {folder for folder in folders if await self._is_locked(folder, locks)}
            sealed = await self._sealed(worker_id, reports, ours)
            checked = [
                report._replace(artifacts=sealed[report.held].files) if report.held in sealed else report
                for report in reports
            ]
            answers = await self._store.complete(worker_id, checked, request_id=request_id)
        # Whoever gets the lock from here on finds the token void, on every server, and writes nothing.
        for report, answer in zip(reports, answers, strict=True):
            made = sealed.get(report.held)
            if made is not None and answer.accepted:
                point("receiving.before publish")
                await asyncio.to_thread(self._publish, made)
        return answers

    async def _is_locked(self, folder: TaskFolder, locks: ExitStack) -> bool:
        """Have an attempt's files to ourselves, after a moment's wait at most; False if there are none."""
        for look in range(LOOKS_MAX):
            try:
                locks.enter_context(self._locked(folder))
            except NothingSent:
                return False
            except Conflict:
                if look == LOOKS_MAX - 1:
                    raise
                await asyncio.sleep(LOOK_S)
            else:
                return True
        return False

    async def _sealed(
        self, worker_id: str, reports: Sequence[Completion], ours: Collection[TaskFolder]
    ) -> dict[Held, Manifest]:
        """What is in the folders; of other reports the store says whether they are refused or repeated."""
        sealed = {}
        for report in reports:
            if report.artifacts and (task := await self._store.held_task(worker_id, report.held)):
                if _folder(report.held) not in ours:
                    raise BadUpload("none of the outputs has been sent")
                sealed[report.held] = await to_its_end(beside(self._seal, task, report))
        return sealed

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
        found = self._artifacts.seal(
            _folder(report.held), key, stage.version, report.result, is_temporary=stage.temporary
        )
        here = {one.name: one for one in found.files}
        told = {one.name: one for one in report.artifacts}
        wrong = [name for name in here.keys() | told.keys() if not _same(here.get(name), told.get(name))]
        if wrong:
            raise BadUpload(f"{min(wrong)!r} is not here as it was sent: its size or SHA-256 is another")
        return found

    def _publish(self, manifest: Manifest) -> None:
        """Make it visible; should that fail, the sweep does it."""
        try:
            if not self._artifacts.publish(manifest.folder, manifest.key):
                log.error("outputs not found", task=manifest.task_id, key=manifest.key)
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
        raise WrongOffset(
            f"{part.size} bytes of {name} are here, not {offset}",
            advice="Ask what is here (`GET …/outputs`) and go on from there.",
        )
    size = offset
    async for chunk in chunks:
        if size + len(chunk) > length:
            raise InvalidInput(f"{name} is longer than the {length} bytes that were announced")
        await undisturbed(part.write, chunk, size)
        size += len(chunk)
    return size
