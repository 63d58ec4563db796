"""The plan: from what a source is and what is wanted to every frame, segment, rung and track of the result.

Pure: the same source and profile give the same plan on every machine, so it is made once, stored with the job
and followed by whoever encodes a part. Time is counted in frames; seconds are only derived.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Any, Literal

from takeup.media import chapters
from takeup.media.encoders import ENCODERS
from takeup.media.errors import MediaError
from takeup.media.index import Index
from takeup.media.ladder import Rung, ladder
from takeup.media.probe import Audio, Chapter, Probe, Text, Video
from takeup.media.profile import Family, Profile

VERSION = 4
PLAIN_PIXELS = "yuv420p"
RATES = tuple(
    Fraction(*rate)
    for rate in (
        (24000, 1001), (24, 1), (25, 1), (30000, 1001), (30, 1), (48, 1), (50, 1), (60000, 1001), (60, 1),
    )
)  # fmt: skip
RATE_MAX = Fraction(60)
DENOMINATORS = (1, 2, 3, 4, 5, 10, 100, 1001, 1_000_000_000)
CLOSE = Fraction(1, 1000)
KEY_EVERY_S = 2
KEYS_A_FRAGMENT = 3
SEGMENT_S = 30
WHOLE_S = 60
"""A shorter source is not cut: starting twice costs more than it gains."""
IN_VAIN_MAX = 2
"""At most so many times the length since the last edge is decoded again before an edge."""
MANY = 8
"""So many segments keep the slots busy however long each is."""
CHANNELS_MAX = 6
MATRICES = {
    "bt709": "bt709", "smpte170m": "bt601", "bt470bg": "bt601", "fcc": "fcc", "smpte240m": "smpte240m",
    "bt2020nc": "bt2020",
}  # fmt: skip
"""Names of the probe, and the scaler's for the same."""
HD_SHORT = 720


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the work: output frames from `first` on, decoded from the source's frame at `seek`."""

    number: int
    first: int
    count: int
    seek: int
    """In ticks of the source's time base."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is done to every picture, and how time is counted."""

    stream: int
    rate: Fraction
    frames: int
    keys_every: int
    """Frames from one forced key frame to the next."""
    fragment: int
    """Frames in one file of the stream."""
    zero: int
    """The source's tick at which output frame 0 is shown."""
    time_base: Fraction
    deinterlace: bool
    hdr: Literal["pq", "hlg"] | None
    """How bright the source is; SDR rungs of a bright one are mapped."""
    matrix: str
    """How SDR pictures of the source are made of colours, as the scaler names it."""
    is_plain: bool
    """Whether they are what SDR rungs are, told or not: those of the same size are then not converted."""
    segments: tuple[Segment, ...]
    rungs: tuple[Rung, ...]
    """What plays everywhere comes first."""

    @property
    def tone_map(self) -> bool:
        """Whether bright pictures are made what every screen shows, for one rung at least."""
        return self.hdr is not None and any(rung.range == "sdr" for rung in self.rungs)


@dataclass(frozen=True, slots=True)
class Sound:
    """One sound track of the result."""

    stream: int
    channels: int
    kbps: int
    loudness_lufs: int | None
    """How loud it is made; None leaves it as it is."""
    language: str
    title: str
    is_default: bool
    is_descriptive: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """All of it."""

    version: int
    profile: str
    start_s: Fraction
    """The time in the source at which the result begins."""
    length_s: Fraction
    picture: Picture | None
    sounds: tuple[Sound, ...]
    texts: tuple[Text, ...]
    chapters: tuple[Chapter, ...] = ()
    cover: int | None = None
    """The track to take the poster from where there is no picture."""
    notes: tuple[str, ...] = ()
    """What of the source is left out, and why."""

    def to_json(self) -> dict[str, Any]:
        """As it is stored; ratios are texts, so that nothing is rounded."""
        values: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Plan":
        """As it was stored."""
        picture = values["picture"]
        return cls(
            **{
                **values,
                "start_s": Fraction(values["start_s"]),
                "length_s": Fraction(values["length_s"]),
                "picture": _picture_of(picture) if picture else None,
                "sounds": tuple(Sound(**sound) for sound in values["sounds"]),
                "texts": tuple(Text(**text) for text in values["texts"]),
                "chapters": tuple(_chapter_of(chapter) for chapter in values["chapters"]),
                "notes": tuple(values["notes"]),
            }
        )


def _picture_of(values: Mapping[str, Any]) -> Picture:
    return Picture(
        **{
            **values,
            "rate": Fraction(values["rate"]),
            "time_base": Fraction(values["time_base"]),
            "segments": tuple(Segment(**segment) for segment in values["segments"]),
            "rungs": tuple(Rung(**rung) for rung in values["rungs"]),
        }
    )


def _chapter_of(values: Mapping[str, Any]) -> Chapter:
    return Chapter(Fraction(values["start_s"]), Fraction(values["end_s"]), values["title"])


def plan(probe: Probe, index: Index | None, profile: Profile, *, segment_s: float | None = None) -> Plan:
    """What is to be made; `index` is that of the picture track, if there is one."""
    picture = None
    if probe.video is not None and index is not None and profile.families:
        picture = _plan_picture(probe.video, index, profile, segment_s)
    if picture is None and not probe.audio:
        raise MediaError(f"the profile {profile.name} makes sound, and the source has none")
    start_s = min((track.start_s for track in probe.audio), default=Fraction(0))
    length_s = probe.duration_s
    if picture is not None:
        start_s, length_s = picture.zero * picture.time_base, picture.frames / picture.rate
    return Plan(
        version=VERSION,
        profile=profile.name,
        start_s=start_s,
        length_s=length_s,
        picture=picture,
        sounds=_plan_sounds(probe.audio, profile),
        texts=probe.texts,
        chapters=chapters.on_time_line(probe.chapters, start_s, length_s),
        cover=None if picture else probe.cover,
        notes=tuple(_left_out(text) for text in probe.drawn_texts),
    )


def _plan_picture(video: Video, index: Index, profile: Profile, segment_s: float | None) -> Picture:
    rate = constant_rate(index)
    frames = max(round(index.length_s * rate), 1)
    keys_every = max(round(KEY_EVERY_S * rate), 1)
    fragment = keys_every * KEYS_A_FRAGMENT
    return Picture(
        stream=video.stream,
        rate=rate,
        frames=frames,
        keys_every=keys_every,
        fragment=fragment,
        zero=index.shown[0],
        time_base=index.time_base,
        deinterlace=video.is_interlaced,
        hdr=video.hdr,
        matrix=matrix_of(video),
        is_plain=is_plain(video),
        segments=_segments(index, rate, frames, fragment, segment_s),
        rungs=tuple(
            rung
            for family in _families(video, profile)
            for rung in ladder(video.width, video.height, video.pixel_shape, rate, family)
        ),
    )


def matrix_of(video: Video) -> str:
    """What the source says; if it says nothing, what players assume of a picture of its size."""
    said = video.colour.matrix
    if said not in MATRICES and said not in ("", "unknown"):
        return "auto"
    return MATRICES.get(said, "bt709" if min(video.width, video.height) >= HD_SHORT else "bt601")


def is_plain(video: Video) -> bool:
    """Whether its pictures are made of colours as those of an SDR rung are, whatever it says of them."""
    is_limited = video.colour.range in ("", "unknown", "tv")
    return video.pixel_format == PLAIN_PIXELS and is_limited and matrix_of(video) == "bt709" and not video.hdr


def _families(video: Video, profile: Profile) -> list[Family]:
    """Those that fit the source: HDR is kept where it is, never made up."""
    fit = [family for family in profile.families if video.hdr or family.range == "sdr"]
    if not fit:
        raise MediaError(f"the profile {profile.name} is for HDR alone, and the source is not HDR")
    for family in fit:
        if family.encoder not in ENCODERS:
            raise MediaError(f"no encoder was chosen for {family.codec}; try which work first")
    return sorted(fit, key=lambda family: (family.codec, family.range) != ("h264", "sdr"))


def constant_rate(index: Index) -> Fraction:
    """The one rate of the result: a usual one if the source is near it, at most 60 frames a second."""
    usual = average = 1 / (index.interval * index.time_base)
    if index.count > 1:
        average = Fraction(index.count - 1, index.shown[-1] - index.shown[0]) / index.time_base
    slack = usual * Fraction(1, 2 * index.interval)  # times are rounded to ticks
    if index.is_even:
        usual, slack = average, average * CLOSE
    while usual > RATE_MAX + slack:
        usual, average, slack = usual / 2, average / 2, slack / 2
    near = [rate for rate in RATES if abs(rate - usual) <= slack]
    if near:
        return min(near, key=lambda rate: abs(rate - average))
    if index.is_even:
        simple = (usual.limit_denominator(most) for most in DENOMINATORS)
        return next(rate for rate in simple if rate > 0 and abs(rate - usual) <= slack)
    return next((rate for rate in RATES if rate >= usual), RATE_MAX)


def _segments(
    index: Index, rate: Fraction, frames: int, fragment: int, segment_s: float | None
) -> tuple[Segment, ...]:
    """Parts of whole fragments, each of about `segment_s`; many are cut where the source has a key nearby.

    A few are cut evenly instead: they are encoded at once, and the longest of them is waited for. Far from a
    key there are fewer cuts, the fewer the farther: in all, the source is decoded three times at most.
    """
    if segment_s is None and frames < WHOLE_S * rate:
        return (Segment(0, 0, frames, index.keys[0]),)
    aim = max(round((segment_s or SEGMENT_S) * rate / fragment), 1)
    fragments = ceil(Fraction(frames, fragment))
    count = max(round(Fraction(fragments, aim)), 1)
    reach = 1 if count >= MANY and aim > 2 else 0  # noqa: PLR2004 - edges that move must not meet
    edges = [0]
    for number in range(1, count):
        even = round(Fraction(fragments * number, count))
        near = [n * fragment for n in range(even - reach, even + reach + 1)]
        edge = min(near, key=lambda edge: (_cost(index, rate, edge), abs(edge - even * fragment)))
        since = tick_of(index, rate, edge) - tick_of(index, rate, edges[-1])
        if _cost(index, rate, edge) <= IN_VAIN_MAX * since:
            edges.append(edge)
    edges.append(frames)
    return tuple(
        Segment(number, first, after - first, index.key_before(tick_of(index, rate, first)))
        for number, (first, after) in enumerate(pairwise(edges))
    )


def vain_s(picture: Picture, segment: Segment) -> Fraction:
    """Seconds of the source that are decoded before the first frame of a segment."""
    begins_s = (segment.seek - picture.zero) * picture.time_base
    return max(segment.first / picture.rate - begins_s, Fraction(0))


def tick_of(index: Index, rate: Fraction, frame: int) -> int:
    """The source's tick at which this output frame is shown, at the latest."""
    return index.shown[0] + int(frame / rate / index.time_base)


def _cost(index: Index, rate: Fraction, frame: int) -> int:
    """How much is decoded in vain before this frame, in ticks."""
    tick = tick_of(index, rate, frame)
    return tick - index.key_before(tick)


def _plan_sounds(tracks: tuple[Audio, ...], profile: Profile) -> tuple[Sound, ...]:
    """Every track once; the first is the default unless the source names one."""
    default = next((track.stream for track in tracks if track.is_default), tracks[0].stream if tracks else -1)
    return tuple(
        Sound(
            stream=track.stream,
            channels=min(track.channels, CHANNELS_MAX),
            kbps=profile.audio.kbps_a_channel * min(track.channels, CHANNELS_MAX),
            loudness_lufs=profile.audio.loudness_lufs,
            language=track.language,
            title=track.title,
            is_default=track.stream == default,
            is_descriptive=track.is_descriptive,
        )
        for track in tracks
    )


def _left_out(text: Text) -> str:
    language = f", {text.language}" if text.language else ""
    return f"subtitle track {text.stream} ({text.codec}{language}) is not text and is left out"
