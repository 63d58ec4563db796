"""What a source is, from one look into it: tracks, times, sizes, colours, languages."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from takeup.media.errors import MediaError, NotMedia, TooLarge
from takeup.media.source import Source
from takeup.media.tools import PIXELS_MAX, Tools
from takeup.media.words import one_line

PROBE_S_MAX = 60.0
REPORT_BYTES_MAX = 16 << 20
DURATION_S_MAX = 24 * 3600
RATE_MAX = 240
SIDE_MAX = 8192
CHAPTERS_MAX = 1000
TEXT_CODECS = ("subrip", "srt", "ass", "ssa", "webvtt", "mov_text", "text")
COVER_CODECS = ("mjpeg",)
HDR_TRANSFERS: dict[str, Literal["pq", "hlg"]] = {"smpte2084": "pq", "arib-std-b67": "hlg"}
FIELDS = ("tt", "bb", "tb", "bt")
FRAMES_SLACK = 1000
ENTRIES = (
    "format=format_name,duration:stream=index,codec_type,codec_name,width,height,pix_fmt,sample_aspect_ratio,"
    "avg_frame_rate,r_frame_rate,time_base,start_time,duration,nb_frames,field_order,color_range,color_space,"
    "color_transfer,color_primaries,sample_rate,channels:stream_disposition:stream_tags=language,title:"
    "stream_side_data=rotation:chapter=start_time,end_time:chapter_tags=title"
)
"""What is asked for; a file may say a great deal more of itself."""


@dataclass(frozen=True, slots=True)
class Colour:
    """How the numbers of a picture are to be read; empty where the source does not say."""

    range: str = ""
    matrix: str = ""
    transfer: str = ""
    primaries: str = ""


@dataclass(frozen=True, slots=True)
class Video:
    """The picture track; width and height are as it is shown, rotated and with square pixels not yet made."""

    stream: int
    codec: str
    width: int
    height: int
    pixel_shape: Fraction
    rotation: int
    pixel_format: str
    bit_depth: int
    rate: Fraction | None
    """Frames a second on average."""
    time_base: Fraction
    start_s: Fraction
    duration_s: Fraction | None
    frames: int
    """As the container counts them; 0 where it does not."""
    field_order: str
    """As the source is marked, which may be wrong."""
    is_interlaced: bool
    """As it is marked, until somebody looked."""
    colour: Colour
    hdr: Literal["pq", "hlg"] | None


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound track."""

    stream: int
    codec: str
    sample_rate: int
    channels: int
    language: str
    title: str
    start_s: Fraction
    is_default: bool
    is_descriptive: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A subtitle track."""

    stream: int
    codec: str
    language: str
    title: str
    is_default: bool
    is_forced: bool


@dataclass(frozen=True, slots=True)
class Chapter:
    """A named part."""

    start_s: Fraction
    end_s: Fraction
    title: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Everything about a source that a plan rests on, but for its frames."""

    container: str
    duration_s: Fraction
    video: Video | None
    audio: tuple[Audio, ...]
    texts: tuple[Text, ...]
    chapters: tuple[Chapter, ...]
    drawn_texts: tuple[Text, ...] = ()
    """Subtitles that are pictures or of an unknown kind, which nobody can make text of."""
    cover: int | None = None
    """The track that holds one picture for all of it, as music has."""


async def probe(tools: Tools, source: Source) -> Probe:
    """Look into a source; nothing is decoded."""
    with tempfile.TemporaryFile() as report:
        await tools.ffprobe(
            source, "-show_entries", ENTRIES, "-of", "json=compact=1",
            stdout=report, wall_s=PROBE_S_MAX, bytes_max=REPORT_BYTES_MAX,
        )  # fmt: skip
        report.seek(0)
        try:
            return read(json.loads(report.read().decode("utf-8", "replace")))
        except (ValueError, KeyError, TypeError) as error:
            raise MediaError(f"the source describes itself in a way that makes no sense: {error}") from error


def read(report: Mapping[str, Any]) -> Probe:
    """The facts of ffprobe's report, checked for sense and size."""
    streams = report.get("streams", [])
    videos = [_video(s) for s in streams if s["codec_type"] == "video" and not _is(s, "attached_pic")]
    audio = tuple(_audio(s) for s in streams if s["codec_type"] == "audio" and s.get("channels"))
    texts = [_text(s) for s in streams if s["codec_type"] == "subtitle"]
    if not videos and not audio:
        raise NotMedia("there is neither picture nor sound in it")
    video = max(videos, key=lambda v: v.width * v.height) if videos else None
    found = Probe(
        container=report["format"]["format_name"],
        duration_s=_seconds(report["format"].get("duration")) or (video and video.duration_s) or Fraction(0),
        video=video,
        audio=audio,
        texts=tuple(text for text in texts if text.codec in TEXT_CODECS),
        drawn_texts=tuple(text for text in texts if text.codec not in TEXT_CODECS),
        cover=next((int(s["index"]) for s in streams if _is_cover(s)), None),
        chapters=tuple(map(_chapter, report.get("chapters", [])[:CHAPTERS_MAX])),
    )
    _check(found)
    return found


def _check(found: Probe) -> None:
    if found.duration_s > DURATION_S_MAX:
        raise TooLarge(f"it lasts {float(found.duration_s):.0f} s; at most {DURATION_S_MAX} are taken")
    video = found.video
    if video is None:
        return
    if video.width < 1 or video.height < 1:
        raise TooLarge(f"its picture has no size, or more than {PIXELS_MAX} pixels")
    wide, high = (round(side) for side in square(video.width, video.height, video.pixel_shape))
    if max(wide, high) > SIDE_MAX:
        raise TooLarge(f"its picture is shown as {wide}×{high}; a side has at most {SIDE_MAX}")
    if video.rate is not None and video.rate > RATE_MAX:
        raise TooLarge(f"it has {float(video.rate):.0f} frames a second; at most {RATE_MAX} are taken")
    if video.frames > found.duration_s * RATE_MAX + FRAMES_SLACK:
        raise TooLarge(f"it has {video.frames} frames in {float(found.duration_s):.0f} s")


def square(width: int, height: int, pixel_shape: Fraction) -> tuple[Fraction, Fraction]:
    """The size of a picture once its pixels are square; no side becomes shorter."""
    if pixel_shape >= 1:
        return width * pixel_shape, Fraction(height)
    return Fraction(width), height / pixel_shape


def _video(stream: Mapping[str, Any]) -> Video:
    rotation = 0
    for extra in stream.get("side_data_list", ()):
        rotation = round(float(extra.get("rotation", rotation))) % 360
    width, height = int(stream.get("width", 0)), int(stream.get("height", 0))
    if rotation % 180 == 90:  # noqa: PLR2004 - a quarter turn
        width, height = height, width
    shape = _ratio(stream.get("sample_aspect_ratio"), ":") or Fraction(1)
    transfer = stream.get("color_transfer", "")
    return Video(
        stream=int(stream["index"]),
        codec=stream.get("codec_name", "unknown"),
        width=width,
        height=height,
        pixel_shape=1 / shape if rotation % 180 else shape,
        rotation=rotation,
        pixel_format=stream.get("pix_fmt", ""),
        bit_depth=_depth(stream.get("pix_fmt", "")),
        rate=_ratio(stream.get("avg_frame_rate"), "/") or _ratio(stream.get("r_frame_rate"), "/"),
        time_base=Fraction(stream["time_base"]),
        start_s=_seconds(stream.get("start_time")) or Fraction(0),
        duration_s=_seconds(stream.get("duration")),
        frames=int(stream.get("nb_frames", 0)),
        field_order=stream.get("field_order", ""),
        is_interlaced=stream.get("field_order") in FIELDS,
        colour=Colour(
            stream.get("color_range", ""),
            stream.get("color_space", ""),
            transfer,
            stream.get("color_primaries", ""),
        ),
        hdr=HDR_TRANSFERS.get(transfer),
    )


def _audio(stream: Mapping[str, Any]) -> Audio:
    return Audio(
        stream=int(stream["index"]),
        codec=stream.get("codec_name", "unknown"),
        sample_rate=int(stream.get("sample_rate") or 0),
        channels=int(stream["channels"]),
        language=_language(stream),
        title=_label(stream, "title"),
        start_s=_seconds(stream.get("start_time")) or Fraction(0),
        is_default=_is(stream, "default"),
        is_descriptive=_is(stream, "visual_impaired") or _is(stream, "descriptions"),
    )


def _text(stream: Mapping[str, Any]) -> Text:
    return Text(
        stream=int(stream["index"]),
        codec=stream.get("codec_name", "unknown"),
        language=_language(stream),
        title=_label(stream, "title"),
        is_default=_is(stream, "default"),
        is_forced=_is(stream, "forced"),
    )


def _chapter(chapter: Mapping[str, Any]) -> Chapter:
    start, end = _seconds(chapter.get("start_time")), _seconds(chapter.get("end_time"))
    return Chapter(start or Fraction(0), end or Fraction(0), _label(chapter, "title"))


def _is(stream: Mapping[str, Any], disposition: str) -> bool:
    return bool(stream.get("disposition", {}).get(disposition))


def _is_cover(stream: Mapping[str, Any]) -> bool:
    return _is(stream, "attached_pic") and stream.get("codec_name") in COVER_CODECS


def _language(stream: Mapping[str, Any]) -> str:
    said = _label(stream, "language").lower()
    return said if said.isascii() and said.replace("-", "").isalnum() and said != "und" else ""


def _label(thing: Mapping[str, Any], name: str) -> str:
    """A text that a stranger wrote."""
    tags = {key.lower(): value for key, value in thing.get("tags", {}).items()}
    return one_line(str(tags.get(name, "")))


def _seconds(text: str | None) -> Fraction | None:
    return None if text in (None, "N/A") else Fraction(str(text))


def _ratio(text: str | None, sign: str) -> Fraction | None:
    """A ratio of two numbers; ffprobe writes 0 where it does not know."""
    if not text:
        return None
    over, _, under = text.partition(sign)
    return Fraction(int(over), int(under)) if int(over or 0) > 0 and int(under or 0) > 0 else None


def _depth(pixel_format: str) -> int:
    for depth in (16, 14, 12, 10, 9):
        if f"p{depth}" in pixel_format or f"p0{depth}" in pixel_format or f"gray{depth}" in pixel_format:
            return depth
    return 10 if pixel_format in ("p010le", "x2rgb10le", "x2bgr10le") else 8
