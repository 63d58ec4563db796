"""The DASH manifest over the same files, with the exact time of every one of them."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import groupby
from xml.etree import ElementTree as ET

from takeup.media import hls
from takeup.media.streams import Stream, rate_of
from takeup.media.text_streams import WHOLE as WHOLE_TEXT
from takeup.media.text_streams import TextStream

NAMESPACE = "urn:mpeg:dash:schema:mpd:2011"
PROFILE = "urn:mpeg:dash:profile:isoff-live:2011"
CHANNELS = "urn:mpeg:dash:23003:3:audio_channel_configuration:2011"
COLOURS = "urn:mpeg:mpegB:cicp"
ROLES = "urn:mpeg:dash:role:2011"
LANGUAGE_UNKNOWN = "und"


def manifest(
    pictures: Sequence[Stream],
    sounds: Sequence[Stream],
    rate: Fraction | None,
    length_s: Fraction,
    texts: Sequence[TextStream] = (),
) -> str:
    """One period: the sizes of one family as a set to switch in, every other track as a set of its own."""
    target = Fraction(hls.target_of([*pictures, *sounds]))
    root = ET.Element(
        "MPD",
        xmlns=NAMESPACE,
        type="static",
        profiles=PROFILE,
        mediaPresentationDuration=_duration(length_s),
        minBufferTime=_duration(target),
    )
    period = ET.SubElement(root, "Period", id="0", start="PT0S", duration=_duration(length_s))
    families = [list(family) for _, family in groupby(pictures, key=_family_of)]
    for number, family in enumerate(families):
        _picture_set(period, family, number, rate, target)
    for number, stream in enumerate(sounds, max(len(families), 1)):
        _sound_set(period, stream, number, target)
    for text in texts:
        _text_set(period, text, length_s)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _family_of(stream: Stream) -> tuple[str, str]:
    return (stream.rung.codec, stream.rung.range) if stream.rung else ("", "")


def _picture_set(
    period: ET.Element, streams: Sequence[Stream], number: int, rate: Fraction | None, target: Fraction
) -> None:
    rungs = [stream.rung for stream in streams if stream.rung]
    known = {
        "id": str(number),
        "contentType": "video",
        "mimeType": "video/mp4",
        "segmentAlignment": "true",
        "startWithSAP": "1",
        "maxWidth": str(max(rung.width for rung in rungs)),
        "maxHeight": str(max(rung.height for rung in rungs)),
    }
    shared = ET.SubElement(period, "AdaptationSet", known)
    _colours(shared, streams[0])
    _template(shared, streams[0])
    for stream in streams:
        if stream.rung is None:
            continue
        facts = {"width": str(stream.rung.width), "height": str(stream.rung.height), "sar": "1:1"}
        if rate is not None:
            facts["frameRate"] = str(rate)
        _representation(shared, stream, target, facts)


def _colours(parent: ET.Element, stream: Stream) -> None:
    """What a screen must be able to show; a player that does not know these leaves the set alone."""
    colours = stream.colours
    if colours is None or stream.video_range == "SDR":
        return
    for name, value in (
        ("ColourPrimaries", colours.primaries),
        ("TransferCharacteristics", colours.transfer),
        ("MatrixCoefficients", colours.matrix),
    ):
        ET.SubElement(parent, "EssentialProperty", schemeIdUri=f"{COLOURS}:{name}", value=str(value))


def _sound_set(period: ET.Element, stream: Stream, number: int, target: Fraction) -> None:
    sound = stream.sound
    known = {
        "id": str(number),
        "contentType": "audio",
        "mimeType": "audio/mp4",
        "segmentAlignment": "true",
        "startWithSAP": "1",
        "lang": (sound.language if sound else "") or LANGUAGE_UNKNOWN,
    }
    shared = ET.SubElement(period, "AdaptationSet", known)
    role = "main" if sound is None or sound.is_default else "alternate"
    if sound and sound.is_descriptive:
        role = "description"
    ET.SubElement(shared, "Role", schemeIdUri=ROLES, value=role)
    _template(shared, stream)
    inner = _representation(shared, stream, target, {"audioSamplingRate": str(stream.timescale)})
    channels = str(sound.channels if sound else 2)
    ET.SubElement(inner, "AudioChannelConfiguration", schemeIdUri=CHANNELS, value=channels)


def _text_set(period: ET.Element, stream: TextStream, length_s: Fraction) -> None:
    """A text track is one file: it is small, and its times are those of the period."""
    known = {
        "id": str(1 + max((int(found.get("id", "0")) for found in period), default=0)),
        "contentType": "text",
        "mimeType": "text/vtt",
        "lang": stream.text.language or LANGUAGE_UNKNOWN,
    }
    shared = ET.SubElement(period, "AdaptationSet", known)
    role = "forced-subtitle" if stream.text.is_forced else "subtitle"
    ET.SubElement(shared, "Role", schemeIdUri=ROLES, value=role)
    if stream.is_default:
        ET.SubElement(shared, "Role", schemeIdUri=ROLES, value="main")
    ET.SubElement(shared, "Label").text = stream.title
    rate = str(rate_of(len(stream.whole), length_s))
    inner = ET.SubElement(shared, "Representation", id=stream.name, bandwidth=rate)
    ET.SubElement(inner, "BaseURL").text = f"{stream.name}/{WHOLE_TEXT}"


def _template(parent: ET.Element, stream: Stream) -> None:
    template = ET.SubElement(
        parent,
        "SegmentTemplate",
        timescale=str(stream.timescale),
        presentationTimeOffset=str(stream.zero),
        initialization=f"$RepresentationID$/{hls.INIT}",
        media="$RepresentationID$/$Number%05d$.m4s",
        startNumber="1",
    )
    line = ET.SubElement(template, "SegmentTimeline")
    start = stream.start
    for length, again in _runs(int(piece.duration_s * stream.timescale) for piece in stream.pieces):
        entry = ET.SubElement(line, "S", t=str(start), d=str(length))
        if again:
            entry.set("r", str(again))
        start += length * (again + 1)


def _runs(lengths: Iterable[int]) -> list[tuple[int, int]]:
    """Each length with how often it comes again at once."""
    runs: list[tuple[int, int]] = []
    for length in lengths:
        if runs and runs[-1][0] == length:
            runs[-1] = length, runs[-1][1] + 1
        else:
            runs.append((length, 0))
    return runs


def _representation(
    parent: ET.Element, stream: Stream, target: Fraction, facts: dict[str, str]
) -> ET.Element:
    known = {"id": stream.name, "codecs": stream.codec, "bandwidth": str(stream.peak_rate(target))}
    return ET.SubElement(parent, "Representation", {**known, **facts})


def _duration(length_s: Fraction) -> str:
    return f"PT{float(length_s):.6f}".rstrip("0").rstrip(".") + "S"
