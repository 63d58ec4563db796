"""A package: the files of every stream in a folder of its own, and the playlists that lead to them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from takeup.media import audio, dash, fmp4, hls
from takeup.media.errors import MediaError
from takeup.media.ladder import Rung
from takeup.media.plan import Plan
from takeup.media.streams import Put, Stream, picture_stream, sound_stream

MASTER = "master.m3u8"
MANIFEST = "manifest.mpd"
PAGE = "index.html"


def package(
    plan: Plan, segments: Sequence[Mapping[str, Path]], sounds: Mapping[int, Path], folder: Path
) -> None:
    """Write the package of these encoded files: for each segment one a rung, and one a sound track."""
    picture = plan.picture
    tracks = [
        sound_stream(audio.load(sounds[sound.stream]), sound, picture, name, _into(folder / name))
        for number, sound in enumerate(plan.sounds, 1)
        for name in (f"sound-{number}",)
    ]
    pictures = [
        picture_stream(
            picture,
            rung,
            (fmp4.load(files[rung.name]) for files in segments),
            _into(folder / rung.name),
        )
        for rung in (complete(plan, segments) if picture else ())
        if picture
    ]
    target = hls.target_of([*pictures, *tracks])
    for stream in (*pictures, *tracks):
        _describe(folder / stream.name, stream, target)
    rate = picture.rate if picture else None
    (folder / MASTER).write_text(hls.master_playlist(pictures, tracks, rate))
    (folder / MANIFEST).write_text(dash.manifest(pictures, tracks, rate, plan.length_s), encoding="utf-8")


def complete(plan: Plan, segments: Sequence[Mapping[str, Path]]) -> list[Rung]:
    """The rungs of which every segment was made; one that is critical must be among them."""
    rungs = plan.picture.rungs if plan.picture else ()
    whole = [rung for rung in rungs if all(rung.name in files for files in segments)]
    missing = [rung.name for rung in rungs if rung.is_critical and rung not in whole]
    if missing or (rungs and not whole):
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
