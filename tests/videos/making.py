"""Small files that are media, and packages made by hand, where no tool needs to run."""

import io
import wave
from functools import partial
from pathlib import Path

from takeup.artifacts.versions import Versions
from takeup.media.entry import entries

PIECE = bytes(range(250))
MASTER = """#EXTM3U
#EXT-X-STREAM-INF:BANDWIDTH=1000,RESOLUTION=426x240,CODECS="avc1.640015,mp4a.40.2",AUDIO="a"
240p/index.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=1000,RESOLUTION=426x240,CODECS="avc1.640015,mp4a.40.2",AUDIO="b"
240p/index.m3u8
"""
TRACK = """#EXTM3U
#EXT-X-TARGETDURATION:2
#EXT-X-MAP:URI="init.mp4"
#EXTINF:2.0,
00001.m4s
#EXTINF:0.5,
00002.m4s
#EXT-X-ENDLIST
"""


def sound(seconds: float = 0.2) -> bytes:
    """A file that any tool knows as media."""
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(b"\x00\x10" * int(8000 * seconds))
    return made.getvalue()


def package(folder: Path, master: str = MASTER) -> Path:
    """What a job would publish."""
    (folder / "240p").mkdir(parents=True)
    for name in ("init.mp4", "00001.m4s", "00002.m4s"):
        (folder / "240p" / name).write_bytes(PIECE)
    (folder / "240p" / "index.m3u8").write_text(TRACK)
    (folder / "master.m3u8").write_text(master)
    (folder / "manifest.mpd").write_text("<MPD></MPD>")
    (folder / "index.html").write_text("<html><head></head><body>a page</body></html>")
    (folder / "plan.json").write_text("{}")
    return folder


def publish(stream: Path, folder: Path, origin: str) -> int:
    """The same, published as the next version."""
    made = package(folder)
    return Versions(stream).publish(made, origin, partial(entries, made), keep=2)
