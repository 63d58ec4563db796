"""HLS playlists, written from what the files really hold."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil

from takeup.media.streams import Stream

VERSION = 7
GROUP = "sound"
PIECE = "{:05d}.m4s"
INIT = "init.mp4"


def target_of(streams: Iterable[Stream]) -> int:
    """The target duration, the same in every playlist: no piece rounds to more."""
    return max(ceil(piece.duration_s) for stream in streams for piece in stream.pieces)


def media_playlist(stream: Stream, target: int) -> str:
    """The playlist of one stream, beside its files."""
    lines = [*head(target), f'#EXT-X-MAP:URI="{INIT}"']
    for number, piece in enumerate(stream.pieces, 1):
        lines += [f"#EXTINF:{seconds(piece.duration_s)},", PIECE.format(number)]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def key_playlist(stream: Stream, target: int) -> str:
    """The playlist of the pictures that can be decoded alone, for seeking with a look."""
    lines = [*head(target), "#EXT-X-I-FRAMES-ONLY", f'#EXT-X-MAP:URI="{INIT}"']
    for number, piece in enumerate(stream.pieces, 1):
        for key in piece.keys:
            lines += [
                f"#EXTINF:{seconds(key.duration_s)},",
                f"#EXT-X-BYTERANGE:{key.length}@{key.start}",
                PIECE.format(number),
            ]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def master_playlist(
    pictures: Sequence[Stream],
    sounds: Sequence[Stream],
    rate: Fraction | None,
    more: Sequence[str] = (),
    texts: str = "",
) -> str:
    """The playlist of all of them; rates are measured, and those of a picture include the costliest sound.

    There may be `more` lines that are not about streams, and `texts` is the group of the text tracks.
    """
    target = Fraction(target_of([*pictures, *sounds]))
    lines = ["#EXTM3U", f"#EXT-X-VERSION:{VERSION}", "#EXT-X-INDEPENDENT-SEGMENTS"]
    lines += [*(_sound_line(stream) for stream in sounds if pictures), *more]
    extra_peak = max((stream.peak_rate(target) for stream in sounds), default=0)
    extra_mean = max((stream.mean_rate() for stream in sounds), default=0)
    codecs = list(dict.fromkeys(stream.codec for stream in sounds))
    for stream in pictures or sounds:
        is_picture = stream.rung is not None
        known = {
            "BANDWIDTH": stream.peak_rate(target) + (extra_peak if is_picture else 0),
            "AVERAGE-BANDWIDTH": stream.mean_rate() + (extra_mean if is_picture else 0),
            "CODECS": f'"{",".join([stream.codec, *(codecs if is_picture else [])])}"',
        }
        if stream.rung is not None and rate is not None:
            known |= {
                "RESOLUTION": f"{stream.rung.width}x{stream.rung.height}",
                "FRAME-RATE": f"{float(rate):.3f}",
                "VIDEO-RANGE": stream.video_range,
                "CLOSED-CAPTIONS": "NONE",
            }
            known |= {"AUDIO": f'"{GROUP}"'} if sounds else {}
        known |= {"SUBTITLES": f'"{texts}"'} if texts else {}
        lines += [f"#EXT-X-STREAM-INF:{listed(known)}", f"{stream.name}/index.m3u8"]
    lines += [_key_line(stream) for stream in pictures]
    return "\n".join([*lines, ""])


def _sound_line(stream: Stream) -> str:
    sound = stream.sound
    language = (sound.language if sound else "") or "und"
    title = (sound.title if sound else "") or language
    known = {
        "TYPE": "AUDIO",
        "GROUP-ID": f'"{GROUP}"',
        "NAME": f'"{quotable(title)} ({stream.name})"',
        "LANGUAGE": f'"{language}"',
        "DEFAULT": "YES" if sound and sound.is_default else "NO",
        "AUTOSELECT": "YES",
        "CHANNELS": f'"{sound.channels if sound else 2}"',
        "URI": f'"{stream.name}/index.m3u8"',
    }
    if sound and sound.is_descriptive:
        known["CHARACTERISTICS"] = '"public.accessibility.describes-video"'
    return f"#EXT-X-MEDIA:{listed(known)}"


def _key_line(stream: Stream) -> str:
    keys = [key for piece in stream.pieces for key in piece.keys]
    known = {
        "BANDWIDTH": max(ceil(key.length * 8 / key.duration_s) for key in keys),
        "CODECS": f'"{stream.codec}"',
        "RESOLUTION": f"{stream.rung.width}x{stream.rung.height}" if stream.rung else "",
        "VIDEO-RANGE": stream.video_range,
        "URI": f'"{stream.name}/keys.m3u8"',
    }
    return f"#EXT-X-I-FRAME-STREAM-INF:{listed(known)}"


def head(target: int) -> list[str]:
    """How every playlist of pieces begins."""
    return [
        "#EXTM3U",
        f"#EXT-X-VERSION:{VERSION}",
        f"#EXT-X-TARGETDURATION:{target}",
        "#EXT-X-MEDIA-SEQUENCE:1",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
    ]


def listed(known: Mapping[str, object]) -> str:
    """Attributes as a line of a playlist has them."""
    return ",".join(f"{name}={value}" for name, value in known.items())


def quotable(text: str) -> str:
    """A text as it may stand between quotes."""
    return text.replace('"', "'")


def seconds(length: Fraction) -> str:
    """A length as playlists tell it."""
    return f"{float(length):.6f}"
