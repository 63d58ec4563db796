"""Files over HTTP: inputs into this worker's own storage, outputs to the server; broken off, both go on."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from takeup.artifacts.layout import check_name, split_key
from takeup.artifacts.local import LocalArtifacts
from takeup.core.errors import Conflict, InvalidInput, TakeupError
from takeup.core.model import Artifact, Brief, Completion, InputPage
from takeup.core.remote import CHANGED_HEADER, LENGTH_HEADER, OFFSET_HEADER
from takeup.core.spans import Span
from takeup.engine.carrier import Named, Opened, is_visible
from takeup.engine.holding import Holding
from takeup.engine.remote.client import BLOCK_BYTES, Client, ServerUnavailable
from takeup.engine.remote.patience import Patience, tell, token_of
from takeup.engine.remote.sparse import Place, SparseCopies
from takeup.engine.reporter import Ending

TASKS = "/api/worker/tasks"
SOURCES = ".sources"
SPARSE = "sparse"
PART = ".part"
AT_ONCE = 4
"""So many files of one task are on their way at the same time."""
NEWS_EVERY_BYTES = 16 << 20


class RemoteCarrier:
    """Carries files between this machine and the server, under the token of the task they are for."""

    def __init__(
        self, client: Client, artifacts: LocalArtifacts, clock: Callable[[], float], *, block_bytes: int
    ) -> None:
        """Of large sources no more is fetched than what is read of them, in steps of `block_bytes`."""
        self._client = client
        self._artifacts = artifacts
        self._patience = Patience(clock)
        self._sparse = SparseCopies(client, self._patience, block_bytes)
        self._coming: dict[Path, asyncio.Lock] = {}

    async def bring(self, holding: Holding, page: InputPage) -> None:
        """Fetch what is not here."""
        keys = [key for made in page.made for key in made.files.values()]
        missing = [key for key in keys if not await asyncio.to_thread(is_visible, self._artifacts, key)]
        await _some_at_once([self._bring(holding, key) for key in missing])

    async def _bring(self, holding: Holding, key: str) -> None:
        place = self._place_of_output(holding, key)
        await self._fetch(
            holding, place, is_hashed=True, in_parts=await asyncio.to_thread(place.sparse.exists)
        )

    async def fetch(self, holding: Holding, brief: Brief, name: str) -> Path:
        """A copy of the file, of the same size and time, so that it counts as the same."""
        place = self._place_of_file(holding, brief, name)
        await self._fetch(holding, place, is_hashed=False, in_parts=True)
        return place.whole

    async def open_sparse(self, holding: Holding, brief: Brief, named: Named) -> Opened | None:
        """A copy of which only what is read will be fetched; None if all of it is here or soon will be."""
        place = self._place(holding, brief, named)
        if not await asyncio.to_thread(_is_missing, place.whole):
            return None
        return await self._sparse.open(holding, place)

    async def fetch_span(
        self, holding: Holding, brief: Brief, named: Named, *, copy_id: str, span: Span
    ) -> list[Span]:
        """Fetch what is missing of these bytes."""
        return await self._sparse.fetch(
            holding, self._place(holding, brief, named), copy_id=copy_id, span=span
        )

    def _place(self, holding: Holding, brief: Brief, named: Named) -> Place:
        if named.is_output:
            return self._place_of_output(holding, named.name)
        return self._place_of_file(holding, brief, named.name)

    def _place_of_output(self, holding: Holding, key: str) -> Place:
        place, name = split_key(key)
        sources = self._artifacts.root / SOURCES / holding.lease.job_id
        address = f"{TASKS}/{holding.lease.task_id}/inputs/{quote(key)}"
        _, _, *parts = place.split("/")
        return Place(
            address, self._artifacts.root / place / name, sources.joinpath(SPARSE, ".".join(parts), name)
        )

    def _place_of_file(self, holding: Holding, brief: Brief, name: str) -> Place:
        suffix = Path(str(brief.spec.get(name, ""))).suffix
        file = check_name(f"{name}{suffix}")
        sources = self._artifacts.root / SOURCES / holding.lease.job_id
        address = f"{TASKS}/{holding.lease.task_id}/files/{quote(name)}"
        return Place(address, sources / file, sources / SPARSE / file)

    async def _fetch(self, holding: Holding, place: Place, *, is_hashed: bool, in_parts: bool) -> None:
        """Fetch a file once, whoever else waits for it; go on where a transfer broke off."""
        async with self._coming.setdefault(place.whole, asyncio.Lock()):
            try:
                if not await asyncio.to_thread(_is_missing, place.whole):
                    return
                if in_parts and await self._sparse.open(holding, place):
                    await self._sparse.complete(holding, place, is_hashed=is_hashed)
                    return
                await self._patience(
                    holding,
                    lambda: self._fetch_part(holding, place.address, place.whole, is_hashed=is_hashed),
                )
            finally:
                self._coming.pop(place.whole, None)

    async def _fetch_part(self, holding: Holding, address: str, path: Path, *, is_hashed: bool) -> None:
        part = path.with_name(f".{path.name}{PART}")
        tag_file = path.with_name(f".{path.name}{PART}.tag")
        here = part.stat().st_size if part.exists() and tag_file.exists() else 0
        headers = token_of(holding)
        if here:
            headers |= {"Range": f"bytes={here}-", "If-Range": tag_file.read_text()}
        try:
            async with self._client.get(address, headers) as (told, status, blocks):
                is_rest = status == HTTPStatus.PARTIAL_CONTENT
                tag = told.get("etag", "")
                tag_file.write_text(tag)
                length = int(told.get("content-length", "0")) + (here if is_rest else 0)
                await self._write(holding, part, blocks, here if is_rest else 0, length)
        except InvalidInput as error:
            if not here:
                raise
            part.unlink()  # there is nothing beyond what is here: it was all of it, or of another file
            raise ServerUnavailable(f"{path.name} is begun again: {error}") from None
        if part.stat().st_size != length:
            raise ServerUnavailable(f"{path.name} broke off")
        await asyncio.to_thread(
            _settle, part, path, tag.strip('"') if is_hashed else "", told.get(CHANGED_HEADER)
        )
        tag_file.unlink(missing_ok=True)

    async def _write(
        self, holding: Holding, part: Path, blocks: AsyncIterator[bytes], offset: int, length: int
    ) -> None:
        size = said = offset
        with part.open("ab" if offset else "wb") as file:
            async for block in blocks:
                await asyncio.to_thread(file.write, block)
                size += len(block)
                if size - said >= NEWS_EVERY_BYTES:
                    said = size
                    tell(
                        holding,
                        f"fetching {part.name.strip('.').removesuffix(PART)}: {size} of {length} bytes",
                    )

    async def take(self, ending: Ending) -> None:
        """Send what was sealed; what arrived before is not sent again."""
        report, holding = ending.report, ending.holding
        if not isinstance(report, Completion) or not report.artifacts:
            return
        address = f"{TASKS}/{holding.lease.task_id}/outputs"
        told = await self._patience(
            holding, lambda: self._client.call("GET", address, headers=token_of(holding))
        )
        sizes: dict[str, int] = told["files"]
        await _some_at_once(
            [self._send(holding, address, file, sizes.get(file.name, -1)) for file in report.artifacts]
        )

    async def _send(self, holding: Holding, address: str, file: Artifact, arrived: int) -> None:
        if arrived == file.size_bytes:
            return
        path = self._artifacts.staged_path(holding.folder) / file.name
        offset = max(arrived, 0) if arrived < file.size_bytes else 0

        async def once() -> None:
            nonlocal offset
            headers = token_of(holding) | {OFFSET_HEADER: str(offset), LENGTH_HEADER: str(file.size_bytes)}
            try:
                place = f"{address}/{quote(file.name)}"
                await self._client.put(place, self._read(holding, path, offset, file.size_bytes), headers)
            except (ServerUnavailable, Conflict):
                offset = await self._arrived(holding, address, file)
                raise

        await self._patience(holding, once, and_conflicts=True)

    async def _arrived(self, holding: Holding, address: str, file: Artifact) -> int:
        """How much of a file is there; a guess if nobody answers, which is corrected by the next refusal."""
        try:
            told = await self._client.call("GET", address, headers=token_of(holding))
        except TakeupError:
            return 0
        size = int(told["files"].get(file.name, 0))
        return size if size <= file.size_bytes else 0

    async def _read(self, holding: Holding, path: Path, offset: int, length: int) -> AsyncIterator[bytes]:
        size = said = offset
        with path.open("rb") as file:
            file.seek(offset)
            while block := await asyncio.to_thread(file.read, BLOCK_BYTES):
                yield block
                size += len(block)
                if size - said >= NEWS_EVERY_BYTES:
                    said = size
                    tell(holding, f"sending {path.name}: {size} of {length} bytes")

    def keep(self, ending: Ending) -> None:
        """The server published them; here they are of no use any more."""
        self._artifacts.drop(ending.holding.folder)


async def _some_at_once(works: list[Awaitable[None]]) -> None:
    """Do all of these, a few at a time; the first that fails ends the others."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(work: Awaitable[None]) -> None:
        async with turn:
            await work

    tasks = [asyncio.create_task(one(work)) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _is_missing(path: Path) -> bool:
    """Whether a file has to be fetched; then its folder is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return not path.exists()


def _settle(part: Path, path: Path, sha256: str, changed_ns: str | None) -> None:
    """Give a file its name once all of it is here and is what it should be."""
    if sha256:
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            part.unlink()
            raise ServerUnavailable(f"{path.name} arrived with another content than its SHA-256 says")
    if changed_ns is not None:
        os.utime(part, ns=(int(changed_ns), int(changed_ns)))
    part.rename(path)
