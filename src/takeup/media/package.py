"""A package: a folder of files for every stream, playlists that lead to them, and a page that plays them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from takeup.media import audio, chapters, dash, fmp4, hls, hls_text, page, webvtt
from takeup.media.errors import MediaError
from takeup.media.fmp4 import Movie
from takeup.media.ladder import Rung
from takeup.media.plan import Plan
from takeup.media.streams import Put, Stream, picture_stream, sound_stream
from takeup.media.text_streams import WHOLE, TextStream, pieces_of, text_streams

MASTER = "master.m3u8"
MANIFEST = "manifest.mpd"
PAGE = "index.html"


def package(
    plan: Plan,
    segments: Sequence[Mapping[str, Path]],
    sounds: Mapping[int, Path],
    folder: Path,
    *,
    kept: Mapping[str, Path] | None = None,
    texts: Mapping[int, Path] | None = None,
    title: str = "",
) -> list[dict[str, Any]]:
    """Write the package of these encoded files: one a rung for each segment, one a sound or text track.

    Rungs that are `kept` are taken from their folders in an earlier package. Answers with what is in it.
    """
    picture = plan.picture
    movies = {name: partial(packaged, old) for name, old in (kept or {}).items()}
    for rung in complete(plan, segments, movies):
        movies.setdefault(rung.name, partial(_encoded, rung, segments))
    tracks = [
        sound_stream(audio.load(sounds[sound.stream]), sound, picture, name, _into(folder / name))
        for number, sound in enumerate(plan.sounds, 1)
        for name in (f"sound-{number}",)
    ]
    pictures = [
        picture_stream(picture, rung, movies[rung.name](), _into(folder / rung.name))
        for rung in (picture.rungs if picture else ())
        if picture and rung.name in movies
    ]
    target = hls.target_of([*pictures, *tracks])
    for stream in (*pictures, *tracks):
        _describe(folder / stream.name, stream, target)
    worded = _put_texts(folder, plan, texts or {}, target)
    more = [*hls_text.media_lines(worded), *_put_chapters(folder, plan)]
    rate = picture.rate if picture else None
    master = hls.master_playlist(pictures, tracks, rate, more, hls_text.GROUP if worded else "")
    (folder / MASTER).write_text(master, encoding="utf-8")
    manifest = dash.manifest(pictures, tracks, rate, plan.length_s, worded)
    (folder / MANIFEST).write_text(manifest, encoding="utf-8")
    (folder / PAGE).write_text(page.player_page(title), encoding="utf-8")
    return [_about(stream, Fraction(target)) for stream in (*pictures, *tracks)]


def _encoded(rung: Rung, segments: Sequence[Mapping[str, Path]]) -> Iterator[Movie]:
    """The segments of a rung as they were encoded, one at a time."""
    return (fmp4.load(files[rung.name]) for files in segments)


def packaged(folder: Path) -> Iterator[Movie]:
    """The pieces of a rung as they were packaged before: joined anew they come out the same."""
    init = (folder / hls.INIT).read_bytes()
    return (fmp4.read(init + file.read_bytes()) for file in sorted(folder.glob("*.m4s")))


def _about(stream: Stream, target_s: Fraction) -> dict[str, Any]:
    rung, sound = stream.rung, stream.sound
    return {
        "name": stream.name,
        "codec": stream.codec,
        "size": f"{rung.width}x{rung.height}" if rung else None,
        "channels": sound.channels if sound else None,
        "language": sound.language if sound else None,
        "bytes": sum(piece.size for piece in stream.pieces),
        "mean_rate": stream.mean_rate(),
        "peak_rate": stream.peak_rate(target_s),
    }


def complete(plan: Plan, segments: Sequence[Mapping[str, Path]], kept: Collection[str] = ()) -> list[Rung]:
    """The rungs of which every segment was made; one that is critical must be among them, or kept."""
    rungs = [rung for rung in (plan.picture.rungs if plan.picture else ()) if rung.name not in kept]
    whole = [rung for rung in rungs if all(rung.name in files for files in segments)]
    missing = [rung.name for rung in rungs if rung.is_critical and rung not in whole]
    if missing or (rungs and not whole and not kept):
        raise MediaError(f"some segments of {', '.join(missing) or 'every rung'} are missing")
    return whole


def _into(folder: Path) -> Put:
    """Pieces become files of this folder as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    return lambda number, data: (folder / hls.PIECE.format(number)).write_bytes(data)


def _describe(folder: Path, stream: Stream, target: int) -> None:
    (folder / hls.INIT).write_bytes(stream.init)
    (folder / "index.m3u8").write_text(hls.media_playlist(stream, target))
    if stream.rung is not None:
        (folder / "keys.m3u8").write_text(hls.key_playlist(stream, target))


def _put_texts(folder: Path, plan: Plan, files: Mapping[int, Path], target: int) -> list[TextStream]:
    """Write the text tracks that were taken out of the source, whole and in pieces."""
    tracks = [(text, files[text.stream]) for text in plan.texts if text.stream in files]
    streams = text_streams([(text, webvtt.read(file.read_bytes())) for text, file in tracks])
    for stream in streams:
        own = folder / stream.name
        own.mkdir(parents=True, exist_ok=True)
        (own / WHOLE).write_bytes(stream.whole)
        lengths = []
        for number, (data, length_s) in enumerate(pieces_of(plan, stream.cues), 1):
            (own / hls_text.PIECE.format(number)).write_bytes(data)
            lengths.append(length_s)
        (own / "index.m3u8").write_text(hls_text.media_playlist(lengths, target))
    return streams


def _put_chapters(folder: Path, plan: Plan) -> list[str]:
    """Write the chapters, if there are any; what the master playlist says of them is returned."""
    if not plan.chapters:
        return []
    (folder / chapters.VTT).write_bytes(chapters.to_vtt(plan.chapters))
    (folder / chapters.JSON).write_text(chapters.to_json(plan.chapters), encoding="utf-8")
    return [chapters.SESSION_LINE]
