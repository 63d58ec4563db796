"""What HLS needs for text tracks: a playlist of pieces for each, and their lines in the master playlist."""

from collections.abc import Sequence
from fractions import Fraction

from takeup.media.hls import head, listed, quotable, seconds
from takeup.media.text_streams import TextStream

GROUP = "text"
PIECE = "{:05d}.vtt"


def media_playlist(lengths: Sequence[Fraction], target: int) -> str:
    """The playlist of one track whose pieces last so long, beside its files."""
    lines = head(target)
    for number, length_s in enumerate(lengths, 1):
        lines += [f"#EXTINF:{seconds(length_s)},", PIECE.format(number)]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def media_lines(streams: Sequence[TextStream]) -> list[str]:
    """One line a track for the master playlist."""
    return [f"#EXT-X-MEDIA:{listed(_known(stream))}" for stream in streams]


def _known(stream: TextStream) -> dict[str, str]:
    return {
        "TYPE": "SUBTITLES",
        "GROUP-ID": f'"{GROUP}"',
        "NAME": f'"{quotable(stream.title)}"',
        "LANGUAGE": f'"{stream.text.language or "und"}"',
        "DEFAULT": "YES" if stream.is_default else "NO",
        "AUTOSELECT": "YES",
        "FORCED": "YES" if stream.text.is_forced else "NO",
        "URI": f'"{stream.name}/index.m3u8"',
    }
