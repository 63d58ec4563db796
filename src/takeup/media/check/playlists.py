"""Reads HLS playlists as a player does, on its own: nothing of what writes them is used here."""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from takeup.media.check.access import Span
from takeup.media.errors import MediaError

ENTRIES_MAX = 100_000
ATTRIBUTE = re.compile(r'\s*([A-Z0-9-]+)=("[^"]*"|[^,"]*)(?:,|\Z)')
FLAGS = {
    "#EXT-X-ENDLIST": "is_ended",
    "#EXT-X-INDEPENDENT-SEGMENTS": "is_independent",
    "#EXT-X-I-FRAMES-ONLY": "has_only_keys",
    "#EXT-X-DISCONTINUITY": "is_broken",
}
DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?\Z")
WHOLE = re.compile(r"[0-9]{1,15}\Z")


@dataclass(frozen=True, slots=True)
class Named:
    """A file that a playlist names, or a part of one."""

    uri: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One piece in a playlist."""

    file: Named
    length_s: Fraction
    header: Named | None
    """What EXT-X-MAP names for it."""


@dataclass(slots=True)
class Playlist:
    """The pieces of one track."""

    version: int = 1
    target: int | None = None
    kind: str = ""
    is_ended: bool = False
    is_independent: bool = False
    has_only_keys: bool = False
    is_encrypted: bool = False
    is_broken: bool = False
    """Whether time starts again somewhere."""
    entries: list[Entry] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a master playlist that leads to a track."""

    kind: Literal["variant", "keys", "media"]
    attributes: dict[str, str]
    uri: str | None

    def get(self, name: str) -> str:
        """An attribute without its quotes; empty if it is not there."""
        return self.attributes.get(name, "").strip('"')

    def number(self, name: str) -> float | None:
        """An attribute that is a number."""
        return float(self.get(name)) if DECIMAL.match(self.get(name)) else None


@dataclass(slots=True)
class Master:
    """The tracks to choose from."""

    version: int = 1
    is_independent: bool = False
    choices: list[Choice] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[Choice]:
        """The lines of one kind."""
        return [choice for choice in self.choices if choice.kind == kind]


def lines_of(text: str) -> list[str]:
    """The lines that say something; what does not begin like a playlist is none."""
    lines = [line.strip() for line in text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").splitlines()]
    if not lines or lines[0] != "#EXTM3U":
        raise MediaError("it does not begin with #EXTM3U")
    return [line for line in lines[1:] if line and (not line.startswith("#") or line.startswith("#EXT"))]


def is_master(text: str) -> bool:
    """Whether it leads to other playlists."""
    return "#EXT-X-STREAM-INF" in text


def attributes_of(text: str) -> dict[str, str]:
    """The list of attributes, quotes kept, up to where it cannot be read."""
    found, place = {}, 0
    while match := ATTRIBUTE.match(text, place):
        found[match[1]] = match[2].strip()
        place = match.end()
    return found


def read_master(text: str) -> Master:
    """A master playlist."""
    found = Master()
    waiting: dict[str, str] | None = None
    for line in lines_of(text):
        tag, _, rest = line.partition(":")
        match tag:
            case "#EXT-X-VERSION":
                found.version = _whole(rest, found.faults, tag) or 1
            case "#EXT-X-INDEPENDENT-SEGMENTS":
                found.is_independent = True
            case "#EXT-X-STREAM-INF":
                waiting = attributes_of(rest)
            case "#EXT-X-I-FRAME-STREAM-INF" | "#EXT-X-MEDIA":
                known = attributes_of(rest)
                kind: Literal["keys", "media"] = "media" if tag == "#EXT-X-MEDIA" else "keys"
                uri = known.get("URI", "").strip('"') or None
                found.choices.append(Choice(kind, known, uri))
            case _ if not line.startswith("#"):
                if waiting is None:
                    found.faults.append(f"{line!r} follows no EXT-X-STREAM-INF")
                found.choices.append(Choice("variant", waiting or {}, line))
                waiting = None
    if waiting is not None:
        found.faults.append("the last EXT-X-STREAM-INF leads nowhere")
    return found


def read_playlist(text: str) -> Playlist:
    """A media playlist; what is wrong with its lines is kept, the rest is read."""
    found = Playlist()
    reader = _Reader(found)
    for line in lines_of(text):
        reader.line(line)
    if reader.length_s is not None:
        found.faults.append("the last EXTINF names no file")
    if found.target is None:
        found.faults.append("EXT-X-TARGETDURATION is missing")
    if not found.entries:
        found.faults.append("it names no file")
    return found


class _Reader:
    def __init__(self, found: Playlist) -> None:
        self._found = found
        self._header: Named | None = None
        self._ends: dict[str, int] = {}
        """Where the last part of each file ended: the next may begin there."""
        self._pending: str | None = None
        self.length_s: Fraction | None = None

    def line(self, line: str) -> None:
        found = self._found
        tag, _, rest = line.partition(":")
        if tag in FLAGS:
            setattr(found, FLAGS[tag], True)
        match tag:
            case "#EXT-X-VERSION":
                found.version = _whole(rest, found.faults, tag) or 1
            case "#EXT-X-TARGETDURATION":
                found.target = _whole(rest, found.faults, tag)
            case "#EXT-X-PLAYLIST-TYPE":
                found.kind = rest
            case "#EXT-X-KEY":
                found.is_encrypted |= attributes_of(rest).get("METHOD") != "NONE"
            case "#EXT-X-MAP":
                self._map(attributes_of(rest))
            case "#EXTINF":
                self.length_s = self._seconds(rest.partition(",")[0])
            case "#EXT-X-BYTERANGE":
                self._pending = rest
            case _ if not line.startswith("#"):
                self._file(line)

    def _seconds(self, text: str) -> Fraction:
        if not DECIMAL.match(text):
            self._found.faults.append(f"the duration {text!r} is no number")
            return Fraction(0)
        return Fraction(text)

    def _map(self, known: dict[str, str]) -> None:
        uri = known.get("URI", "").strip('"')
        span = self._range(uri, known["BYTERANGE"].strip('"')) if "BYTERANGE" in known else None
        self._header = Named(uri, span)

    def _range(self, uri: str, text: str) -> Span | None:
        length, _, start = text.partition("@")
        if not WHOLE.match(length) or (start and not WHOLE.match(start)):
            self._found.faults.append(f"the byte range {text!r} makes no sense")
            return None
        first = int(start) if start else self._ends.get(uri, 0)
        self._ends[uri] = first + int(length)
        return Span(first, int(length))

    def _file(self, uri: str) -> None:
        found = self._found
        if self.length_s is None:
            found.faults.append(f"{uri!r} has no EXTINF")
        if len(found.entries) >= ENTRIES_MAX:
            raise MediaError(f"it names more than {ENTRIES_MAX} files")
        span = self._range(uri, self._pending) if self._pending is not None else None
        found.entries.append(Entry(Named(uri, span), self.length_s or Fraction(0), self._header))
        self.length_s = self._pending = None


def _whole(text: str, faults: list[str], tag: str) -> int | None:
    if not WHOLE.match(text):
        faults.append(f"{tag} has the value {text!r}, which is no whole number")
        return None
    return int(text)
