"""Gathers the facts of a package: playlists, manifest and every piece they name, each read once."""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from takeup.media.check import texts, tracks, transport
from takeup.media.check.access import TEXT_BYTES_MAX, Access, Missing, NoPackage, Outside, Span
from takeup.media.check.headers import Header, read_header
from takeup.media.check.index_box import read_index
from takeup.media.check.joined import join
from takeup.media.check.manifest import Manifest, Representation, read_manifest
from takeup.media.check.playlists import Master, Named, Playlist, is_master, read_master, read_playlist
from takeup.media.check.texts import TextPiece, TextTrack
from takeup.media.check.tracks import Piece, Track
from takeup.media.errors import MediaError
from takeup.media.tools import Tools

if TYPE_CHECKING:
    from takeup.media.check.compare import Compared
    from takeup.media.check.decode import Decoded
    from takeup.media.check.quality import Quality

TRACKS_MAX = 64
PROBE_S_MAX = 60.0
MASTER_FIRST = "master.m3u8"

FaultKind = Literal["missing", "outside", "broken", "playlist", "manifest"]
Place = tuple[str, Span | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that could not be read."""

    kind: FaultKind
    where: str
    message: str


@dataclass(slots=True)
class Package:
    """All facts; rules look at nothing else."""

    access: Access
    master_at: str = ""
    master: Master | None = None
    playlists: dict[str, Playlist] = field(default_factory=dict)
    """By address, those of text and of key frames too."""
    manifest_at: str = ""
    manifest: Manifest | None = None
    tracks: list[Track] = field(default_factory=list)
    by_playlist: dict[str, Track] = field(default_factory=dict)
    represented: list[Track | None] = field(default_factory=list)
    """The track of each representation of the manifest."""
    texts: dict[str, TextTrack] = field(default_factory=dict)
    headers: dict[str, list[Header]] = field(default_factory=dict)
    """All headers that a playlist names, where there are several."""
    faults: list[Fault] = field(default_factory=list)
    decoded: "dict[str, Decoded] | None" = None
    compared: "Compared | None" = None
    quality: "dict[str, Quality]" = field(default_factory=dict)
    """How good each picture track is, if that was measured."""

    @property
    def pictures(self) -> list[Track]:
        """The picture tracks with anything in them, the smallest first."""
        found = [track for track in self.tracks if track.kind == "picture" and track.read]
        return sorted(found, key=lambda track: (track.pixels, track.size))

    @property
    def sounds(self) -> list[Track]:
        """The sound tracks with anything in them."""
        return [track for track in self.tracks if track.kind == "sound" and track.read]

    def families(self) -> list[list[Track]]:
        """The picture tracks among which a player switches, together."""
        found: dict[tuple[str, str], list[Track]] = {}
        for track in self.pictures:
            found.setdefault(track.family, []).append(track)
        return list(found.values())

    def name(self, address: str) -> str:
        """An address as people read it."""
        return self.access.name(address)

    def joined(self, address: str, uri: str | None) -> str:
        """The address of what a file names; empty if it leads nowhere or out of the package."""
        with suppress(Outside):
            return self.access.join(address, uri) if uri else ""
        return ""


async def gather(
    access: Access, tools: Tools, folder: Path, *, on_piece: Callable[[str], None] | None = None
) -> Package:
    """Read everything that the package names."""
    gatherer = Gatherer(access, tools, folder, on_piece or (lambda _text: None))
    await gatherer.entries()
    package = gatherer.package
    if package.master:
        await gatherer.master(package.master)
    for address, playlist in package.playlists.items():
        await gatherer.playlist(address, playlist)
    if package.manifest:
        await gatherer.manifest(package.manifest)
    await gatherer.ask_all()
    return package


class Gatherer:
    """Follows every name in a package, and remembers what leads nowhere."""

    def __init__(self, access: Access, tools: Tools, folder: Path, on_piece: Callable[[str], None]) -> None:
        """Nothing is read yet; `folder` is for what the tools have to see."""
        self.package = Package(access)
        self._access, self._tools, self._folder, self._on_piece = access, tools, folder, on_piece
        self._known: dict[tuple[Place | None, tuple[Place, ...]], Track] = {}

    async def entries(self) -> None:
        """The playlist and the manifest at the top; without either there is nothing to judge."""
        package = self.package
        lists: dict[str, str] = {}
        for address in await self._access.entries():
            try:
                data = await self._access.read(address, most=TEXT_BYTES_MAX)
                if address.partition("?")[0].endswith(".mpd"):
                    if package.manifest is None:
                        package.manifest_at = address
                        package.manifest = read_manifest(data)
                else:
                    lists[address] = data.decode("utf-8", "replace")
            except MediaError as error:
                self._fault("manifest" if address.endswith(".mpd") else "playlist", address, error)
        masters = [address for address, text in lists.items() if is_master(text)]
        masters.sort(key=lambda address: not address.endswith(MASTER_FIRST))
        try:
            if masters:
                package.master_at = masters[0]
                package.master = read_master(lists[masters[0]])
            else:
                package.playlists |= {address: read_playlist(text) for address, text in lists.items()}
        except MediaError as error:
            self._fault("playlist", masters[0] if masters else next(iter(lists)), error)
        if not (package.master or package.playlists or package.manifest):
            why = "; ".join(f"{fault.where}: {fault.message}" for fault in package.faults)
            raise NoPackage(f"there is no package to judge: {why or 'no playlist and no manifest'}")

    async def master(self, master: Master) -> None:
        """The playlists that it leads to."""
        for choice in master.choices:
            if choice.uri is None:
                continue
            address = self._join(self.package.master_at, choice.uri)
            if address is None or address in self.package.playlists:
                continue
            try:
                data = await self._access.read(address, most=TEXT_BYTES_MAX)
                self.package.playlists[address] = read_playlist(data.decode("utf-8", "replace"))
            except MediaError as error:
                self._fault("playlist", address, error)

    async def playlist(self, address: str, playlist: Playlist) -> None:
        """The pieces of one playlist."""
        if playlist.has_only_keys or not playlist.entries:
            return
        if playlist.entries[0].file.uri.partition("?")[0].endswith((".vtt", ".webvtt")):
            await self._text(address, playlist)
            return
        headers = list(dict.fromkeys(entry.header for entry in playlist.entries))
        places = [self._place(address, entry.file) for entry in playlist.entries]
        pieces = [
            Piece(*place, told_s=entry.length_s)
            for place, entry in zip(places, playlist.entries, strict=True)
            if place is not None
        ]
        header = self._place(address, headers[0]) if headers[0] else None
        track = await self._track(self.package.name(address), header, pieces)
        track.is_broken = playlist.is_broken
        self.package.by_playlist[address] = track
        if len(headers) > 1:
            await self._more_headers(address, headers)

    async def _more_headers(self, address: str, named: Sequence[Named | None]) -> None:
        found = []
        for one in named:
            place = self._place(address, one) if one else None
            header = await self._header(place) if place else None
            found += [header] if header else []
        self.package.headers[address] = found

    async def manifest(self, manifest: Manifest) -> None:
        """The pieces of every representation."""
        for one in manifest.representations:
            track = None
            try:
                track = await self._represented(one)
            except MediaError as error:
                self._fault("manifest", self.package.manifest_at, error)
            self.package.represented.append(track)

    async def _represented(self, one: Representation) -> Track | None:
        at = self.package.manifest_at
        for base in one.bases:
            joined = self._join(at, base)
            if joined is None:
                return None
            at = joined + ("/" if base.endswith("/") and not joined.endswith("/") else "")
        header = self._place(at, one.header) if one.header else None
        if one.index is not None and header is not None:
            spans = read_index(await self._access.read(header[0], one.index), one.index)
            pieces = [Piece(header[0], span) for span in spans]
        else:
            places = [self._place(at, segment.file) for segment in one.segments]
            pieces = [Piece(*place) for place in places if place is not None]
        if one.kind not in ("video", "audio"):
            await self._others(header, pieces)
            return None
        if not pieces:
            return None
        return await self._track(one.id or one.kind, header, pieces)

    async def _others(self, header: Place | None, pieces: Sequence[Piece]) -> None:
        """Texts and pictures for seeking: they are only to be there."""
        for place in [*([header] if header else []), *((piece.address, piece.span) for piece in pieces)]:
            try:
                await self._access.read(*place)
            except MediaError as error:
                self._fault("missing", place[0], error)

    async def _track(self, name: str, header: Place | None, pieces: list[Piece]) -> Track:
        """The track of these files; playlist and manifest may both name it."""
        key = header, tuple((piece.address, piece.span) for piece in pieces)
        if key in self._known:
            return self._known[key]
        if len(self._known) >= TRACKS_MAX:
            raise MediaError(f"it has more than {TRACKS_MAX} tracks")
        found = await self._header(header) if header else None
        track = Track(
            name, found.kind if found else "unknown", found.timescale if found else 1, found, header
        )
        track.pieces = pieces
        self._known[key] = track
        self.package.tracks.append(track)
        await self._pieces(track)
        return track

    async def _pieces(self, track: Track) -> None:
        is_transport = False
        for piece in track.pieces:
            self._on_piece(self.package.name(piece.address))
            try:
                data = await self._access.read(piece.address, piece.span)
            except MediaError as error:
                piece.fault = str(error)
                self._fault("outside" if isinstance(error, Outside) else "missing", piece.address, error)
                continue
            is_transport = track.header is None and transport.is_transport(data)
            if is_transport:
                piece.size = len(data)
                continue
            tracks.scan(track, piece, data)
            if piece.fault:
                self.package.faults.append(Fault("broken", self.package.name(piece.address), piece.fault))
        if is_transport:
            track.kind, track.timescale = "picture", transport.TIMESCALE
            track.inner = await transport.scan(self._access, self._tools, track, self._folder)
            self.package.tracks += [track.inner] if track.inner else []

    async def _text(self, address: str, playlist: Playlist) -> None:
        track = TextTrack(self.package.name(address))
        for entry in playlist.entries:
            place = self._place(address, entry.file)
            if place is None:
                continue
            piece = TextPiece(self.package.name(place[0]), entry.length_s)
            try:
                texts.scan(piece, await self._access.read(*place, most=TEXT_BYTES_MAX))
            except MediaError as error:
                piece.fault = str(error)
                self._fault("missing", place[0], error)
            track.pieces.append(piece)
        self.package.texts[address] = track

    async def _header(self, place: Place) -> Header | None:
        try:
            return read_header(await self._access.read(*place))
        except MediaError as error:
            self._fault("missing" if isinstance(error, Missing) else "broken", place[0], error)
            return None

    async def ask_all(self) -> None:
        """What the tools say of every track, as many at once as there are processors."""
        turn = asyncio.Semaphore(os.cpu_count() or 1)

        async def ask(number: int, track: Track) -> None:
            async with turn:
                await self._ask(number, track)

        asking = [asyncio.create_task(ask(*one)) for one in enumerate(self.package.tracks)]
        try:
            await asyncio.gather(*asking)
        finally:
            for one in asking:
                one.cancel()

    async def _ask(self, number: int, track: Track) -> None:
        """What the tools say of a track, from its first piece."""
        kind = {"picture": "v", "sound": "a"}.get(track.kind)
        if kind is None or not track.read:
            return
        file = self._folder / f"first-{number}"
        try:
            source = await join(self._access, track, track.read[:1], file)
            with tempfile.TemporaryFile() as report:
                await self._tools.ffprobe(
                    source, "-select_streams", f"{kind}:0", "-show_streams", "-of", "json=compact=1",
                    stdout=report, wall_s=PROBE_S_MAX,
                )  # fmt: skip
                report.seek(0)
                found: list[dict[str, Any]] = json.loads(report.read(TEXT_BYTES_MAX)).get("streams", [])
            track.told = found[0] if found else {}
        except (MediaError, ValueError) as error:
            self._fault("broken", track.read[0].address, error)
        finally:
            file.unlink(missing_ok=True)

    def _place(self, address: str, named: Named) -> Place | None:
        found = self._join(address, named.uri)
        return None if found is None else (found, named.span)

    def _join(self, address: str, uri: str) -> str | None:
        try:
            return self._access.join(address, uri) if uri else address
        except Outside as error:
            self._fault("outside", address, error)
            return None

    def _fault(self, kind: FaultKind, address: str, error: Exception) -> None:
        kind = "missing" if isinstance(error, Missing) else "outside" if isinstance(error, Outside) else kind
        self.package.faults.append(Fault(kind, self.package.name(address), str(error)))
