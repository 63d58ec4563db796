"""Reads DASH manifests as a player does, on its own: nothing of what writes them is used here."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

from takeup.media.check.access import Span
from takeup.media.check.playlists import Named
from takeup.media.errors import MediaError

REPRESENTATIONS_MAX = 1000
SEGMENTS_MAX, ALL_SEGMENTS_MAX = 100_000, 500_000
"""Of one representation, and of all of them: a few words at the top may stand for any number."""
ATTRIBUTES_MAX = 100
NAME_SHOWN = 80
NAME_CHARS_MAX, ALL_NAMES_CHARS_MAX = 2000, 64 << 20
DURATION = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\Z"
)
UNITS_S = (365 * 86_400, 30 * 86_400, 86_400, 3600, 60, 1)
WORD = re.compile(r"\$(RepresentationID|Number|Time|Bandwidth|)(?:%0(\d{1,2})d)?\$")
FORBIDDEN = ("<!DOCTYPE", "<!ENTITY")


@dataclass(frozen=True, slots=True)
class Listed:
    """One segment as the manifest tells it; times in its ticks, unknown where it gives none."""

    file: Named
    start: int
    duration: int
    is_exact: bool
    """Whether the manifest gives this very time, or only about how long segments are."""


@dataclass(slots=True)
class Representation:
    """One track of a set."""

    id: str
    attributes: dict[str, str]
    """Those of the set where it has none of its own."""
    group: int
    """Which set it is in."""
    period: int
    bases: tuple[str, ...]
    timescale: int = 1
    offset: int = 0
    header: Named | None = None
    index: Span | None = None
    """Where its file lists its segments, if it is one file."""
    segments: list[Listed] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """What it holds: video, audio, text."""
        told = self.attributes.get("contentType") or self.attributes.get("mimeType", "")
        return told.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Period:
    """A part of the presentation."""

    start_s: Fraction | None
    duration_s: Fraction | None


@dataclass(slots=True)
class Manifest:
    """All that it says."""

    attributes: dict[str, str]
    duration_s: Fraction | None
    buffer_s: Fraction | None
    periods: list[Period] = field(default_factory=list)
    sets: list[dict[str, str]] = field(default_factory=list)
    """The attributes of every adaptation set."""
    representations: list[Representation] = field(default_factory=list)


def read_manifest(data: bytes) -> Manifest:
    """The manifest; entities and other documents in it are refused."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MediaError("it is not UTF-8") from error
    if any(word in text.upper() for word in FORBIDDEN):
        raise MediaError("it has a DOCTYPE, which no manifest needs")
    try:
        root = ET.fromstring(text)  # noqa: S314 - without a DOCTYPE there are no entities
    except ET.ParseError as error:
        raise MediaError(f"it is not XML: {error}") from error
    if _tag(root) != "MPD":
        raise MediaError(f"it is a {_tag(root)!r}, not an MPD")
    try:
        _check_size(root)
        return _Reader().manifest(root)
    except (ValueError, ZeroDivisionError) as error:
        raise MediaError(f"a value in it makes no sense: {error}") from error


def _check_size(root: ET.Element) -> None:
    """Nothing is read of what has too many parts: every representation repeats what stands above it."""
    representations = 0
    for element in root.iter():
        representations += _tag(element) == "Representation"
        if representations > REPRESENTATIONS_MAX:
            raise MediaError(f"it has more than {REPRESENTATIONS_MAX} representations")
        if len(element.attrib) > ATTRIBUTES_MAX:
            raise MediaError(
                f"a {_tag(element)[:NAME_SHOWN]!r} in it has more than {ATTRIBUTES_MAX} attributes"
            )


class _Reader:
    """Reads one manifest, and counts what it comes to."""

    def __init__(self) -> None:
        self._all = cache(_all)  # many representations ask for the same, and there may be a million
        self._segments_left, self._chars_left = ALL_SEGMENTS_MAX, ALL_NAMES_CHARS_MAX

    def manifest(self, root: ET.Element) -> Manifest:
        known = dict(root.attrib)
        whole_s = seconds(known.get("mediaPresentationDuration"))
        found = Manifest(known, whole_s, seconds(known.get("minBufferTime")))
        for number, period in enumerate(self._all(root, "Period")):
            start_s, length_s = seconds(period.get("start")), seconds(period.get("duration"))
            found.periods.append(Period(start_s, length_s))
            span_s = length_s if length_s is not None else whole_s
            for group in self._all(period, "AdaptationSet"):
                found.sets.append(dict(group.attrib))
                for inner in self._all(group, "Representation"):
                    levels = (root, period, group, inner)
                    one = Representation(
                        inner.get("id", ""),
                        {**group.attrib, **inner.attrib},
                        len(found.sets) - 1,
                        number,
                        tuple(base for level in levels for base in self._bases(level)),
                    )
                    self._address(one, levels[1:], span_s)
                    found.representations.append(one)
        return found

    def _address(self, one: Representation, levels: Sequence[ET.Element], span_s: Fraction | None) -> None:
        """Which files it has, by whichever of the three ways it tells them."""
        ways = (
            ("SegmentTemplate", self._template),
            ("SegmentList", self._list),
            ("SegmentBase", self._single),
        )
        for way, fill in ways:
            found = [element for level in levels for element in self._all(level, way)[:1]]
            if found:
                known: dict[str, str] = {}
                for element in found:
                    known |= element.attrib
                one.timescale = int(known.get("timescale", "1"))
                one.offset = int(known.get("presentationTimeOffset", "0"))
                if one.timescale < 1:
                    raise MediaError(f"the representation {one.id[:NAME_SHOWN]!r} counts no ticks a second")
                fill(one, known, found, span_s)
                return
        if not any(one.bases):
            raise MediaError(f"the representation {one.id[:NAME_SHOWN]!r} names no files")
        one.header = Named("")  # one plain file, which says itself what is in it

    def _template(
        self, one: Representation, known: dict[str, str], found: list[ET.Element], span_s: Fraction | None
    ) -> None:
        if "initialization" in known:
            one.header = Named(self._filled(known["initialization"], one, 0, 0))
        first = int(known.get("startNumber", "1"))
        times = self._times(one, known, found, span_s)
        for number, (start, duration, is_exact) in enumerate(times, first):
            uri = self._filled(known.get("media", ""), one, number, start)
            one.segments.append(Listed(Named(uri), start, duration, is_exact))

    def _times(
        self, one: Representation, known: dict[str, str], found: list[ET.Element], span_s: Fraction | None
    ) -> Iterator[tuple[int, int, bool]]:
        """When each segment starts and how long it lasts, in ticks."""
        end = None if span_s is None else int(span_s * one.timescale) + one.offset
        lines = [line for element in found for line in self._all(element, "SegmentTimeline")[-1:]]
        if lines:
            yield from self._timeline(self._all(lines[-1], "S"), end)
        elif "duration" in known and span_s is not None:
            length = int(known["duration"])
            count = max(int(-(-span_s * one.timescale // length)), 0)
            self._count(count, count)
            yield from ((one.offset + number * length, length, False) for number in range(count))

    def _timeline(self, runs: Sequence[ET.Element], end: int | None) -> Iterator[tuple[int, int, bool]]:
        place = count = 0
        for number, run in enumerate(runs):
            place, length, again = int(run.get("t", place)), int(run.get("d", "0")), int(run.get("r", "0"))
            if length < 1:
                raise MediaError(f"a segment at {place} has no duration")
            if again < 0:  # until the next one, or the end
                after = int(runs[number + 1].get("t", place)) if number + 1 < len(runs) else (end or place)
                again = max(-(-(after - place) // length) - 1, 0)
            count += again + 1
            self._count(again + 1, count)
            for _ in range(again + 1):
                yield place, length, True
                place += length

    def _count(self, more: int, of_this: int) -> None:
        """So many more segments, and so many of this representation so far."""
        if of_this > SEGMENTS_MAX:
            raise MediaError(f"it lists more than {SEGMENTS_MAX} segments")
        self._segments_left -= more
        if self._segments_left < 0:
            raise MediaError(f"its representations list more than {ALL_SEGMENTS_MAX} segments together")

    def _filled(self, template: str, one: Representation, number: int, time: int) -> str:
        if max(len(template), len(one.id)) > NAME_CHARS_MAX:
            raise MediaError(f"a name in it has more than {NAME_CHARS_MAX} letters")
        words = {
            "RepresentationID": one.id,
            "Number": number,
            "Time": time,
            "Bandwidth": int(one.attributes.get("bandwidth", "0")),
        }

        def fill(match: re.Match[str]) -> str:
            value = words.get(match[1], "$")
            return f"{value:0{match[2]}d}" if match[2] and isinstance(value, int) else str(value)

        name = WORD.sub(fill, template)
        self._chars_left -= len(name)
        if self._chars_left < 0:
            raise MediaError(f"the names of its files have more than {ALL_NAMES_CHARS_MAX} letters together")
        return name

    def _list(
        self, one: Representation, known: dict[str, str], found: list[ET.Element], span_s: Fraction | None
    ) -> None:
        self._header(one, found)
        count = sum(len(self._all(element, "SegmentURL")) for element in found)
        self._count(count, count)
        times = list(self._times(one, known, found, span_s))
        urls = (url for element in found for url in self._all(element, "SegmentURL"))
        for number, url in enumerate(urls):
            start, duration, is_exact = times[number] if number < len(times) else (0, 0, False)
            file = Named(url.get("media", ""), _span(url.get("mediaRange")))
            one.segments.append(Listed(file, start, duration, is_exact))

    def _single(
        self, one: Representation, known: dict[str, str], found: list[ET.Element], _span_s: Fraction | None
    ) -> None:
        self._header(one, found)
        one.index = _span(known.get("indexRange"))
        one.header = one.header or Named("", Span(0, one.index.start) if one.index else None)

    def _header(self, one: Representation, found: list[ET.Element]) -> None:
        for element in found:
            for header in self._all(element, "Initialization")[-1:]:
                one.header = Named(header.get("sourceURL", ""), _span(header.get("range")))

    def _bases(self, element: ET.Element) -> Iterator[str]:
        for base in self._all(element, "BaseURL")[:1]:
            text = base.text or ""
            if len(text) > NAME_CHARS_MAX:
                raise MediaError(f"a BaseURL in it has more than {NAME_CHARS_MAX} letters")
            yield text.strip()


def seconds(text: str | None) -> Fraction | None:
    """A duration as XML writes it."""
    if text is None:
        return None
    match = DURATION.match(text)
    if match is None:
        raise MediaError(f"the duration {text!r} makes no sense")
    return sum(
        (Fraction(part or 0) * unit for part, unit in zip(match.groups(), UNITS_S, strict=True)), Fraction(0)
    )


def _span(text: str | None) -> Span | None:
    if text is None:
        return None
    first, _, last = text.partition("-")
    return Span(int(first), int(last) - int(first) + 1)


def _all(element: ET.Element, tag: str) -> list[ET.Element]:
    """The children of this name, in whichever namespace."""
    return [child for child in element if _tag(child) == tag]


def _tag(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]
